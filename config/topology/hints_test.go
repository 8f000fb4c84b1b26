package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestHintCases(t *testing.T) {
	for _, c := range readCases(t, "hints", 8) {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case c.Input.TrafficDistribution != "":
				c.trafficDistribution(t)
			case c.Input.Desired != nil:
				c.balance(t)
			case c.Input.CPUByZone != nil:
				c.allocation(t)
			default:
				c.nodes(t)
			}
		})
	}
}

func (c *sliceCase) nodes(t *testing.T) {
	var nodes []Node
	for _, n := range c.Input.Nodes {
		nodes = append(nodes, Node{Name: "n", Zone: n.Zone, CPU: n.CPU, ControlPlane: n.ControlPlane, Ready: true})
	}
	z := shareZones(nodes)
	if hints, given := c.Expected.Hints.(bool); given && hints != (z.problem == "") {
		t.Errorf("%+v", z)
	}
	if !maps.Equal(z.byZone, c.Expected.Ratios) {
		t.Errorf("shares %v, want %v", z.byZone, c.Expected.Ratios)
	}
}

func (c *sliceCase) allocation(t *testing.T) {
	var nodes []Node
	for zone, cpu := range c.Input.CPUByZone {
		nodes = append(nodes, Node{Name: zone, Zone: zone, CPU: cpu, Ready: true})
	}
	got, problem := shareZones(nodes).allocate(c.Input.ReadyEndpoints)
	if c.Expected.Hints.(bool) != (problem == "") {
		t.Errorf("problem %q", problem)
	}
	for zone, want := range c.Expected.Allocation {
		if a := got[zone]; float64(a.minimum) != want[0] || a.desired != want[1] {
			t.Errorf("%s: %+v, want %v", zone, a, want)
		}
	}
}

func (c *sliceCase) balance(t *testing.T) {
	wanted := map[string]allocation{}
	for zone, d := range c.Input.Desired {
		wanted[zone] = allocation{desired: d}
	}
	give, receive := balance(wanted, c.Input.Current)
	if !maps.Equal(give, c.Expected.Give) || !maps.Equal(receive, c.Expected.Receive) {
		t.Errorf("give %v, receive %v", give, receive)
	}
}

func (c *sliceCase) trafficDistribution(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		selects(s)
		s.TrafficDistribution = c.Input.TrafficDistribution
	})
	for i, e := range c.Input.Endpoints {
		in.Nodes = append(in.Nodes, NodeInput{Name: e.Node, Zone: e.Zone})
		addPod(in, e.Node, func(p *PodInput) { p.Node, p.Ready = e.Node, e.Ready }, fmt.Sprintf("198.18.1.%d", i+1))
	}
	s := find(t, resolve(t, in), "s")
	for i, want := range c.Expected.Hints.([]any) {
		var zones []string
		if h, ok := want.(map[string]any); ok {
			for _, z := range h["forZones"].([]any) {
				zones = append(zones, z.(string))
			}
		}
		if e := s.Endpoints[i]; !slices.Equal(e.ForZones, zones) || len(e.ForNodes) != 0 {
			t.Errorf("endpoint %d has %v %v, want %v", i, e.ForZones, e.ForNodes, zones)
		}
	}
	if s.Hints != (HintsStatus{Mode: "PreferSameZone"}) {
		t.Errorf("%+v", s.Hints)
	}
}

// zoned returns an input with a node of one processor in each zone, and a service with a number of pods in each: "aab" is two in
// zone a and one in b. A capital stands for an unready one.
func zoned(zones, pods string, change func(*ServiceInput)) *Input {
	in := input("10.96.0.0/16", "fd00:96::/112")
	in.Nodes[0].ControlPlane, in.Nodes[0].Ready = true, true
	for _, z := range zones {
		in.Nodes = append(in.Nodes, NodeInput{Name: "n" + string(z), Zone: string(z), CPU: 1, Ready: true})
	}
	addService(in, "s", func(s *ServiceInput) {
		selects(s)
		if change != nil {
			change(s)
		}
	})
	for i, z := range pods {
		lower := strings.ToLower(string(z))
		addPod(in, fmt.Sprint("p", i), func(p *PodInput) { p.Node, p.Ready = "n"+lower, lower == string(z) }, fmt.Sprintf("198.18.1.%d", i+1))
	}
	return in
}

func auto(s *ServiceInput) {
	s.Annotations = map[string]string{"service.kubernetes.io/topology-mode": "Auto"}
}

