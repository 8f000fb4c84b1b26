package topology

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
)

// addPod adds a ready pod with the label app = web.
func addPod(in *Input, name string, change func(*PodInput), addresses ...string) {
	p := PodInput{Namespace: "t", Name: name, Addresses: addresses, Labels: map[string]string{"app": "web"}}
	p.SetDefaults()
	if change != nil {
		change(&p)
	}
	in.Pods = append(in.Pods, p)
}

// selects makes a service take the pods of addPod.
func selects(s *ServiceInput) { s.Selector = map[string]string{"app": "web"} }

func TestPodConditions(t *testing.T) {
	type want struct{ ready, serving, terminating bool }
	for _, c := range []struct {
		name    string
		change  func(*PodInput)
		publish bool
		want    []want
	}{
		{"ready", nil, false, []want{{true, true, false}}},
		{"unready", func(p *PodInput) { p.Ready = false }, false, []want{{false, false, false}}},
		{"unready, published", func(p *PodInput) { p.Ready = false }, true, []want{{true, false, false}}},
		{"terminating", func(p *PodInput) { p.Terminating = true }, false, []want{{false, true, true}}},
		{"terminating, published", func(p *PodInput) { p.Terminating = true }, true, []want{{true, true, true}}},
		{"terminating, unready", func(p *PodInput) { p.Terminating, p.Ready = true, false }, false, []want{{false, false, true}}},
		{"pending", func(p *PodInput) { p.Phase, p.Ready = "Pending", false }, false, []want{{false, false, false}}},
		{"unknown", func(p *PodInput) { p.Phase = "Unknown" }, false, []want{{true, true, false}}},
		{"succeeded", func(p *PodInput) { p.Phase = "Succeeded" }, true, nil},
		{"failed", func(p *PodInput) { p.Phase = "Failed" }, true, nil},
		{"no address", func(p *PodInput) { p.Addresses = nil }, true, nil},
		{"other family", func(p *PodInput) { p.Addresses = []string{"2001:db8:1::1"} }, true, nil},
		{"other label", func(p *PodInput) { p.Labels = map[string]string{"app": "w"} }, true, nil},
		{"no labels", func(p *PodInput) { p.Labels = nil }, true, nil},
		{"more labels", func(p *PodInput) { p.Labels["x"] = "y" }, false, []want{{true, true, false}}},
		{"other namespace", func(p *PodInput) { p.Namespace = "u" }, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16", "fd00:96::/112")
			addService(in, "s", func(s *ServiceInput) { selects(s); s.PublishNotReady = c.publish })
			addPod(in, "p", c.change, "198.18.1.1")
			var got []want
			for _, e := range find(t, resolve(t, in), "s").Endpoints {
				got = append(got, want{e.Ready, e.Serving, e.Terminating})
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPodEndpoint(t *testing.T) {
	in := input("10.96.0.0/16", "fd00:96::/112")
	in.Nodes = append(in.Nodes, NodeInput{Name: "wk", Zone: "az-1"})
	addService(in, "s", func(s *ServiceInput) {
		s.IPFamilyPolicy, s.Selector = "PreferDualStack", map[string]string{"app": "web", "tier": "front"}
		s.Ports[0].TargetPort = "http"
	})
	addPod(in, "a", func(p *PodInput) {
		p.Node, p.Hostname, p.Subdomain, p.Labels["tier"] = "wk", "h", "s", "front"
		p.Ports = map[string]int{"http": 8080, "other": 1}
	}, "198.18.1.1", "2001:db8:1::1")
	addPod(in, "b", func(p *PodInput) {
		p.Node, p.Hostname, p.Subdomain, p.Labels["tier"] = "unlisted", "h", "else", "front"
	}, "198.18.1.2")
	addPod(in, "c", nil, "198.18.1.3")
	top := resolve(t, in)
	var got []string
	for _, e := range find(t, top, "s").Endpoints {
		got = append(got, fmt.Sprintf("%v %v %s %s %s %s %d", e.Address, e.Ports, e.Pod, e.Node, e.Zone, e.Hostname, e.Weight))
	}
	want := []string{"198.18.1.1 map[:8080] a wk az-1 h 1", "2001:db8:1::1 map[:8080] a wk az-1 h 1", "198.18.1.2 map[] b unlisted   1"}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if len(top.Pods) != 3 || top.Pods[0].Ports["http"] != 8080 || top.Pods[0].Addresses[0] != netip.MustParseAddr("198.18.1.1") {
		t.Errorf("pods %+v", top.Pods)
	}
}

// TestPodsByPort gives a service ports some of which a pod does not have.
func TestPodsByPort(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		selects(s)
		s.Ports = []PortInput{{Name: "a", Protocol: "TCP", Port: 80, TargetPort: "http"}, {Name: "b", Protocol: "TCP", Port: 81, TargetPort: int64(90)}}
	})
	addPod(in, "p", func(p *PodInput) { p.Ports = map[string]int{"http": 8080} }, "198.18.1.1")
	addPod(in, "q", nil, "198.18.1.2")
	var got []map[string]uint16
	for _, e := range find(t, resolve(t, in), "s").Endpoints {
		got = append(got, e.Ports)
	}
	if want := []map[string]uint16{{"a": 8080, "b": 90}, {"b": 90}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestNamedTargetByHand lists endpoints for a port whose target is the name of a port of pods: there is no pod to ask, so each
// says its number.
func TestNamedTargetByHand(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		s.Ports[0].TargetPort = "http"
		s.Endpoints = []EndpointInput{endpoint("198.18.1.1", nil), endpoint("198.18.1.2", map[string]int{"": 8080})}
	})
	_, faults := Resolve(in)
	if len(faults) != 1 || faults[0].Path != "service[0].endpoint[0].ports" {
		t.Errorf("faults %v, want one at service[0].endpoint[0].ports", faults)
	}
	in.Services[0].Endpoints = in.Services[0].Endpoints[1:]
	if e := find(t, resolve(t, in), "s").Endpoints; e[0].Ports[""] != 8080 {
		t.Errorf("got %v", e[0].Ports)
	}
}

// TestTwoPodsOfOneAddress has a pod that ended on paper only: both stay (kubernetes/kubernetes#115907).
func TestTwoPodsOfOneAddress(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", selects)
	addPod(in, "old", func(p *PodInput) { p.Ready, p.Terminating = false, true }, "198.18.1.1")
	addPod(in, "new", nil, "198.18.1.1")
	s := find(t, resolve(t, in), "s")
	if len(s.Endpoints) != 2 || !reflect.DeepEqual(s.Slices[0].Endpoints, []int{0, 1}) {
		t.Errorf("endpoints %+v, slices %+v", s.Endpoints, s.Slices)
	}
}

func TestPodsRefused(t *testing.T) {
	pod := func(change func(*PodInput)) func(*Input) {
		return func(in *Input) { addPod(in, "p", change, "198.18.1.1") }
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"good", pod(nil), nil},
		{"dots in the name", pod(func(p *PodInput) { p.Name = "a.b" }), nil},
		{"no names", pod(func(p *PodInput) { p.Name, p.Namespace = "", "" }), []string{"pod[0].namespace: missing", "pod[0].name: missing"}},
		{"name in capitals", pod(func(p *PodInput) { p.Name = "P" }), []string{"pod[0].name: not a DNS name"}},
		{"twice", func(in *Input) { pod(nil)(in); pod(nil)(in) }, []string{"pod[1].name: t/p is there twice"}},
		{"same name, other namespace", func(in *Input) { pod(nil)(in); pod(func(p *PodInput) { p.Namespace = "u" })(in) }, nil},
		{"phase", pod(func(p *PodInput) { p.Phase = "running" }), []string{"pod[0].phase: not allowed"}},
		{"hostname", pod(func(p *PodInput) { p.Hostname, p.Subdomain = "A", "b." }), []string{"pod[0].hostname: not a DNS label", "pod[0].subdomain: not a DNS label"}},
		{"two of a family", pod(func(p *PodInput) { p.Addresses = append(p.Addresses, "198.18.1.2") }), []string{"pod[0].addresses[1]: second IPv4 address"}},
		{"loopback", pod(func(p *PodInput) { p.Addresses = []string{"x", "::1"} }), []string{"pod[0].addresses[0]: not an IP address", "pod[0].addresses[1]: cannot be"}},
		{"ports", pod(func(p *PodInput) { p.Ports = map[string]int{"A": 1, "b": 0} }), []string{"pod[0].ports.A: not a DNS label", "pod[0].ports.b: out of range"}},
		{"selector and endpoints", func(in *Input) {
			addService(in, "s", func(s *ServiceInput) { selects(s); s.Endpoints = []EndpointInput{endpoint("198.18.1.1", nil)} })
		}, []string{"service[0].endpoint: gets its endpoints from [[pod]]"}},
		{"empty selector and endpoints", func(in *Input) {
			addService(in, "s", func(s *ServiceInput) {
				s.Selector, s.Endpoints = map[string]string{}, []EndpointInput{endpoint("198.18.1.1", nil)}
			})
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			c.change(in)
			expectFaults(t, in, c.want...)
		})
	}
}

func TestExternalNameSelectsNothing(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) { selects(s); s.Type, s.ExternalName = "ExternalName", "a.example" })
	addPod(in, "p", nil, "198.18.1.1")
	if s := find(t, resolve(t, in), "s"); len(s.Endpoints) != 0 || len(s.Slices) != 0 {
		t.Errorf("%+v", s)
	}
}

func TestPodMakesNamespace(t *testing.T) {
	in := input("10.96.0.0/16")
	addPod(in, "p", nil, "198.18.1.1")
	if n := resolve(t, in).Namespaces; len(n) != 1 || n[0].Name != "t" {
		t.Errorf("%v", n)
	}
}
