package nat_test

import (
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
)

// hinted returns a ready endpoint of cart that is hinted to zones and nodes.
func hinted(addr, node string, zones, nodes []string) topology.Endpoint {
	e := endpoint(addr, node)
	e.ForZones, e.ForNodes = zones, nodes
	return e
}

// list shortens the tables below.
func list(s ...string) []string { return s }

const (
	epA, epB, epC = "10.64.0.11:9090", "10.66.1.12:9090", "10.66.1.13:9090"
	allOfThree    = epA + " " + epB + " " + epC
)

// three returns an edit that gives cart three endpoints, the first on this node, in a gateway of zone az-1.
func three(first, second, third topology.Endpoint) func(*topology.Topology, *topology.Service) {
	return func(top *topology.Topology, s *topology.Service) {
		top.Gateway.Zone = "az-1"
		s.Endpoints = []topology.Endpoint{first, second, third}
	}
}

// and chains edits.
func and(edits ...func(*topology.Topology, *topology.Service)) func(*topology.Topology, *topology.Service) {
	return func(top *topology.Topology, s *topology.Service) {
		for _, edit := range edits {
			edit(top, s)
		}
	}
}

// TestDecideHints: the rules of kube-proxy's topologyModeFromHints and CategorizeEndpoints.
func TestDecideHints(t *testing.T) {
	const first, second, third = "10.64.0.11", "10.66.1.12", "10.66.1.13"
	az := func(addr string, zones ...string) topology.Endpoint { return hinted(addr, "wk-7", zones, nil) }
	zones := three(hinted(first, "gw-a", list("az-1"), nil), az(second, "az-2"), az(third, "az-1"))
	both := three(hinted(first, "gw-a", list("az-2"), list("gw-a")), hinted(second, "wk-7", list("az-1"), list("wk-7")),
		hinted(third, "wk-8", list("az-1"), list("wk-8")))
	change := func(i int, f func(*topology.Endpoint)) func(*topology.Topology, *topology.Service) {
		return func(_ *topology.Topology, s *topology.Service) { f(&s.Endpoints[i]) }
	}
	unhint := func(e *topology.Endpoint) { e.ForZones, e.ForNodes = nil, nil }
	unready := func(e *topology.Endpoint) { e.Ready, e.Serving = false, false }
	terminating := func(e *topology.Endpoint) { e.Ready, e.Terminating = false, true }
	gatewayIs := func(node, zone string) func(*topology.Topology, *topology.Service) {
		return func(top *topology.Topology, _ *topology.Service) { top.Gateway.Node, top.Gateway.Zone = node, zone }
	}
	tests := []struct {
		name string
		edit func(*topology.Topology, *topology.Service)
		want string
	}{
		{"zone", zones, epA + " " + epC},
		{"one without a hint", and(zones, change(1, unhint)), allOfThree},
		{"one without a hint that is not ready", and(zones, change(1, unhint), change(1, unready)), epA + " " + epC},
		{"one without a hint that is terminating", and(zones, change(1, unhint), change(1, terminating)), epA + " " + epC},
		{"one without a hint that has no weight", and(zones, change(1, unhint),
			change(1, func(e *topology.Endpoint) { e.Weight = 0 })), epA + " " + epC},
		{"node without a zone", and(zones, gatewayIs("gw-a", "")), allOfThree},
		{"no hint for the zone", and(zones, gatewayIs("gw-a", "az-9")), allOfThree},
		{"several hints of one endpoint", three(az(first, "az-3", "az-1"), az(second, "az-2"), az(third, "az-2", "az-3")), epA},
		{"the only endpoint for the zone is not ready", and(three(az(first, "az-1"), az(second, "az-2"), az(third, "az-3")),
			change(0, unready)), epB + " " + epC},
		{"node before zone", both, epA},
		{"no hint for the node: zone", and(both, gatewayIs("gw-b", "az-1")), epB + " " + epC},
		{"no hint for either", and(both, gatewayIs("gw-b", "az-9")), allOfThree},
		{"one without a node hint: zone", and(both, change(1, func(e *topology.Endpoint) { e.ForNodes = nil })), epB + " " + epC},
		{"one without any hint", and(both, change(1, unhint)), allOfThree},
		{"node without a name", and(both, gatewayIs("", "az-1")), epB + " " + epC},
		{"empty hint and node without a zone", and(three(az(first, ""), az(second, ""), az(third, "az-1")), gatewayIs("gw-a", "")), allOfThree},
		{"fallback to terminating ones ignores hints", and(zones, change(0, terminating), change(1, terminating),
			change(2, terminating)), allOfThree},
	}
	for _, tt := range tests {
		// The policy of the others is Cluster, so that every way in is the same.
		for _, way := range []struct {
			dst, snat string
			port      uint16
			why       reason.Reason
		}{{clusterIP, "", 8088, reason.ClusterIP}, {vip, ourV4, 8088, reason.LoadBalancer}, {thisNode, ourV4, 31234, reason.NodePort}} {
			t.Run(tt.name+"/"+way.why.String(), func(t *testing.T) {
				test := decideTest{tt.name, tt.edit, overTCP, anyPod, way.dst, way.port, false, nat.Forward, way.why, tt.want, way.snat}
				test.run(t)
			})
		}
	}
	more := []decideTest{
		{"never on the local set, internal", and(zones, itpLocal, change(0, func(e *topology.Endpoint) { e.ForZones = list("az-2") })),
			overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, epA, ""},
		{"never on the local set, external", and(zones, etpLocal, change(0, func(e *topology.Endpoint) { e.ForZones = list("az-2") })),
			overTCP, outside, vip, 8088, false, nat.Forward, reason.LoadBalancer, epA, ""},
		{"on the set of pods under external policy Local", and(zones, etpLocal), overTCP, anyPod, vip, 8088, false,
			nat.Forward, reason.LoadBalancer, epA + " " + epC, ""},
		{"on the set of the node under external policy Local", and(zones, etpLocal), overTCP, thisNode, vip, 8088, true,
			nat.Forward, reason.LoadBalancer, epA + " " + epC, ourV4},
		{"the local set falls back while the other does not", and(zones, etpLocal, change(0, terminating)), overTCP, outside, vip, 8088,
			false, nat.Forward, reason.LoadBalancer, epA, ""},
		{"and the other has the ready ones", and(zones, etpLocal, change(0, terminating)), overTCP, anyPod, vip, 8088,
			false, nat.Forward, reason.LoadBalancer, epC, ""},
	}
	for _, tt := range more {
		t.Run(tt.name, tt.run)
	}
}

