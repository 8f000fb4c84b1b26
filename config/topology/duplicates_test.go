package topology_test

import (
	"testing"

	"sluice/config/topology"
)

// TestDuplicateEndpoints holds that the same address may be given twice behind a service, with the same port: while a pod is
// replaced, the one that ends and the one that runs share an address for a moment. Kubernetes' rule for choosing between
// them is applied where endpoints are chosen, so both must come through.
func TestDuplicateEndpoints(t *testing.T) {
	in := topology.NewInput()
	in.Gateway.Node = "gw"
	in.Cluster.ServiceCIDRs = []string{"198.19.0.0/24"}
	in.Nodes = []topology.NodeInput{{Name: "gw", Addresses: []string{"198.18.0.1"}}}
	s := topology.ServiceInput{Namespace: "shop", Name: "cart"}
	s.SetDefaults()
	s.Ports = []topology.PortInput{{Protocol: "TCP", Port: 80}}
	for _, node := range []string{"wk-7", "gw"} {
		e := topology.EndpointInput{Address: "198.18.1.11", Node: node}
		e.SetDefaults()
		e.Terminating = node == "wk-7"
		s.Endpoints = append(s.Endpoints, e)
	}
	in.Services = []topology.ServiceInput{s}
	top, faults := topology.Resolve(in)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got := top.Services[0].Endpoints
	if len(got) != 2 || !got[0].Terminating || got[0].Ready || got[1].Terminating || !got[1].Ready {
		t.Errorf("endpoints %+v, want a terminating one and a ready one", got)
	}
}
