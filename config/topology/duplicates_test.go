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

// TestReadiness of listed endpoints: what is given is taken at its word, as proxies take an EndpointSlice.
func TestReadiness(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		given                       *bool
		terminating, publish, ready bool
	}{
		{nil, false, false, true}, {nil, true, false, false}, {nil, true, true, true},
		{&yes, false, false, true}, {&yes, true, false, true}, {&no, false, false, false}, {&no, true, false, false}, {&no, false, true, true},
	} {
		in := topology.NewInput()
		in.Gateway.Node = "gw"
		in.Cluster.ServiceCIDRs = []string{"10.96.0.0/16"}
		in.Nodes = []topology.NodeInput{{Name: "gw", Addresses: []string{"198.18.0.10"}, Ready: true}}
		s := topology.ServiceInput{Namespace: "t", Name: "s", Ports: []topology.PortInput{{Protocol: "TCP", Port: 80}}}
		s.SetDefaults()
		e := topology.EndpointInput{Address: "198.18.1.11"}
		e.SetDefaults()
		e.Ready, e.Terminating, s.PublishNotReady = c.given, c.terminating, c.publish
		s.Endpoints = []topology.EndpointInput{e}
		in.Services = []topology.ServiceInput{s}
		top, faults := topology.Resolve(in)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		if got := top.Services[0].Endpoints[0].Ready; got != c.ready {
			t.Errorf("%+v: ready %v", c, got)
		}
	}
}

// TestUnservedPort: an endpoint may serve some ports of its service only.
func TestUnservedPort(t *testing.T) {
	in := topology.NewInput()
	in.Gateway.Node = "gw"
	in.Cluster.ServiceCIDRs = []string{"10.96.0.0/16"}
	in.Nodes = []topology.NodeInput{{Name: "gw", Addresses: []string{"198.18.0.10"}, Ready: true}}
	s := topology.ServiceInput{Namespace: "t", Name: "s", Ports: []topology.PortInput{
		{Name: "web", Protocol: "TCP", Port: 80}, {Name: "alt", Protocol: "TCP", Port: 81}}}
	s.SetDefaults()
	e := topology.EndpointInput{Address: "198.18.1.11", Ports: map[string]int{"alt": 0}}
	e.SetDefaults()
	s.Endpoints = []topology.EndpointInput{e}
	in.Services = []topology.ServiceInput{s}
	top, faults := topology.Resolve(in)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := top.Services[0].Endpoints[0].Ports; len(got) != 1 || got["web"] != 80 {
		t.Errorf("serves %v, want web only", got)
	}
}
