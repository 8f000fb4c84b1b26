package topology

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// resolveFrom resolves an input after a state, by way of the state's text.
func resolveFrom(t *testing.T, in *Input, previous *State) (*Topology, *State) {
	t.Helper()
	top, state, faults := ResolveFrom(in, previous)
	if len(faults) > 0 {
		t.Fatalf("%v", faults)
	}
	text, err := state.Encode()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := ParseState(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	again, err := parsed.Encode()
	if err != nil || string(again) != string(text) {
		t.Fatalf("%v\n%s\nis read as\n%s", err, text, again)
	}
	return top, parsed
}

// given is what a service was allocated.
type given struct {
	clusterIPs, vips []netip.Addr
	nodePorts        []uint16
}

func givenTo(s *Service) (g given) {
	g.clusterIPs, g.vips = s.ClusterIPs, s.LoadBalancerIPs
	for _, p := range s.Ports {
		g.nodePorts = append(g.nodePorts, p.NodePort)
	}
	return g
}

// TestKept allocates without anything remembered, in a place that hashing would not find again, and then changes things.
func TestKept(t *testing.T) {
	kept := ServiceState{
		ClusterIPs:      []netip.Addr{netip.MustParseAddr("10.96.0.77"), netip.MustParseAddr("fd00:96::77")},
		LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("203.0.113.77"), netip.MustParseAddr("2001:db8:f::77")},
		NodePorts:       []NodePortState{{"", "TCP", 80, 31777}},
	}
	all := "[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [31777]"
	elsewhere := func(change func(*ServiceInput)) func(*Input) {
		return func(in *Input) { addService(in, "other", change) }
	}
	service := func(change func(*ServiceInput)) func(*Input) {
		return func(in *Input) { change(&in.Services[0]) }
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   string // ? stands for something else than before
	}{
		{"nothing", func(*Input) {}, all},
		{"another service", elsewhere(loadBalancer), all},
		{"asked for", service(func(s *ServiceInput) {
			s.ClusterIPs, s.LoadBalancerIPs, s.Ports[0].NodePort = []string{"10.96.0.78"}, []string{"203.0.113.78"}, 31778
		}), "[10.96.0.78 fd00:96::77] [203.0.113.78] [31778]"},
		{"cluster IP asked for by another", elsewhere(func(s *ServiceInput) { s.ClusterIPs = []string{"10.96.0.77"} }),
			"[? fd00:96::77] [203.0.113.77 2001:db8:f::77] [31777]"},
		{"VIP asked for by another", elsewhere(func(s *ServiceInput) { s.Type, s.LoadBalancerIPs = "LoadBalancer", []string{"2001:db8:f::77"} }),
			"[10.96.0.77 fd00:96::77] [203.0.113.77 ?] [31777]"},
		{"VIP on another port", elsewhere(func(s *ServiceInput) { s.Ports[0].Port, s.ExternalIPs = 81, []string{"203.0.113.77"} }),
			"[10.96.0.77 fd00:96::77] [? 2001:db8:f::77] [31777]"},
		{"node port asked for by another", elsewhere(func(s *ServiceInput) { s.Type, s.Ports[0].NodePort = "NodePort", 31777 }),
			"[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [?]"},
		{"node at the VIP", func(in *Input) {
			in.Nodes = append(in.Nodes, NodeInput{Name: "w", Addresses: []string{"203.0.113.77"}})
		},
			"[10.96.0.77 fd00:96::77] [? 2001:db8:f::77] [31777]"},
		{"other service range", func(in *Input) { in.Cluster.ServiceCIDRs[0] = "10.97.0.0/20" }, "[? fd00:96::77] [203.0.113.77 2001:db8:f::77] [31777]"},
		{"ranges in the other order", func(in *Input) { slices.Reverse(in.Cluster.ServiceCIDRs) }, all},
		{"pool of this address alone", func(in *Input) { in.Cluster.LoadBalancerPools[0] = "203.0.113.77/32" }, all},
		{"other pool", func(in *Input) { in.Cluster.LoadBalancerPools[0] = "203.0.113.0/26" }, "[10.96.0.77 fd00:96::77] [? 2001:db8:f::77] [31777]"},
		{"no pool", func(in *Input) { in.Cluster.LoadBalancerPools = nil }, "[10.96.0.77 fd00:96::77] [] [31777]"},
		{"other node port range", func(in *Input) { in.Cluster.NodePortRange = "30000-31000" }, "[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [?]"},
		{"one family", service(func(s *ServiceInput) { s.IPFamilyPolicy = "SingleStack" }), "[10.96.0.77] [203.0.113.77] [31777]"},
		{"the other family", service(func(s *ServiceInput) { s.IPFamilyPolicy, s.IPFamilies = "", []string{"IPv6"} }), "[fd00:96::77] [2001:db8:f::77] [31777]"},
		{"families in the other order", service(func(s *ServiceInput) { s.IPFamilies = []string{"IPv6", "IPv4"} }),
			"[fd00:96::77 10.96.0.77] [2001:db8:f::77 203.0.113.77] [31777]"},
		{"ClusterIP", service(func(s *ServiceInput) { s.Type = "ClusterIP" }), "[10.96.0.77 fd00:96::77] [] [0]"},
		{"NodePort", service(func(s *ServiceInput) { s.Type = "NodePort" }), "[10.96.0.77 fd00:96::77] [] [31777]"},
		{"no node ports", service(func(s *ServiceInput) { s.AllocateNodePorts = false }), "[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [0]"},
		{"headless", service(func(s *ServiceInput) { s.Type, s.ClusterIPs = "ClusterIP", []string{"None"} }), "[] [] [0]"},
		{"ExternalName", service(func(s *ServiceInput) { s.Type, s.ExternalName, s.IPFamilyPolicy = "ExternalName", "a.example", "" }), "[] [] [0]"},
		{"another number", service(func(s *ServiceInput) { s.Ports[0].Port = 81 }), all},
		{"another name", service(func(s *ServiceInput) { s.Ports[0].Name = "web" }), all},
		{"another name and number", service(func(s *ServiceInput) { s.Ports[0].Name, s.Ports[0].Port = "web", 81 }),
			"[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [?]"},
		{"one more port", service(func(s *ServiceInput) {
			s.Ports[0].Name = "web"
			s.Ports = append(s.Ports, PortInput{Name: "dns", Protocol: "UDP", Port: 53})
		}), "[10.96.0.77 fd00:96::77] [203.0.113.77 2001:db8:f::77] [31777 ?]"},
		{"another service of the name", service(func(s *ServiceInput) { s.Namespace = "u" }), "[? ?] [? ?] [?]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := many(1)
			previous := &State{Version: StateVersion, Services: map[string]ServiceState{"t/a0": kept}}
			c.change(in)
			top, _ := resolveFrom(t, in, previous)
			g := givenTo(find(t, top, "a0"))
			compareGiven(t, fmt.Sprint(g.clusterIPs, g.vips, g.nodePorts), c.want, all)
		})
	}
}