// hintsOf writes the zones that endpoints have hints for: "ab-" is one for a, one for b, and one without.
func hintsOf(s *Service) (out string) {
	for _, e := range s.Endpoints {
		if len(e.ForZones) == 0 {
			out += "-"
		}
		out += strings.Join(e.ForZones, "+")
	}
	return out
}

func TestTopologyHints(t *testing.T) {
	for _, c := range []struct {
		name   string
		in     *Input
		hints  string
		mode   string
		reason string
	}{
		{"not asked for", zoned("ab", "aabb", nil), "----", "none", ""},
		{"even", zoned("ab", "aabb", auto), "aabb", "topology", ""},
		{"unready have none", zoned("ab", "aaAbbB", auto), "aa-bb-", "topology", ""},
		{"moved", zoned("ab", "aaaa", auto), "bbaa", "topology", ""},
		{"moved to several zones", zoned("abc", "aaaaaa", auto), "bbccaa", "topology", ""},
		{"overload of an odd number", zoned("ab", "aaabb", auto), "-----", "none", "5 ready endpoints cannot be spread over 2 zones without overload: 6 are needed"},
		{"half an endpoint too many stays", zoned("ab", "aaaaaabbbbb", auto), "aaaaaabbbbb", "topology", ""},
		{"too few", zoned("abc", "ab", auto), "--", "none", "fewer ready endpoints than zones: 2 and 3"},
		{"too few ready", zoned("ab", "aB", auto), "--", "none", "fewer ready endpoints than zones: 1 and 2"},
		{"one zone", zoned("a", "aaa", auto), "---", "none", "all nodes that count are in one zone"},
		{"endpoint elsewhere", zoned("ab", "aabc", auto), "----", "none", "endpoint 198.18.1.4 has no zone"},
		{"overload", zoned("aaaaab", "aaa", auto), "---", "none", "3 ready endpoints cannot be spread over 2 zones without overload: 4 are needed"},
		{"the older annotation", zoned("ab", "aabb", func(s *ServiceInput) {
			s.Annotations = map[string]string{"service.kubernetes.io/topology-aware-hints": "auto"}
		}), "aabb", "topology", ""},
		{"another spelling", zoned("ab", "aabb", func(s *ServiceInput) {
			auto(s)
			s.Annotations["service.kubernetes.io/topology-mode"] = "AUTO"
		}), "----", "none", ""},
		{"the annotation wins even in vain", zoned("a", "aa", func(s *ServiceInput) {
			auto(s)
			s.TrafficDistribution = "PreferClose"
		}), "--", "none", "all nodes that count are in one zone"},
		{"same zone", zoned("ab", "abBc", func(s *ServiceInput) { s.TrafficDistribution = "PreferSameZone" }), "ab--", "PreferSameZone", ""},
		{"same zone without zones", zoned("ab", "cd", func(s *ServiceInput) { s.TrafficDistribution = "PreferSameZone" }), "--", "none", "no ready endpoint has a zone"},
		{"same zone, none ready", zoned("ab", "AB", func(s *ServiceInput) { s.TrafficDistribution = "PreferClose" }), "--", "none", "no endpoint is ready"},
		{"two families", func() *Input {
			in := zoned("ab", "aabb", func(s *ServiceInput) { auto(s); s.IPFamilyPolicy = "PreferDualStack" })
			in.Pods[0].Addresses = append(in.Pods[0].Addresses, "2001:db8:1::1")
			return in
		}(), "a-abb", "topology", "IPv6: fewer ready endpoints than zones: 1 and 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			// A zone written twice is a node of the same name twice.
			names := map[string]int{}
			for i := range c.in.Nodes {
				n := &c.in.Nodes[i]
				if names[n.Name]++; names[n.Name] > 1 {
					n.Name += fmt.Sprint(names[n.Name])
				}
			}
			s := find(t, resolve(t, c.in), "s")
			if got := hintsOf(s); got != c.hints || s.Hints.Mode != c.mode || s.Hints.Reason != c.reason {
				t.Errorf("%s %+v, want %s %s %q", got, s.Hints, c.hints, c.mode, c.reason)
			}
		})
	}
}

// TestNodeHints has each ready endpoint serve its own node, and its zone.
func TestNodeHints(t *testing.T) {
	s := find(t, resolve(t, zoned("a", "aAc", func(s *ServiceInput) { s.TrafficDistribution = "PreferSameNode" })), "s")
	var got []string
	for _, e := range s.Endpoints {
		got = append(got, fmt.Sprint(e.ForZones, e.ForNodes))
	}
	if want := []string{"[a] [na]", "[] []", "[] [nc]"}; !slices.Equal(got, want) || s.Hints.Mode != "PreferSameNode" {
		t.Errorf("%q %+v, want %q", got, s.Hints, want)
	}
}