// TestHintsOfOneFamily: the families are independent of each other.
func TestHintsOfOneFamily(t *testing.T) {
	edit := func(top *topology.Topology, s *topology.Service) {
		top.Gateway.Zone = "az-1"
		s.Endpoints = []topology.Endpoint{hinted("10.64.0.11", "gw-a", list("az-1"), nil), hinted("10.66.1.12", "wk-7", list("az-2"), nil),
			endpoint("fd64:10::11", "gw-a")}
	}
	for _, tt := range []decideTest{
		{"v4", edit, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, epA, ""},
		{"v6", edit, overTCP, anyPod6, "fd64:112::20", 8088, false, nat.Forward, reason.ClusterIP, only6, ""},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestHintsDown: an endpoint that fails its health check is as if it were not there, for the hints as well.
func TestHintsDown(t *testing.T) {
	top, svc := gateway(), cart()
	three(hinted("10.64.0.11", "gw-a", list("az-1"), nil), hinted("10.66.1.12", "wk-7", list("az-2"), nil),
		hinted("10.66.1.13", "wk-7", list("az-2"), nil))(top, &svc)
	top.Services = []topology.Service{svc}
	table := compile(t, top, nat.CompileOptions{Down: down("10.64.0.11")})
	tu := tuple(overTCP, anyPod, 40123, clusterIP, 8088)
	d := table.Decide(&tu, nat.Origin{})
	if len(d.Candidates) != 2 || d.Candidates[0].AddrPort.String() != epB || d.Candidates[1].AddrPort.String() != epC {
		t.Errorf("candidates %v, want %s and %s: nothing is left in the zone", d.Candidates, epB, epC)
	}
}
