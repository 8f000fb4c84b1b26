package engine

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/nat/nattest"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// TestPacketCases takes every packet case through the rules of XDP and a pipeline, and through the tracer: both must do
// what kube-proxy does.
func TestPacketCases(t *testing.T) {
	for _, load := range []func() ([]nattest.PacketCase, error){nattest.PacketCases, nattest.MoreCases} {
		cases, err := load()
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) < 70 {
			t.Errorf("%d cases, want at least 70", len(cases))
		}
		for i := range cases {
			t.Run(cases[i].ID, func(t *testing.T) { runPacketCase(t, &cases[i]) })
		}
	}
}

// outcome is what can be seen of a packet from outside.
type outcome struct {
	verdict, backend, source string // source is the address that the backend sees
}

func runPacketCase(t *testing.T, c *nattest.PacketCase) {
	top, err := c.Topology()
	if err != nil {
		t.Fatal(err)
	}
	top.Conntrack = topology.Conntrack{MaxFlows: 64, Timeouts: topology.DefaultTimeouts()}
	p := &c.Packet
	spec := TraceSpec{From: Origin(p.From), Proto: strings.ToLower(p.Proto), Src: addrPort(p.Src, p.Sport), Dst: addrPort(p.Dst, p.Dport),
		Interface: p.Interface}
	traced, err := Trace(top, spec)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]string{}, c.Expected.DstAnyOf...)
	slices.Sort(want)
	if c.Expected.Verdict != "forward" {
		want = nil
	}
	if traced.Verdict != c.Expected.Verdict || traced.SNAT != c.Expected.SNAT || !slices.Equal(traced.Candidates, want) {
		t.Errorf("trace: %s (%s), snat %v, candidates %v; want %s, %v, %v", traced.Verdict, traced.Reason, traced.SNAT, traced.Candidates,
			c.Expected.Verdict, c.Expected.SNAT, want)
	}
	got := wire(t, top, &spec)
	if got.verdict != c.Expected.Verdict {
		t.Fatalf("on the wire: %s, want %s", got.verdict, c.Expected.Verdict)
	}
	if got.verdict != "forward" {
		return
	}
	if !slices.Contains(want, got.backend) || got.backend != traced.Backend {
		t.Errorf("on the wire to %s, trace says %s; want one of %v", got.backend, traced.Backend, want)
	}
	source := p.Src
	if c.Expected.SNAT {
		source = c.Primary(spec.Src.Addr().Is4())
	}
	if got.source != source {
		t.Errorf("the backend sees %s, want %s", got.source, source)
	}
}

func addrPort(addr string, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port)
}

// wire sends the packet through the twin of the XDP program and a pipeline, and looks at what comes out.
func wire(t *testing.T, top *topology.Topology, spec *TraceSpec) outcome {
	snap, err := control.Build(top, nil, nil) // with tables of the size that the tracer and a gateway use
	if err != nil {
		t.Fatal(err)
	}
	if spec.Interface != "" && snap.NAT.IsPodInterface(spec.Interface) {
		asFront := *top // the packet comes in on "front" whatever the case calls it
		asFront.Gateway.PodInterfaces = append(slices.Clone(top.Gateway.PodInterfaces), "front")
		if snap, err = control.Build(&asFront, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	b := newBed(t, top)
	b.snap = snap
	b.hops = fib.Static(1, routesTo(top)...)
	b.p.fromNode = spec.From == FromNode
	proto := map[string]uint8{"tcp": tcp, "udp": udp, "sctp": packet.ProtoSCTP}[spec.Proto]
	in := frame(tuple(proto, spec.Src.Addr().String(), spec.Src.Port(), spec.Dst.Addr().String(), spec.Dst.Port()))
	if !b.p.fromNode && !snap.Rules.Match(in) {
		return outcome{verdict: "pass"}
	}
	front, _ := b.run(0, in)
	switch {
	case len(b.punted) == 1 && string(b.punted[0]) == string(in):
		return outcome{verdict: "pass"}
	case len(front) == 0:
		return outcome{verdict: "drop"}
	case b.counters.Packets(reason.NoEndpoints)+b.counters.Packets(reason.UnknownPort) == 1:
		if got := one(t, front); !got.IsICMP() || got.Tuple.Dst.String() != spec.Src.Addr().String() {
			t.Errorf("refused with %v", got.Tuple)
		}
		return outcome{verdict: "reject"}
	}
	out := one(t, front).Tuple
	return outcome{"forward", netip.AddrPortFrom(out.Dst.Netip(), out.DstPort).String(), out.Src.String()}
}

// routesTo leads everywhere by interface 0, save to the gateway itself.
func routesTo(top *topology.Topology) []fib.Route {
	hop := fib.NextHop{State: fib.Ready, Iface: 0, MTU: 1500, SrcMAC: frontMAC, DstMAC: clientMAC}
	routes := []fib.Route{{Prefix: netip.MustParsePrefix("0.0.0.0/0"), Hop: hop}, {Prefix: netip.MustParsePrefix("::/0"), Hop: hop}}
	for _, a := range top.Gateway.LocalAddresses {
		routes = append(routes, fib.Route{Prefix: netip.PrefixFrom(a, a.BitLen()), Hop: fib.NextHop{State: fib.Local, Iface: -1}})
	}
	return routes
}
