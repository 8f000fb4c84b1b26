package engine

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"sluice/config/topology"
)

// TestFixedKeys names every key that cannot change while the appliance runs, and no other.
func TestFixedKeys(t *testing.T) {
	for name, change := range map[string]func(*topology.Topology){
		"gateway.interfaces":      func(t *topology.Topology) { t.Gateway.Interfaces = []string{"other"} },
		"gateway.driver":          func(t *topology.Topology) { t.Gateway.Driver = "asavie" },
		"gateway.xdp_mode":        func(t *topology.Topology) { t.Gateway.XDPMode = "generic" },
		"gateway.queues":          func(t *topology.Topology) { t.Gateway.Queues = 2 },
		"gateway.checksum":        func(t *topology.Topology) { t.Gateway.Checksum = "full" },
		"gateway.snat_addresses":  func(t *topology.Topology) { t.Gateway.SNATAddresses = addrs("198.18.0.99") },
		"gateway.snat_ports":      func(t *topology.Topology) { t.Gateway.SNATPorts.First++ },
		"gateway.admin":           func(t *topology.Topology) { t.Gateway.Admin = "/run/other.sock" },
		"gateway.metrics":         func(t *topology.Topology) { t.Gateway.Metrics = "127.0.0.1:1" },
		"gateway.healthz":         func(t *topology.Topology) { t.Gateway.Healthz = "127.0.0.1:2" },
		"cluster.node_port_range": func(t *topology.Topology) { t.Cluster.NodePortRange.Last-- },
		"conntrack.max_flows":     func(t *topology.Topology) { t.Conntrack.MaxFlows++ },
		"conntrack.tcp_liberal":   func(t *topology.Topology) { t.Conntrack.TCPLiberal = true },
	} {
		next := testTopology()
		change(next)
		errs := fixedKeys(testTopology(), next)
		if len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), name+": ") {
			t.Errorf("%s: %v", name, errs)
		}
	}
	if errs := fixedKeys(testTopology(), moved()); len(errs) != 0 {
		t.Errorf("other endpoints: %v", errs)
	}
}

// TestFixedTimeouts covers each timeout that there is.
func TestFixedTimeouts(t *testing.T) {
	fields := reflect.TypeFor[topology.Timeouts]()
	seen := map[string]bool{}
	for i := range fields.NumField() {
		next := testTopology()
		reflect.ValueOf(&next.Conntrack.Timeouts).Elem().Field(i).SetInt(int64(time.Minute + 1))
		errs := fixedKeys(testTopology(), next)
		if len(errs) != 1 {
			t.Errorf("%s: %v", fields.Field(i).Name, errs)
			continue
		}
		key, _, _ := strings.Cut(errs[0].Error(), ":")
		if want := "conntrack." + strings.ToLower(fields.Field(i).Name); strings.ReplaceAll(key, "_", "") != want || seen[key] {
			t.Errorf("%s is called %s", fields.Field(i).Name, key)
		}
		seen[key] = true
	}
}
