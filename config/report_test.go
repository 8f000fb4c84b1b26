package config_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/config/topology"
)

// reported is a topology with a service that has something of everything, and a plain one.
func reported() *topology.Topology {
	endpoint := func(addr string, ports map[string]uint16) topology.Endpoint {
		return topology.Endpoint{Address: netip.MustParseAddr(addr), Ports: ports, Ready: true, Weight: 1, ForZones: []string{"az-1"}}
	}
	return &topology.Topology{Services: []topology.Service{{
		Namespace: "shop", Name: "cart", Type: topology.LoadBalancer, ExternalTrafficPolicy: topology.PolicyLocal,
		InternalTrafficPolicy: topology.PolicyLocal, LoadBalancerProxyMode: true, LoadBalancerHostnames: []string{"lb.example.org"},
		SourceRanges: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}, SourceRangesDeny: true, SourceRangesAll: true,
		HealthCheckNodePort: 30099, SessionAffinity: true, AffinityTimeout: 90 * time.Second, AffinityPerService: true,
		RemovedReset: true, TrafficDistribution: "PreferSameZone",
		Ports: []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80, TargetName: "http"}, {Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353}},
		Endpoints: []topology.Endpoint{endpoint("10.64.0.12", map[string]uint16{"web": 8080}),
			endpoint("10.64.0.11", map[string]uint16{"web": 9090, "dns": 5353})},
		Slices: []topology.Slice{{Name: "cart-1", Family: "IPv4", Ports: map[string]uint16{"web": 8080}, Endpoints: []int{0}},
			{Name: "cart-2", Family: "IPv4", Ports: map[string]uint16{"web": 9090, "dns": 5353}, Endpoints: []int{1}}},
		Hints: topology.HintsStatus{Mode: "none", Reason: "node without zone or CPU"},
	}, {
		Namespace: "shop", Name: "plain", Type: topology.ClusterIP, ExternalTrafficPolicy: topology.PolicyCluster,
		InternalTrafficPolicy: topology.PolicyCluster, Hints: topology.HintsStatus{Mode: "none"},
	}}}
}

// TestReportText shows people what is not as by default.
func TestReportText(t *testing.T) {
	var b bytes.Buffer
	if err := config.NewReport(reported(), nil).Text(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(b.String(), "\n")
	last := func(line string) string { return line[strings.LastIndexByte(line, ' ')+1:] }
	if got, want := last(lines[1]), "external=Local,internal=Local,health=30099,affinity=ClientIP/90s/service,distribution=PreferSameZone,"+
		"mode=Proxy,removed=reset,ranges=deny/all/1,hints=none"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := last(lines[2]); got != "-" {
		t.Errorf("the plain one has %s", got)
	}
}

// TestReportJSON gives programs the slices, hints, targets and endpoints of the model.
func TestReportJSON(t *testing.T) {
	var b bytes.Buffer
	if err := config.NewReport(reported(), nil).JSON(&b); err != nil {
		t.Fatal(err)
	}
	var got struct{ Services []map[string]any }
	if err := json.Unmarshal(b.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	type object = map[string]any
	s := got.Services[0]
	wanted := object{
		"health_check_node_port":   30099.0,
		"session_affinity":         "ClientIP",
		"session_affinity_timeout": 90.0,
		"external_traffic_policy":  "Local",
		"internal_traffic_policy":  "Local",
		"traffic_distribution":     "PreferSameZone",
		"load_balancer_hostnames":  []any{"lb.example.org"},
		"hints":                    object{"mode": "none", "reason": "node without zone or CPU"},
		"slices": []any{
			object{"name": "cart-1", "family": "IPv4", "ports": object{"web": 8080.0}, "endpoints": []any{"10.64.0.12"}, "ready": 1.0},
			object{"name": "cart-2", "family": "IPv4", "ports": object{"web": 9090.0, "dns": 5353.0}, "endpoints": []any{"10.64.0.11"}, "ready": 1.0},
		},
		"ports": []any{
			object{"name": "web", "protocol": "TCP", "port": 80.0, "target_port": "http", "node_port": 0.0},
			object{"name": "dns", "protocol": "UDP", "port": 53.0, "target_port": 5353.0, "node_port": 0.0},
		},
	}
	for key, want := range wanted {
		if !reflect.DeepEqual(s[key], want) {
			t.Errorf("%s is %v, want %v", key, s[key], want)
		}
	}
	var served []string
	for _, e := range s["endpoints"].([]any) {
		e := e.(object)
		served = append(served, e["address"].(string)+"/"+e["port_name"].(string))
		if !reflect.DeepEqual(e["for_zones"], []any{"az-1"}) || !reflect.DeepEqual(e["for_nodes"], []any{}) {
			t.Errorf("hints of %v", e)
		}
	}
	if want := []string{"10.64.0.11/dns", "10.64.0.11/web", "10.64.0.12/web"}; !reflect.DeepEqual(served, want) {
		t.Errorf("served %v, want %v", served, want)
	}
	if plain := got.Services[1]; plain["session_affinity"] != "None" || plain["session_affinity_timeout"] != 0.0 {
		t.Errorf("the plain one has %v", plain)
	}
}
