package control_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/engine/control"
	"sluice/nat"
	"sluice/xdp"
	"sluice/xdp/packet"
)

func addrOf(s string) netip.Addr { return netip.MustParseAddr(s) }

// serviceOn returns a ClusterIP service with endpoints.
func serviceOn(name, ip string, endpoints ...string) topology.Service {
	s := topology.Service{
		Namespace: "shop", Name: name, Type: topology.ClusterIP, ClusterIPs: []netip.Addr{addrOf(ip)},
		ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80, TargetPort: 8080}},
	}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: addrOf(e), Ports: map[string]uint16{"web": 8080},
			Ready: true, Serving: true, Weight: 1})
	}
	return s
}

func topologyOf(services ...topology.Service) *topology.Topology {
	local := []netip.Addr{addrOf("198.18.0.1")}
	return &topology.Topology{
		Gateway: topology.Gateway{Node: "gw", SNATAddresses: local, NodePortAddresses: local, LocalAddresses: local,
			SNATPorts: topology.PortRange{First: 32768, Last: 60999}},
		Cluster: topology.Cluster{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("198.19.0.0/16")},
			NodePortRange: topology.PortRange{First: 30000, Last: 32767}},
		Services: services,
	}
}

// classifier records what it is told.
type classifier struct {
	got  []*xdp.Rules
	err  error
	when []uint64 // the generation that was published at that time
	c    *control.Controller
}

func (f *classifier) SetRules(r *xdp.Rules) error {
	f.got, f.when = append(f.got, r), append(f.when, f.c.Current().Generation)
	return f.err
}

