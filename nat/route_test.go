package nat_test

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

const (
	listen4 = "198.51.100.99"
	listen6 = "2001:db8:ee::99"
)

// backendService returns a ClusterIP service with TCP port web 80 and UDP port dns 53 and endpoints on wk-1.
func backendService(name string, n byte, endpoints ...string) topology.Service {
	s := topology.Service{Namespace: "shop", Name: name, Type: topology.ClusterIP,
		ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, 112, 4, n}), netip.MustParseAddr(fmt.Sprintf("fd64:112::%x", 0x400+int(n)))},
		ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80, TargetPort: 9090}, {Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353}}}
	for _, e := range endpoints {
		s.Endpoints = append(s.Endpoints, endpoint(e, "wk-1"))
	}
	return s
}

// share returns a backend of a route.
func share(name, port string, weight int) topology.RouteBackend {
	return topology.RouteBackend{Service: "shop/" + name, Port: port, Weight: weight}
}

// routed returns a topology with services a, b (two endpoints each), empty, and a TCP and a UDP route on port 443 of both
// listen addresses. shares are of TCP; the UDP route has the same over port dns.
func routed(shares ...topology.RouteBackend) *topology.Topology {
	top := gateway()
	top.Services = []topology.Service{backendService("a", 1, "10.66.0.1", "10.66.0.2", "fd64:66::1"),
		backendService("b", 2, "10.66.0.3", "10.66.0.4", "fd64:66::3"), backendService("empty", 3)}
	listen := []netip.AddrPort{netip.MustParseAddrPort(listen4 + ":443"), netip.MustParseAddrPort("[" + listen6 + "]:443")}
	udp := slices.Clone(shares)
	for i := range udp {
		udp[i].Port = strings.ReplaceAll(udp[i].Port, "web", "dns")
	}
	top.Routes = []topology.Route{{Namespace: "shop", Name: "split", Protocol: topology.TCP, Listen: listen, Backends: shares},
		{Namespace: "shop", Name: "split", Protocol: topology.UDP, Listen: listen, Backends: udp}}
	return top
}

// spread decides n flows of a protocol to the IPv4 listener, and counts what becomes of them: service ports, or verdict and reason.
func spread(table *nat.Table, proto uint8, n int) map[string]int {
	out := map[string]int{}
	for i := range n {
		tu := tuple(proto, fmt.Sprintf("203.0.113.%d", 1+i/10000), uint16(20000+i%10000), listen4, 443)
		d := table.Decide(&tu, nat.Origin{})
		if d.Verdict == nat.Forward {
			out[d.Port.String()]++
		} else {
			out[d.Verdict.String()+" "+d.Reason.String()]++
		}
	}
	return out
}

// expectShares compares counts with parts of the whole, to within four standard deviations.
func expectShares(t *testing.T, got map[string]int, n int, want map[string]float64) {
	t.Helper()
	for name, part := range want {
		if limit := 4 * math.Sqrt(float64(n)*part*(1-part)); math.Abs(float64(got[name])-part*float64(n)) > limit {
			t.Errorf("%s: %d of %d, want %v", name, got[name], n, part)
		}
	}
	for name := range got {
		if want[name] == 0 {
			t.Errorf("%s: %d of %d, want none", name, got[name], n)
		}
	}
}