func TestNodesWithoutShares(t *testing.T) {
	good := Node{Name: "a", Zone: "a", CPU: 1, Ready: true}
	for _, c := range []struct {
		node Node
		want string
	}{
		{Node{Name: "b", CPU: 1, Ready: true}, `node "b" has no zone`},
		{Node{Name: "b", Zone: "b", Ready: true}, `node "b" has no cpu`},
		{Node{Name: "b", CPU: 1}, "all nodes that count are in one zone"},
		{Node{Name: "b", Ready: true, ControlPlane: true}, "all nodes that count are in one zone"},
		{Node{Name: "b", Zone: "b", CPU: 0.5, Ready: true}, ""},
	} {
		if z := shareZones([]Node{good, c.node}); z.problem != c.want {
			t.Errorf("%+v: %q, want %q", c.node, z.problem, c.want)
		}
	}
	if z := shareZones(nil); z.problem != "no node is ready and not of the control plane" {
		t.Errorf("%q", z.problem)
	}
}

// TestHandWrittenHints lists endpoints by hand: hints are computed for them too, unless one of them has its own.
func TestHandWrittenHints(t *testing.T) {
	for _, own := range []bool{false, true} {
		in := zoned("ab", "", func(s *ServiceInput) {
			auto(s)
			s.Selector = nil
			for i, z := range []string{"a", "a", "b", "b"} {
				e := endpoint(fmt.Sprintf("198.18.1.%d", i+1), nil)
				e.Zone = z
				s.Endpoints = append(s.Endpoints, e)
			}
			if own {
				s.Endpoints[2].ForZones, s.Endpoints[3].ForNodes = []string{"c"}, []string{"n"}
			}
		})
		want, status := "aabb", HintsStatus{Mode: "topology"}
		if own {
			want, status = "--c-", HintsStatus{"none", "the topology gives the endpoints hints of its own"}
		}
		if s := find(t, resolve(t, in), "s"); hintsOf(s) != want || s.Hints != status || own && s.Endpoints[3].ForNodes[0] != "n" {
			t.Errorf("%s %+v, want %s", hintsOf(s), s.Hints, want)
		}
	}
}

// TestHintsStay resolves again after a pod has moved: hints of slices that have not changed stay as long as no zone has more
// than its maximum.
func TestHintsStay(t *testing.T) {
	in := zoned("ab", "aaaa", auto)
	top, state, _ := ResolveFrom(in, nil)
	if got := hintsOf(find(t, top, "s")); got != "bbaa" {
		t.Fatal(got)
	}
	in.Nodes[1].CPU = 1.3 // a has 57 % now: still 2 of 4
	again, state, _ := ResolveFrom(in, state)
	if got := hintsOf(find(t, again, "s")); got != "bbaa" {
		t.Errorf("hints moved: %s", got)
	}
	in.Nodes[1].CPU = 4 // b has 20 %: at most 1 of 4
	after, _, _ := ResolveFrom(in, state)
	if got := hintsOf(find(t, after, "s")); got != "baaa" {
		t.Errorf("hints did not move: %s", got)
	}
}

// TestAllocationsAddUp checks what the rules promise, over many sizes: the minima fit, and no zone is wanted above its maximum.
func TestAllocationsAddUp(t *testing.T) {
	for zones := 2; zones < 6; zones++ {
		for n := 0; n < 60; n++ {
			var nodes []Node
			for i := range zones {
				nodes = append(nodes, Node{Name: "n", Zone: fmt.Sprint(i), CPU: float64(1 + i*i), Ready: true})
			}
			got, problem := shareZones(nodes).allocate(n)
			sum := 0
			for _, a := range got {
				sum += a.minimum
				if a.desired*(1/(1+overload)) > float64(a.minimum) && math.Ceil(a.desired*(1/(1+overload))) > float64(a.minimum) {
					t.Errorf("%d zones, %d endpoints: %+v is below the overload", zones, n, a)
				}
			}
			for _, a := range got {
				if a.maximum-a.minimum != n-sum || sum > n {
					t.Errorf("%d zones, %d endpoints: %+v, sum %d", zones, n, got, sum)
				}
			}
			if (problem == "") != (got != nil) || n < zones && problem == "" {
				t.Errorf("%d zones, %d endpoints: %v %q", zones, n, got, problem)
			}
		}
	}
}
