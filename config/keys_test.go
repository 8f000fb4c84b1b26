package config_test

import (
	"strings"
	"testing"
)

// documented are the keys of a topology, as documented: table, key, and a value that is accepted, the default or the example.
const documented = `
gateway node "gw"
gateway interfaces ["eth0"]
gateway driver "afxdp"
gateway xdp_mode "auto"
gateway queues 0
gateway flow_cache "auto"
gateway checksum "auto"
gateway pod_cidrs ["10.64.0.0/14","fd64:10::/48"]
gateway snat_addresses []
gateway snat_ports "32768-60999"
gateway masquerade_all false
gateway nodeport_addresses "primary"
gateway admin "unix:/run/sluice/admin.sock"
gateway metrics "127.0.0.1:10249"
gateway healthz "0.0.0.0:10256"
gateway reject_with "tcp-reset"
gateway pod_interfaces ["azv*"]
gateway state_file ""
cluster domain "cluster.local"
cluster service_cidrs ["10.96.0.0/16"]
cluster node_port_range "30000-32767"
cluster load_balancer_pools ["203.0.113.0/27"]
cluster external_ip_cidrs ["198.51.100.0/24"]
cluster unknown_port "pass"
cluster unallocated "pass"
cluster max_endpoints_per_slice 1000
conntrack max_flows 1048576
conntrack tcp_syn "60s"
conntrack tcp_established "2h"
conntrack tcp_half_closed "1h"
conntrack tcp_time_wait "30s"
conntrack tcp_close "10s"
conntrack udp "30s"
conntrack udp_stream "120s"
conntrack icmp "30s"
conntrack tcp_liberal true
conntrack sctp_setup "10s"
conntrack sctp "210s"
conntrack sctp_shutdown "3s"
dns ttl 5
dns address ""
dns pods "disabled"
dns reverse_zones []
dns namespaces []
dns ignore_empty_services false
dns no_endpoints false
dns endpoint_pod_names false
dns zonal false
dns external_zone ""
dns chaos ""
dns transfer_to ["198.18.0.53","10.0.0.0/8"]
dns forward ["198.18.0.53","/etc/resolv.conf"]
dns stub {"corp.example"=["198.18.0.53"]}
dns autopath true
dns search ["corp.example"]
dns tls_certificate ""
dns tls_key ""
dns coredns_compat false
node zone "az-1"
node pod_cidrs []
node cpu 8
node ready false
node control_plane true
namespace labels {team="web"}
service type "ClusterIP"
service cluster_ips ["10.96.4.10"]
service ip_families ["IPv4"]
service ip_family_policy "SingleStack"
service external_ips []
service load_balancer_ips []
service load_balancer_ip_mode "VIP"
lb load_balancer_hostnames ["a.example"]
service load_balancer_source_ranges []
lbranges load_balancer_source_ranges_policy "deny"
lbranges load_balancer_source_ranges_scope "all"
service allocate_load_balancer_node_ports true
lblocal health_check_node_port 30099
service external_traffic_policy "Cluster"
service internal_traffic_policy "Cluster"
service traffic_distribution "PreferClose"
service session_affinity "ClientIP"
affine session_affinity_timeout "1h"
affine session_affinity_scope "service"
service on_endpoint_removed "reset"
service publish_not_ready_addresses false
service external_name ""
service selector {}
service labels {}
service annotations {}
port name "web"
port protocol "TCP"
port target_port 9090
port node_port 0
endpoint ports {""=9090}
endpoint hostname "cart-0"
endpoint pod ""
endpoint node "gw"
endpoint zone "az-1"
endpoint ready true
endpoint serving true
endpoint terminating false
endpoint weight 1
endpoint for_zones ["az-1"]
endpoint for_nodes ["gw"]
check type "http"
check path "/healthz"
check port ""
check interval "2s"
check timeout "1s"
check rise 2
check fall 3
`

// withKey returns a topology in which a table has one more key.
func withKey(table, key, value string) string {
	tables := []struct{ name, header, keys string }{
		{"gateway", "[gateway]", `node = "gw"`},
		{"cluster", "[cluster]", `service_cidrs = ["10.96.0.0/16"]`},
		{"conntrack", "[conntrack]", ""},
		{"dns", "[dns]", ""},
		{"node", "[[node]]", "name = \"gw\"\naddresses = [\"198.18.0.10\"]"},
		{"namespace", "[[namespace]]", `name = "t"`},
		{"service", "[[service]]", "namespace = \"t\"\nname = \"s\""},
		{"port", "[[service.port]]", "port = 80"},
		{"endpoint", "[[service.endpoint]]", `address = "10.64.0.11"`},
		{"affine", "[[service]]", "namespace = \"t\"\nname = \"affine\"\nsession_affinity = \"ClientIP\""},
		{"affineport", "[[service.port]]", "port = 80"},
		{"lbranges", "[[service]]", "namespace = \"t\"\nname = \"lbranges\"\ntype = \"LoadBalancer\"\n" +
			"load_balancer_source_ranges = [\"198.18.0.0/24\"]"},
		{"lbrangesport", "[[service.port]]", "port = 80"},
		{"lblocal", "[[service]]", "namespace = \"t\"\nname = \"lblocal\"\ntype = \"LoadBalancer\"\nexternal_traffic_policy = \"Local\""},
		{"lblocalport", "[[service.port]]", "port = 80"},
		{"lb", "[[service]]", "namespace = \"t\"\nname = \"lb\"\ntype = \"LoadBalancer\""},
		{"lbport", "[[service.port]]", "port = 80"},
		{"check", "[service.health_check]", ""},
	}
	var b strings.Builder
	for _, tab := range tables {
		b.WriteString(tab.header + "\n")
		for line := range strings.Lines(tab.keys + "\n") {
			if tab.name != table || !strings.HasPrefix(line, key+" =") {
				b.WriteString(line)
			}
		}
		if tab.name == table {
			b.WriteString(key + " = " + value + "\n")
		}
	}
	return b.String()
}

// wrong returns values of other types than the given one. Two keys have values of several types.
func wrong(key, value string) (out []string) {
	several := map[string]string{"target_port": `"x"`, "cpu": "1.5"}
	for _, v := range []string{`"x"`, "1", "1.5", "true", "2026-01-01", "[[1]]", "{ x = [] }"} {
		if several[key] != v && v[0] != value[0] && (v != "true" || value != "false") && (v != "1" || value[0] < '0' || value[0] > '9') {
			out = append(out, v)
		}
	}
	return out
}

// TestKeys tries every documented key: with a value that is right and with values of the wrong type.
func TestKeys(t *testing.T) {
	keys := 0
	for line := range strings.Lines(strings.TrimSpace(documented)) {
		f := strings.Fields(line)
		table, key, value := f[0], f[1], f[2]
		keys++
		t.Run(table+"."+key, func(t *testing.T) {
			if got := load(t, withKey(table, key, value)); got != "" {
				t.Errorf("%s: %s", value, got)
			}
			for _, v := range wrong(key, value) {
				got := load(t, withKey(table, key, v))
				want := "." + key
				if !strings.Contains(got, want) {
					t.Errorf("%s is accepted, or the fault is of another key: %q", v, got)
				}
			}
		})
	}
	if keys != 111 {
		t.Errorf("%d keys", keys)
	}
}