func TestRouteShares(t *testing.T) {
	foreign := func(top *topology.Topology) {
		top.Services[0].Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	}
	problem := func(b topology.RouteBackend, p string) topology.RouteBackend { b.Problem = p; return b }
	const n = 20000
	for _, tc := range []struct {
		name     string
		edit     func(*topology.Topology)
		shares   []topology.RouteBackend
		tcp, udp map[string]float64
	}{
		{"one", nil, []topology.RouteBackend{share("a", "web", 1)}, map[string]float64{"shop/a:web": 1}, map[string]float64{"shop/a:dns": 1}},
		{"equal", nil, []topology.RouteBackend{share("a", "web", 1), share("b", "web", 1)},
			map[string]float64{"shop/a:web": .5, "shop/b:web": .5}, map[string]float64{"shop/a:dns": .5, "shop/b:dns": .5}},
		{"canary", nil, []topology.RouteBackend{share("a", "web", 999_999), share("b", "web", 1)},
			map[string]float64{"shop/a:web": 1}, map[string]float64{"shop/a:dns": 1}},
		{"weights", nil, []topology.RouteBackend{share("a", "web", 30), share("b", "web", 10)},
			map[string]float64{"shop/a:web": .75, "shop/b:web": .25}, map[string]float64{"shop/a:dns": .75, "shop/b:dns": .25}},
		{"zero", nil, []topology.RouteBackend{share("a", "web", 0), share("b", "web", 7)},
			map[string]float64{"shop/b:web": 1}, map[string]float64{"shop/b:dns": 1}},
		{"all zero", nil, []topology.RouteBackend{share("a", "web", 0), share("b", "web", 0)},
			map[string]float64{"reject route_backend_invalid": 1}, map[string]float64{"drop route_backend_invalid": 1}},
		{"one service twice", nil, []topology.RouteBackend{share("a", "web", 1), share("b", "web", 2), share("a", "web", 1)},
			map[string]float64{"shop/a:web": .5, "shop/b:web": .5}, map[string]float64{"shop/a:dns": .5, "shop/b:dns": .5}},
		{"not found", nil, []topology.RouteBackend{problem(share("none", "web", 80), topology.BackendNotFound), share("b", "web", 20)},
			map[string]float64{"reject route_backend_invalid": .8, "shop/b:web": .2},
			map[string]float64{"drop route_backend_invalid": .8, "shop/b:dns": .2}},
		{"not permitted, though it is there", nil, []topology.RouteBackend{problem(share("a", "web", 1), topology.RefNotPermitted)},
			map[string]float64{"reject route_backend_invalid": 1}, map[string]float64{"drop route_backend_invalid": 1}},
		{"of another proxy", foreign, []topology.RouteBackend{share("a", "web", 1), share("b", "web", 1)},
			map[string]float64{"reject route_backend_invalid": .5, "shop/b:web": .5},
			map[string]float64{"drop route_backend_invalid": .5, "shop/b:dns": .5}},
		{"without endpoints", nil, []topology.RouteBackend{share("empty", "web", 3), share("b", "web", 1)},
			map[string]float64{"reject no_endpoints": .75, "shop/b:web": .25}, map[string]float64{"drop no_endpoints": .75, "shop/b:dns": .25}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := routed(tc.shares...)
			if tc.edit != nil {
				tc.edit(top)
			}
			table := compile(t, top, nat.CompileOptions{})
			if got := spread(table, overTCP, n); tc.name == "canary" {
				got["shop/a:web"] += got["shop/b:web"]
				delete(got, "shop/b:web")
				expectShares(t, got, n, tc.tcp)
			} else {
				expectShares(t, got, n, tc.tcp)
				expectShares(t, spread(table, overUDP, n), n, tc.udp)
			}
		})
	}
}

// TestRouteSharesAreExact gives each share the hashes that its weight says, out of as many at equal distances as the weights sum to.
func TestRouteSharesAreExact(t *testing.T) {
	for _, weights := range [][]int{{1}, {1, 1}, {1, 2, 3}, {7, 0, 13, 0, 1}, {1_000_000, 1}, {0, 5}, slices.Repeat([]int{1_000_000}, 16)} {
		total := 0
		for _, w := range weights {
			total += w
		}
		got := make([]int, len(weights))
		choose := nat.Chooser(weights)
		steps := min(total, 1_000_001)
		for i := range steps {
			got[choose(uint64(float64(i)/float64(steps)*math.MaxUint64)+1<<12)]++
		}
		for i, w := range weights {
			if want := float64(w) / float64(total) * float64(steps); math.Abs(float64(got[i])-want) > 1 {
				t.Errorf("%v: share %d has %d of %d", weights, i, got[i], steps)
			}
		}
	}
}

// TestRouteChoosesBackends spreads the flows of one share evenly over its backends: the two choices do not depend on each other.
func TestRouteChoosesBackends(t *testing.T) {
	table := compile(t, routed(share("a", "web", 1), share("b", "web", 1)), nat.CompileOptions{})
	const n = 20000
	got := map[string]int{}
	for i := range n {
		tu := tuple(overTCP, outside, uint16(20000+i), listen4, 443)
		got[table.Decide(&tu, nat.Origin{}).Backend.AddrPort.String()]++
	}
	for _, a := range []string{"10.66.0.1:9090", "10.66.0.2:9090", "10.66.0.3:9090", "10.66.0.4:9090"} {
		if math.Abs(float64(got[a])-n/4) > n/50 {
			t.Errorf("%s has %d of %d", a, got[a], n)
		}
	}
}