func newController(t *testing.T, top *topology.Topology, o control.Options) *control.Controller {
	t.Helper()
	o.Log = slog.New(slog.DiscardHandler)
	c, err := control.New(top, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRules(t *testing.T) {
	top := topologyOf(serviceOn("cart", "198.19.0.10", "198.18.1.11", "198.18.1.12"))
	r := newController(t, top, control.Options{}).Current().Rules
	want := &xdp.Rules{
		Services:      []netip.Addr{addrOf("198.19.0.10")},
		Ranges:        []netip.Prefix{netip.MustParsePrefix("198.19.0.0/16")},
		NodePortAddrs: []netip.Addr{addrOf("198.18.0.1")},
		SNATAddrs:     []netip.Addr{addrOf("198.18.0.1")},
		SNATPorts:     xdp.PortRange{First: 32768, Last: 60999},
		Backends: []xdp.Backend{{Addr: addrOf("198.18.1.11"), Proto: packet.ProtoTCP, Port: 8080},
			{Addr: addrOf("198.18.1.12"), Proto: packet.ProtoTCP, Port: 8080}},
	}
	if !control.Equal(r, want) {
		t.Errorf("got  %+v\nwant %+v", r, want)
	}
}

func TestRulesGrowBeforeAndShrinkAfter(t *testing.T) {
	var kept []netip.Addr
	var targets *topology.Topology
	c := newController(t, topologyOf(serviceOn("old", "198.19.0.10", "198.18.1.11")), control.Options{
		Keep:    func(a []netip.Addr) { kept = a },
		Targets: func(t *topology.Topology) error { targets = t; return nil },
	})
	f := &classifier{c: c}
	c.Connect(f)
	next := topologyOf(serviceOn("new", "198.19.0.20", "198.18.1.12"))
	ranges := append(next.Cluster.ServiceCIDRs, netip.MustParsePrefix("198.19.0.0/17"))
	next.Cluster.ServiceCIDRs = ranges[1:]
	if err := c.Apply(next); err != nil {
		t.Fatal(err)
	}
	if len(f.got) != 2 || !slices.Equal(f.when, []uint64{1, 2}) {
		t.Fatalf("%d calls, at generations %v", len(f.got), f.when)
	}
	oldAndNew := []netip.Addr{addrOf("198.19.0.10"), addrOf("198.19.0.20")}
	if !slices.Equal(f.got[0].Ranges, ranges) || !slices.Equal(f.got[1].Ranges, ranges[1:]) {
		t.Errorf("ranges first %v, then %v", f.got[0].Ranges, f.got[1].Ranges)
	}
	if !slices.Equal(f.got[0].Services, oldAndNew) || !slices.Equal(f.got[1].Services, oldAndNew) {
		t.Errorf("services first %v, then %v, want the departed one too: it may have flows", f.got[0].Services, f.got[1].Services)
	}
	if n := len(f.got[1].Backends); n != 2 {
		t.Errorf("%d backends in the rules, want the departed one too: it may have flows", n)
	}
	if targets != next || !slices.Equal(kept, []netip.Addr{addrOf("198.18.1.12")}) {
		t.Errorf("targets %p, kept %v", targets, kept)
	}
	if err := c.Apply(next); err != nil || len(f.got) != 2 {
		t.Errorf("%v; the same rules again made %d calls", err, len(f.got)-2)
	}
}

func TestFailedRulesChangeNothing(t *testing.T) {
	var targets *topology.Topology
	c := newController(t, topologyOf(serviceOn("old", "198.19.0.10", "198.18.1.11")), control.Options{
		Targets: func(t *topology.Topology) error { targets = t; return nil },
	})
	f := &classifier{c: c, err: errors.New("no room")}
	c.Connect(f)
	before := c.Current()
	if err := c.Apply(topologyOf(serviceOn("new", "198.19.0.20", "198.18.1.12"))); !errors.Is(err, f.err) {
		t.Errorf("error %v", err)
	}
	if c.Current() != before {
		t.Error("published all the same")
	}
	if targets != before.Topology {
		t.Error("the health checks are those of the topology that was refused")
	}
}

func TestHealthChangesAreCoalesced(t *testing.T) {
	var down atomic.Pointer[netip.Addr]
	var calls sync.Map
	isDown := func(service, port string, a netip.AddrPort) bool {
		calls.Store(service+":"+port, true)
		d := down.Load()
		return d != nil && *d == a.Addr()
	}
	c := newController(t, topologyOf(serviceOn("cart", "198.19.0.10", "198.18.1.11", "198.18.1.12")),
		control.Options{Down: isDown, Interval: 100 * time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { c.Run(ctx); close(done) }()
	first := addrOf("198.18.1.11")
	down.Store(&first)
	began := time.Now()
	for time.Since(began) < 250*time.Millisecond {
		c.Notify()
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	if g := c.Current().Generation; g < 2 || g > 5 {
		t.Errorf("generation %d after 250 ms of changes, want 2 to 5", g)
	}
	tuple := packet.Tuple{Src: packet.AddrFrom(addrOf("198.18.0.50")), Dst: packet.AddrFrom(addrOf("198.19.0.10")),
		DstPort: 80, Proto: packet.ProtoTCP}
	for i := range 64 {
		tuple.SrcPort = uint16(40000 + i)
		if d := c.Current().NAT.Decide(&tuple, nat.Origin{}); d.Backend == nil || d.Backend.Addr.Netip() != addrOf("198.18.1.12") {
			t.Fatalf("port %d goes to %+v", tuple.SrcPort, d.Backend)
		}
	}
	if _, ok := calls.Load("shop/cart:web"); !ok {
		t.Error("health was not asked about shop/cart:web")
	}
}

// TestForget drops the rules of backends that have left, once told that they have no flows, and of no others.
func TestForget(t *testing.T) {
	published := 0
	first, second := "198.18.1.11", "198.18.1.12"
	c := newController(t, topologyOf(serviceOn("cart", "198.19.0.10", first, second)),
		control.Options{Published: func(*control.Snapshot) { published++ }})
	f := &classifier{c: c}
	c.Connect(f)
	backend := func(a string) xdp.Backend { return xdp.Backend{Addr: addrOf(a), Proto: packet.ProtoTCP, Port: 8080} }
	apply := func(endpoints ...string) {
		t.Helper()
		if err := c.Apply(topologyOf(serviceOn("cart", "198.19.0.10", endpoints...))); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(what string, departed []string, rules ...string) {
		t.Helper()
		want := func(list []string) (out []xdp.Backend) {
			for _, a := range list {
				out = append(out, backend(a))
			}
			return out
		}
		s := c.Current()
		if !slices.Equal(s.Departed.Backends, want(departed)) || !slices.Equal(s.Rules.Backends, want(rules)) {
			t.Errorf("%s: departed %v, rules %v", what, s.Departed, s.Rules.Backends)
		}
		if last := f.got[len(f.got)-1]; !slices.Equal(last.Backends, s.Rules.Backends) {
			t.Errorf("%s: the XDP program has %v, want %v", what, last.Backends, s.Rules.Backends)
		}
	}
	apply("198.18.1.13")
	expect("after leaving", []string{first, second}, first, second, "198.18.1.13")
	apply("198.18.1.13", second)
	expect("after one has come back", []string{first}, first, second, "198.18.1.13")
	before := c.Current()
	c.Forget(&xdp.Rules{Backends: []xdp.Backend{backend(first), backend(second)}})
	expect("forgotten", nil, second, "198.18.1.13")
	if len(before.Rules.Backends) != 3 {
		t.Error("a snapshot that was published has changed")
	}
	if g := c.Current().Generation; g != before.Generation || published != 3 {
		t.Errorf("generation %d, %d times published", g, published)
	}
	calls := len(f.got)
	c.Forget(&xdp.Rules{Backends: []xdp.Backend{backend(second)}})
	if len(f.got) != calls || c.Current().Rules.Backends[0] != backend(second) {
		t.Error("forgets a backend that is in use")
	}
	apply("198.18.1.13")
	expect("left again", []string{second}, second, "198.18.1.13")
}

// TestDepartedAddresses: connections to an address or a NodePort that has been taken away go on, so that their packets must
// still be ours, until they are said to have ended.
func TestDepartedAddresses(t *testing.T) {
	with := func(ports ...uint16) *topology.Topology {
		s := serviceOn("cart", "198.19.0.10", "198.18.1.11")
		s.Type, s.LoadBalancerIPs = topology.LoadBalancer, []netip.Addr{addrOf("198.19.200.1")}
		s.Ports[0].NodePort = ports[0]
		return topologyOf(s)
	}
	c := newController(t, with(30080), control.Options{})
	if err := c.Apply(with(30081)); err != nil {
		t.Fatal(err)
	}
	port := func(n uint16) xdp.ProtoPort { return xdp.ProtoPort{Proto: packet.ProtoTCP, Port: n} }
	if s := c.Current(); !slices.Equal(s.Departed.NodePorts, []xdp.ProtoPort{port(30080)}) ||
		!slices.Equal(s.Rules.NodePorts, []xdp.ProtoPort{port(30080), port(30081)}) {
		t.Errorf("departed %v, rules %v", s.Departed.NodePorts, s.Rules.NodePorts)
	}
	if err := c.Apply(topologyOf()); err != nil {
		t.Fatal(err)
	}
	services := []netip.Addr{addrOf("198.19.0.10"), addrOf("198.19.200.1")}
	if s := c.Current(); !slices.Equal(s.Departed.Services, services) || !slices.Equal(s.Rules.Services, services) {
		t.Errorf("departed %v, rules %v", s.Departed.Services, s.Rules.Services)
	}
	c.Forget(&xdp.Rules{Services: services[1:], NodePorts: []xdp.ProtoPort{port(30080), port(30081)}})
	if s := c.Current(); !slices.Equal(s.Rules.Services, services[:1]) || len(s.Rules.NodePorts) != 0 || len(s.Rules.Backends) != 1 {
		t.Errorf("rules %+v", s.Rules)
	}
}

// TestHooks tells of each change before and after it is in force, and leaves a change waiting that cannot be put in force.
func TestHooks(t *testing.T) {
	var events []string
	c := newController(t, topologyOf(serviceOn("old", "198.19.0.10", "198.18.1.11")), control.Options{
		Queued:    func() { events = append(events, "queued") },
		Published: func(s *control.Snapshot) { events = append(events, fmt.Sprint("published ", s.Generation)) },
	})
	f := &classifier{c: c}
	c.Connect(f)
	step := func(want ...string) {
		t.Helper()
		if !slices.Equal(events, want) {
			t.Errorf("%q, want %q", events, want)
		}
		events = nil
	}
	step("queued", "published 1")
	if err := c.Apply(topologyOf(serviceOn("new", "198.19.0.20", "198.18.1.12"))); err != nil {
		t.Fatal(err)
	}
	step("queued", "published 2")
	if err := c.Apply(topologyOf(serviceOn("a", "198.19.0.20"), serviceOn("b", "198.19.0.20"))); err == nil {
		t.Error("two services on one address")
	}
	step() // refused: nothing waits
	f.err = errors.New("no room")
	if err := c.Apply(topologyOf(serviceOn("third", "198.19.0.30"))); !errors.Is(err, f.err) {
		t.Errorf("error %v", err)
	}
	step("queued")
	c.Notify()
	step("queued")
}

// TestRulesOfRoutes redirects all that is sent to the addresses of routes.
func TestRulesOfRoutes(t *testing.T) {
	top := topologyOf(serviceOn("cart", "198.19.0.10", "198.18.1.11"))
	listen := func(list ...string) (out []netip.AddrPort) {
		for _, l := range list {
			out = append(out, netip.MustParseAddrPort(l))
		}
		return out
	}
	top.Routes = []topology.Route{
		{Namespace: "shop", Name: "a", Protocol: topology.TCP, Listen: listen("198.19.200.20:443", "[2001:db8:97::20]:443"),
			Backends: []topology.RouteBackend{{Service: "shop/cart", Port: "web", Weight: 1}}},
		{Namespace: "shop", Name: "b", Protocol: topology.UDP, Listen: listen("198.19.200.20:443"),
			Backends: []topology.RouteBackend{{Service: "shop/none", Port: "web", Weight: 1, Problem: topology.BackendNotFound}}},
		{Namespace: "shop", Name: "lost", Protocol: topology.TCP},
	}
	got := newController(t, top, control.Options{}).Current().Rules.Services
	if want := []netip.Addr{addrOf("198.19.0.10"), addrOf("198.19.200.20"), addrOf("2001:db8:97::20")}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