// compareGiven compares word by word; a ? matches what was not there before, and is allocated.
func compareGiven(t *testing.T, got, want, before string) {
	t.Helper()
	clean := strings.NewReplacer("[", "", "]", "")
	g, w := strings.Fields(clean.Replace(got)), strings.Fields(clean.Replace(want))
	bad := len(g) != len(w)
	for i := range min(len(g), len(w)) {
		if w[i] == "?" {
			bad = bad || g[i] == "0" || slices.Contains(strings.Fields(clean.Replace(before)), g[i])
		} else {
			bad = bad || g[i] != w[i]
		}
	}
	if bad {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestKeptFromNewcomers gives a new service, which comes first, no address that a later one had.
func TestKeptFromNewcomers(t *testing.T) {
	alone := many(1)
	fresh := givenTo(find(t, resolve(t, alone), "a0")) // what a0 is given by itself
	old := ServiceState{ClusterIPs: fresh.clusterIPs, LoadBalancerIPs: fresh.vips, NodePorts: []NodePortState{{"", "TCP", 80, fresh.nodePorts[0]}}}
	in := many(2)
	top, _ := resolveFrom(t, in, &State{Version: StateVersion, Services: map[string]ServiceState{"t/a1": old}})
	if got := givenTo(find(t, top, "a1")); !reflect.DeepEqual(got, fresh) {
		t.Errorf("a1 has %v, had %v", got, fresh)
	}
	if got := givenTo(find(t, top, "a0")); got.clusterIPs[0] == fresh.clusterIPs[0] || got.vips[1] == fresh.vips[1] || got.nodePorts[0] == fresh.nodePorts[0] {
		t.Errorf("a0 has %v", got)
	}
}

// TestHealthCheckPortKept keeps the health check node port of a service that needs one.
func TestHealthCheckPortKept(t *testing.T) {
	for _, c := range []struct {
		policy string
		number uint16
		want   uint16
	}{{"Local", 31999, 31999}, {"Cluster", 31999, 0}, {"Local", 31777, 31999}} {
		in := many(1)
		in.Services[0].ExternalTrafficPolicy = c.policy
		addService(in, "z", func(s *ServiceInput) { s.Type, s.Ports[0].NodePort = "NodePort", 31777 })
		top, _ := resolveFrom(t, in, &State{Version: StateVersion, Services: map[string]ServiceState{"t/a0": {HealthCheckNodePort: c.number}}})
		got := find(t, top, "a0").HealthCheckNodePort
		if c.number == 31777 && got == 31777 {
			t.Errorf("the number of another service was kept")
		} else if c.number != 31777 && got != c.want {
			t.Errorf("%s %d: got %d, want %d", c.policy, c.number, got, c.want)
		}
	}
}

// TestNamesAreNotUsedAgain deletes slices and makes new ones.
func TestNamesAreNotUsedAgain(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Cluster.SliceSize = 2
	addService(in, "s", selects)
	var state *State
	seen := map[string]bool{}
	for round := range 20 {
		in.Pods = nil
		for i := range 6 + round%2*4 {
			addPod(in, fmt.Sprintf("p%d", i), nil, fmt.Sprintf("198.18.1.%d", i+1))
		}
		var top *Topology
		before := map[string]bool{}
		if state != nil {
			for _, l := range state.Services["t/s"].Slices {
				before[l.Name] = true
			}
		}
		top, state = resolveFrom(t, in, state)
		for _, l := range find(t, top, "s").Slices {
			if seen[l.Name] && !before[l.Name] {
				t.Errorf("round %d: the name %s was another's", round, l.Name)
			}
			seen[l.Name] = true
		}
	}
}

// TestStateIsStable changes a topology at random. Each time the same topology again changes nothing, every endpoint of a service
// with pods is in one slice, and no slice is larger than it may be.
func TestStateIsStable(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	in := zoned("abc", "", func(s *ServiceInput) { auto(s); s.IPFamilyPolicy = "PreferDualStack" })
	in.Cluster.SliceSize = 7
	addService(in, "hand", func(s *ServiceInput) { auto(s); s.Type = "NodePort" })
	addService(in, "near", func(s *ServiceInput) { selects(s); s.TrafficDistribution = "PreferSameNode" })
	var state *State
	for round := range 300 {
		shake(in, rnd)
		top, next := resolveFrom(t, in, state)
		again, same := resolveFrom(t, in, next)
		if !reflect.DeepEqual(top, again) {
			t.Fatalf("round %d: the same topology gave\n%+v\nthen\n%+v", round, top.Services, again.Services)
		}
		if !reflect.DeepEqual(next, same) {
			t.Fatalf("round %d: the same topology changed the state", round)
		}
		for i := range top.Services {
			packedOnce(t, &top.Services[i], 7)
		}
		state = next
	}
}

// shake changes pods, listed endpoints, nodes and labels at random.
func shake(in *Input, rnd *rand.Rand) {
	for range 1 + rnd.IntN(6) {
		if n := len(in.Pods); n > 0 && rnd.IntN(3) == 0 {
			in.Pods = slices.Delete(in.Pods, rnd.IntN(n)/2, rnd.IntN(n)/2+n/2)
			continue
		}
		n := rnd.IntN(250)
		name := fmt.Sprint("p", n)
		if slices.ContainsFunc(in.Pods, func(p PodInput) bool { return p.Name == name }) {
			continue
		}
		addPod(in, name, func(p *PodInput) { p.Node = "n" + string("abc"[rnd.IntN(3)]) }, fmt.Sprintf("198.18.1.%d", 1+n), fmt.Sprintf("2001:db8:1::%x", 1+n))
	}
	for i := range in.Pods {
		if rnd.IntN(20) == 0 {
			in.Pods[i].Ready = !in.Pods[i].Ready
		}
	}
	hand := &in.Services[1]
	hand.Endpoints = nil
	for i := range rnd.IntN(9) {
		e := endpoint(fmt.Sprintf("198.18.2.%d", i+1), nil)
		ready := rnd.IntN(3) > 0
		e.Node, e.Ready = "n"+string("abc"[rnd.IntN(3)]), &ready
		hand.Endpoints = append(hand.Endpoints, e)
	}
	if rnd.IntN(5) == 0 {
		in.Services[0].Labels = map[string]string{"v": fmt.Sprint(rnd.IntN(3))}
		in.Nodes[1+rnd.IntN(3)].CPU = float64(1 + rnd.IntN(3))
	}
}

// packedOnce checks the slices of a service.
func packedOnce(t *testing.T, s *Service, limit int) {
	t.Helper()
	seen := map[int]bool{}
	for _, l := range s.Slices {
		if len(l.Endpoints) > limit && len(s.Selector) > 0 {
			t.Errorf("%s: slice %s has %d endpoints", s.Name, l.Name, len(l.Endpoints))
		}
		for _, i := range l.Endpoints {
			if e := s.Endpoints[i]; seen[i] || familyName(e.Address.Is4()) != l.Family || !reflect.DeepEqual(e.Ports, l.Ports) {
				t.Errorf("%s: slice %s has %+v", s.Name, l.Name, e)
			}
			seen[i] = true
		}
	}
	if len(seen) != len(s.Endpoints) {
		t.Errorf("%s: %d of %d endpoints in slices", s.Name, len(seen), len(s.Endpoints))
	}
}

func TestNoStateAfterAFault(t *testing.T) {
	in := many(1)
	in.Services[0].Name = ""
	if top, state, faults := ResolveFrom(in, nil); top != nil || state != nil || len(faults) == 0 {
		t.Errorf("%v %v %v", top, state, faults)
	}
}

func TestParseStateRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "damaged",
		"{":                           "damaged",
		"[]":                          "damaged",
		"null":                        "has no version",
		"{}":                          "has no version",
		`{"version":2}`:               "version 2 of the state is unknown: this program reads version 1",
		`{"version":"1"}`:             "damaged",
		`{"version":1} x`:             "damaged",
		`{"version":1,"services":[]}`: "damaged",
		`{"version":1,"services":{"a/b":{"cluster_ips":["x"]}}}`:                "damaged",
		`{"version":1,"services":{"a/b":{"node_ports":[{"node_port":70000}]}}}`: "damaged",
	} {
		if s, err := ParseState([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v, want %s", text, s, err, want)
		}
	}
	if s, err := ParseState([]byte(`{"version":1,"services":{"a/b":{"later":true}}}`)); err != nil || len(s.Services) != 1 {
		t.Errorf("a field that is not known: %v, %v", s, err)
	}
}

// FuzzState reads any text and resolves a topology after it: nothing of a state can make two services share an address, or a
// topology change that has not.
func FuzzState(f *testing.F) {
	in := many(3)
	for i := range in.Services {
		selects(&in.Services[i])
		auto(&in.Services[i])
	}
	for i := range 5 {
		addPod(in, fmt.Sprint("p", i), nil, fmt.Sprintf("198.18.1.%d", i+1), fmt.Sprintf("2001:db8:1::%x", i+1))
	}
	_, state, faults := ResolveFrom(in, nil)
	if len(faults) > 0 {
		f.Fatal(faults)
	}
	text, err := json.Marshal(state)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(strings.ReplaceAll(string(text), "t/a1", "t/a0")))
	f.Add([]byte(`{"version":1,"services":{"t/a0":{"cluster_ips":["10.96.0.1","10.96.0.1","::ffff:10.96.0.2","fe80::1%x",""],"node_ports":[{"protocol":"TCP","port":80,"node_port":30000}],` +
		`"slice_names":-5,"slices":[{"name":"a0-bbbbb","family":"IPv4","ports":"/TCP/80","endpoints":[{"address":"198.18.1.1","pod":"p0"},{"address":"198.18.1.1","pod":"p0"}]},` +
		`{"name":"a0-bbbbb","family":"IPv4"},{"name":"x","family":"IPv9","ports":"x"}]},"t/a1":{"cluster_ips":["10.96.0.1"],"load_balancer_ips":["198.18.0.10"],"node_ports":null}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		previous, err := ParseState(text)
		if err != nil {
			return
		}
		top, next, faults := ResolveFrom(in, previous)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		owner := map[string]string{}
		for i := range top.Services {
			s := &top.Services[i]
			packedOnce(t, s, 1000)
			g := givenTo(s)
			if len(g.clusterIPs) != 2 || len(g.vips) != 2 || g.nodePorts[0] == 0 {
				t.Errorf("%s has %v", s.Name, g)
			}
			for _, x := range strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(fmt.Sprint(g.clusterIPs, g.vips, g.nodePorts))) {
				if owner[x] != "" {
					t.Errorf("%s is of %s and %s", x, owner[x], s.Name)
				}
				owner[x] = s.Name
			}
		}
		if again, _, _ := ResolveFrom(in, next); !reflect.DeepEqual(top, again) {
			t.Errorf("again:\n%+v\n%+v", top.Services, again.Services)
		}
	})
}