// TestRoutePolicies treats a flow to a route as one to an external IP of the chosen service, which need not have any.
func TestRoutePolicies(t *testing.T) {
	const ends = "10.66.0.1:9090 10.66.0.2:9090"
	localEnd := func(s *topology.Service) { s.Endpoints[0].Node = "gw-a" }
	for _, tc := range []struct {
		name     string
		edit     func(*topology.Topology, *topology.Service)
		src, dst string
		fromNode bool
		verdict  nat.Verdict
		reason   reason.Reason
		backends string
		snat     string
	}{
		{"outside", nil, outside, listen4, false, nat.Forward, reason.Route, ends, ourV4},
		{"IPv6", nil, outside6, listen6, false, nat.Forward, reason.Route, "[fd64:66::1]:9090", ourV6},
		{"pod", nil, anyPod, listen4, false, nat.Forward, reason.Route, ends, ourV4},
		{"node", nil, thisNode, listen4, true, nat.Forward, reason.Route, ends, ourV4},
		{"hairpin", nil, "10.66.0.1", listen4, false, nat.Forward, reason.Route, ends, ourV4},
		{"service without the family", func(_ *topology.Topology, s *topology.Service) { s.ClusterIPs = s.ClusterIPs[:1] },
			outside6, listen6, false, nat.Reject, reason.NoEndpoints, "", ""},
		{"internal policy Local", func(_ *topology.Topology, s *topology.Service) { s.InternalTrafficPolicy = topology.PolicyLocal },
			outside, listen4, false, nat.Forward, reason.Route, ends, ourV4},
		{"external policy Local", func(_ *topology.Topology, s *topology.Service) {
			localEnd(s)
			s.ExternalTrafficPolicy = topology.PolicyLocal
		}, outside, listen4, false, nat.Forward, reason.Route, "10.66.0.1:9090", ""},
		{"external policy Local, pod", func(_ *topology.Topology, s *topology.Service) { s.ExternalTrafficPolicy = topology.PolicyLocal },
			anyPod, listen4, false, nat.Forward, reason.Route, ends, ""},
		{"external policy Local, none here", func(_ *topology.Topology, s *topology.Service) { s.ExternalTrafficPolicy = topology.PolicyLocal },
			outside, listen4, false, nat.Drop, reason.NoLocalEndpoints, "", ""},
		{"ranges of VIPs", func(_ *topology.Topology, s *topology.Service) {
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
		}, outside, listen4, false, nat.Forward, reason.Route, ends, ourV4},
		{"no source address", func(top *topology.Topology, _ *topology.Service) { top.Gateway.SNATAddresses = nil },
			outside, listen4, false, nat.Drop, reason.NoSNATAddress, ends, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := routed(share("a", "web", 1))
			if tc.edit != nil {
				tc.edit(top, &top.Services[0])
			}
			tu := tuple(overTCP, tc.src, 40123, tc.dst, 443)
			d := compile(t, top, nat.CompileOptions{}).Decide(&tu, nat.Origin{FromNode: tc.fromNode})
			if d.Backend != nil && d.Backend.Addr == tu.Src {
				tc.reason = reason.Hairpin
			}
			if d.Verdict != tc.verdict || d.Reason != tc.reason {
				t.Errorf("%s (%s), want %s (%s)", d.Verdict, d.Reason, tc.verdict, tc.reason)
			}
			var got []string
			for _, b := range d.Candidates {
				got = append(got, b.AddrPort.String())
			}
			if s := strings.Join(got, " "); s != tc.backends {
				t.Errorf("candidates %q, want %q", s, tc.backends)
			}
			if d.SNAT != (tc.snat != "") || d.SNAT && d.SNATAddr.String() != tc.snat {
				t.Errorf("snat %v %s, want %q", d.SNAT, d.SNATAddr, tc.snat)
			}
			if d.Port == nil || d.Port.String() != "shop/a:web" || d.Share == nil || d.Share.Backend().Service != "shop/a" {
				t.Errorf("port %v, share %+v", d.Port, d.Share)
			}
		})
	}
}

// TestRouteAddresses makes service addresses of listen addresses.
func TestRouteAddresses(t *testing.T) {
	table := compile(t, routed(share("a", "web", 1)), nat.CompileOptions{})
	for _, a := range []string{listen4, listen6} {
		if !table.IsServiceAddr(addr(a)) || !slices.Contains(table.ServiceAddrs(), netip.MustParseAddr(a)) {
			t.Errorf("%s is no service address", a)
		}
		if !table.IsServicePort(addr(a), 443, overTCP) || !table.IsServicePort(addr(a), 443, overUDP) || table.IsServicePort(addr(a), 80, overTCP) {
			t.Errorf("%s: wrong ports", a)
		}
	}
	tu := tuple(overTCP, outside, 40000, listen4, unknown)
	if d := table.Decide(&tu, nat.Origin{}); d.Verdict != nat.Reject || d.Reason != reason.UnknownPort {
		t.Errorf("another port: %s (%s)", d.Verdict, d.Reason)
	}
}

