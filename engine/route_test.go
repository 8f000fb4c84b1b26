package engine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

const routeAddr = "203.0.113.99"

// routedTopology has a second service at back2 and a route of each protocol that spreads over it and the web service.
func routedTopology(web, second int) *topology.Topology {
	t := testTopology()
	s := t.Services[2]
	s.Name, s.Type, s.ClusterIPs, s.LoadBalancerIPs, s.ExternalIPs = "second", topology.ClusterIP, addrs("10.96.4.14"), nil, nil
	s.Ports = slices.Clone(s.Ports)
	for i := range s.Ports {
		s.Ports[i].NodePort = 0
	}
	s.Endpoints = []topology.Endpoint{endpoint(back2, "wk-2", map[string]uint16{"web": 8080, "dns": 5353})}
	t.Services = append(t.Services, s)
	for _, r := range []struct {
		proto topology.Protocol
		port  string
	}{{topology.TCP, "web"}, {topology.UDP, "dns"}} {
		t.Routes = append(t.Routes, topology.Route{Namespace: "shop", Name: "split", Protocol: r.proto,
			Listen: []netip.AddrPort{netip.MustParseAddrPort(routeAddr + ":443")},
			Backends: []topology.RouteBackend{{Service: "shop/web", Port: r.port, Weight: web},
				{Service: "shop/second", Port: r.port, Weight: second}}})
	}
	return t
}

// TestRouteFlowsAfterReload: a flow keeps its backend while its route leads there, whatever the weights are now; a UDP flow whose
// share has been taken out starts anew, and a TCP flow goes on to its end.
func TestRouteFlowsAfterReload(t *testing.T) {
	without := func() *topology.Topology {
		top := routedTopology(1, 1)
		for i := range top.Routes {
			top.Routes[i].Backends = top.Routes[i].Backends[1:]
		}
		return top
	}
	for _, tc := range []struct {
		name     string
		next     *topology.Topology
		tcp, udp string // where flows that went to back1 go on to
		anew     string // where a new connection on the same ports goes
	}{
		{"nothing new", routedTopology(1, 0), back1, back1, back1},
		{"drained", routedTopology(0, 1), back1, back1, back1},
		{"taken out", without(), back1, back2, back2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, routedTopology(1, 0))
			conn, datagram := tuple(tcp, client, 40000, routeAddr, 443), tuple(udp, client, 40000, routeAddr, 443)
			for _, tu := range []packet.Tuple{conn, datagram} {
				_, back := b.run(0, frame(tu))
				if got := one(t, back).Tuple.Dst.String(); got != back1 {
					t.Fatalf("%v goes to %s", tu, got)
				}
			}
			b.reload(tc.next)
			for _, want := range []struct {
				tu    packet.Tuple
				flags uint8
				to    string
			}{{conn, packet.TCPAck, tc.tcp}, {datagram, 0, tc.udp}, {conn, packet.TCPSyn, tc.anew}} {
				_, back := b.run(0, frame(want.tu, flags(want.flags)))
				if got := one(t, back).Tuple.Dst.String(); got != want.to {
					t.Errorf("%v goes to %s, want %s", want.tu, got, want.to)
				}
			}
		})
	}
}

// TestRouteFlowBelongsToItsService counts a flow of a route for the service port it goes to.
func TestRouteFlowBelongsToItsService(t *testing.T) {
	b := newBed(t, routedTopology(0, 1))
	conn := tuple(tcp, client, 40000, routeAddr, 443)
	_, back := b.run(0, frame(conn))
	one(t, back)
	flow, _, ok := b.p.Flows.Lookup(&conn)
	if !ok {
		t.Fatal("no flow")
	}
	port := b.snap.NAT.PortByID(flow.Meta().Service)
	if port == nil || port.String() != "shop/second:web" {
		t.Errorf("flow of %v", port)
	}
	if got := flow.Tuple(conntrack.Reply).Dst.String(); got != gateway {
		t.Errorf("replies come to %s", got)
	}
	if n := b.counters.Packets(reason.Route); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestRouteRefuses: a refused share answers TCP and is silent to UDP.
func TestRouteRefuses(t *testing.T) {
	empty := routedTopology(0, 1)
	empty.Services[3].Endpoints = nil
	broken := routedTopology(0, 1)
	for i := range broken.Routes {
		broken.Routes[i].Backends[1].Problem = topology.RefNotPermitted
	}
	for _, tc := range []struct {
		name string
		top  *topology.Topology
		why  reason.Reason
	}{{"no endpoints", empty, reason.NoEndpoints}, {"not permitted", broken, reason.RouteBackendInvalid}, {"no weight", routedTopology(0, 0), reason.RouteBackendInvalid}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, tc.top)
			front, back := b.run(0, frame(tuple(tcp, client, 40000, routeAddr, 443)))
			if one(t, front); len(back) != 0 || b.counters.Packets(tc.why) != 1 {
				t.Errorf("%d to backends, %d counted", len(back), b.counters.Packets(tc.why))
			}
			front, back = b.run(0, frame(tuple(udp, client, 40000, routeAddr, 443)))
			if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(tc.why) != 2 {
				t.Errorf("UDP: %d answers, %d to backends, %d counted", len(front), len(back), b.counters.Packets(tc.why))
			}
		})
	}
}

func TestTraceRoute(t *testing.T) {
	broken := routedTopology(1, 3)
	broken.Routes[0].Backends[0].Problem, broken.Routes[0].Backends[1].Problem = topology.BackendNotFound, topology.RefNotPermitted
	to := func(proto, port string) TraceSpec {
		return traceSpec(FromExternal, proto, "192.0.2.10:40000", routeAddr+":"+port)
	}
	for _, tc := range []struct {
		name string
		top  *topology.Topology
		spec TraceSpec
		want string // verdict reason service backend snat_source reject, "-" for none
		why  string // part of the step of the route
	}{
		{"share", routedTopology(0, 5), to("tcp", "443"), "forward route shop/second:web 10.64.0.12:8080 198.18.0.10 -",
			"TCP of 2 backends; chosen: shop/second:web, weight 5 of 5"},
		{"refused", broken, to("tcp", "443"), "reject route_backend_invalid - - - icmp", "of 4: its share of the flows, by the hash of the tuple; it is refused: "},
		{"no weight, udp", routedTopology(0, 0), to("udp", "443"), "drop route_backend_invalid - - - -", ""},
		{"other port", routedTopology(1, 1), to("tcp", "80"), "reject unknown_port - - - icmp", ""},
		{"echo", routedTopology(1, 1), to("icmp", "0"), "forward echo_reply - - - -", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Trace(tc.top, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			fields := []string{r.Verdict, r.Reason, r.Service, r.Backend, r.SNATSource, r.Reject}
			for i, f := range fields {
				if f == "" {
					fields[i] = "-"
				}
			}
			if got := strings.Join(fields, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			i := slices.IndexFunc(r.Steps, func(s Step) bool { return s.Stage == "route" })
			if (i >= 0) != (tc.why != "") || i >= 0 && (!strings.Contains(r.Steps[i].Why, tc.why) || r.Steps[i].Result != "shop/split") {
				t.Errorf("steps %+v", r.Steps)
			}
		})
	}
}