// TestRoutePreservingEndpoints redirects replies of endpoints that a route alone gives flows with their client's source.
func TestRoutePreservingEndpoints(t *testing.T) {
	top := routed(share("a", "web", 1))
	top.Gateway.MasqueradeAll, top.Services[0].ExternalTrafficPolicy = true, topology.PolicyLocal
	got := compile(t, top, nat.CompileOptions{}).PreservingEndpoints()
	if want := (nat.Endpoint{Addr: netip.MustParseAddr("10.66.0.1"), Proto: overTCP, Port: 9090}); !slices.Contains(got, want) {
		t.Errorf("%v has no %v", got, want)
	}
	top.Services[0].ExternalTrafficPolicy = topology.PolicyCluster
	if got := compile(t, top, nat.CompileOptions{}).PreservingEndpoints(); len(got) != 0 {
		t.Errorf("with policy Cluster: %v", got)
	}
}

// TestLeads judges flows of routes and of services after changes.
func TestLeads(t *testing.T) {
	first := compile(t, routed(share("a", "web", 1), share("b", "web", 1)), nat.CompileOptions{})
	a, b := ports(first)["shop/a:web"].ID, ports(first)["shop/b:web"].ID
	toRoute, toService := tuple(overTCP, outside, 40000, listen4, 443), tuple(overTCP, anyPod, 40000, "10.112.4.1", 80)
	none := routed(share("a", "web", 1))
	none.Routes = nil
	for _, tc := range []struct {
		name       string
		top        *topology.Topology
		toA, toB   bool
		serviceToA bool
	}{
		{"as before", routed(share("a", "web", 1), share("b", "web", 1)), true, true, true},
		{"other weights", routed(share("a", "web", 1), share("b", "web", 1000)), true, true, true},
		{"drained", routed(share("a", "web", 1), share("b", "web", 0)), true, true, true},
		{"taken out", routed(share("b", "web", 1)), false, true, true},
		{"not permitted any more", routed(topology.RouteBackend{Service: "shop/a", Port: "web", Weight: 1,
			Problem: topology.RefNotPermitted}, share("b", "web", 1)), false, true, true},
		{"no route", none, false, false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			table := compile(t, tc.top, nat.CompileOptions{Previous: first})
			if got := table.Leads(&toRoute, a); got != tc.toA {
				t.Errorf("to a: %v", got)
			}
			if got := table.Leads(&toRoute, b); got != tc.toB {
				t.Errorf("to b: %v", got)
			}
			if got := table.Leads(&toService, a); got != tc.serviceToA {
				t.Errorf("service to a: %v", got)
			}
			if table.Leads(&toService, b) {
				t.Error("service a leads to b")
			}
		})
	}
}

func TestRouteCompileFaults(t *testing.T) {
	for name, edit := range map[string]func(*topology.Topology){
		"listener of a service": func(top *topology.Topology) {
			top.Services[0].ExternalIPs, top.Services[0].Ports[0].Port = addrs([]string{listen4}), 443
		},
		"listener of a route":    func(top *topology.Topology) { top.Routes[1].Protocol = topology.TCP },
		"protocol without ports": func(top *topology.Topology) { top.Routes[1].Protocol = topology.SCTP },
	} {
		top := routed(share("a", "web", 1))
		edit(top)
		if _, err := nat.Compile(top, nat.CompileOptions{TableSize: 251}); err == nil || !strings.Contains(err.Error(), "route shop/split") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRouteDecideAllocatesNothing(t *testing.T) {
	table := compile(t, routed(share("a", "web", 1), share("empty", "web", 1), share("b", "web", 1)), nat.CompileOptions{})
	zero := compile(t, routed(share("a", "web", 0)), nat.CompileOptions{})
	seen, port := map[reason.Reason]bool{}, uint16(20000)
	var d nat.Decision
	if n := testing.AllocsPerRun(200, func() {
		port++
		for _, table := range []*nat.Table{table, zero} {
			tu := packet.Tuple{Src: addr(outside), Dst: addr(listen4), SrcPort: port, DstPort: 443, Proto: overTCP}
			d = table.Decide(&tu, nat.Origin{})
			table.Leads(&tu, 1)
			seen[d.Reason] = true
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(seen) != 3 {
		t.Errorf("only %v were decided", seen)
	}
}
