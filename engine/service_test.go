package engine

import (
	"bytes"
	"fmt"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/engine/control"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// changed is the test topology after changes.
func changed(changes ...func(*topology.Topology)) *topology.Topology {
	t := testTopology()
	for _, change := range changes {
		change(t)
	}
	return t
}

// TestLeftToTheKernel: what cluster.unknown_port and cluster.unallocated pass reaches the kernel byte by byte, or is not
// even redirected.
func TestLeftToTheKernel(t *testing.T) {
	unknownPort := func(t *topology.Topology) { t.Cluster.UnknownPort = "pass" }
	unallocated := func(t *topology.Topology) { t.Cluster.Unallocated = "pass" }
	for _, tc := range []struct {
		name       string
		change     func(*topology.Topology)
		frame      []byte
		redirected bool
	}{
		{"unknown port, tcp", unknownPort, frame(tuple(tcp, client, 40000, webIP, 99)), true},
		{"unknown port, udp", unknownPort, frame(tuple(udp, client, 40000, webVIP, 99)), true},
		{"unknown port, segment without SYN", unknownPort, frame(tuple(tcp, client, 40000, webIP, 99), flags(packet.TCPAck)), true},
		{"unknown port v6", unknownPort, frame(tuple(udp, client6, 40000, webIP6, 99)), true},
		{"another protocol", unknownPort, frame(tuple(47, client, 0, webIP, 0), payload(20)), true},
		{"ttl that would run out", unknownPort, frame(tuple(udp, client, 40000, webIP, 99), ttl(1)), true},
		{"unallocated", unallocated, frame(tuple(tcp, client, 40000, "10.96.9.9", 80)), false},
		{"unallocated v6", unallocated, frame(tuple(tcp, client6, 40000, "fd00:96::99", 80)), false},
		{"unallocated, another protocol", unallocated, frame(tuple(47, client, 0, "10.96.9.9", 0), payload(20)), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, changed(tc.change))
			if got := control.Rules(b.snap.NAT).Match(tc.frame); got != tc.redirected {
				t.Errorf("redirected %v, want %v", got, tc.redirected)
			}
			front, back := b.run(0, tc.frame)
			if len(front)+len(back) != 0 || len(b.punted) != 1 || !bytes.Equal(b.punted[0], tc.frame) || b.flows.Stats().Live != 0 {
				t.Errorf("%d sent, %d flows, punted %x, want %x", len(front)+len(back), b.flows.Stats().Live, b.punted, tc.frame)
			}
		})
	}
}

// TestLeftToTheKernelNotTheRest: a known port of the same address is served, and later fragments, that have no port, are not
// taken for an unknown one.
func TestLeftToTheKernelNotTheRest(t *testing.T) {
	b := newBed(t, changed(func(t *topology.Topology) { t.Cluster.UnknownPort, t.Cluster.Unallocated = "pass", "pass" }))
	for _, f := range [][]byte{frame(tuple(udp, client, 40000, webIP, 53)), frame(tuple(udp, client, 40000, webVIP, 53))} {
		if !control.Rules(b.snap.NAT).Match(f) {
			t.Error("a packet to a service is not redirected")
		}
		_, back := b.run(0, f)
		one(t, back)
	}
	later := frame(tuple(udp, client, 40000, webIP, 53))
	var in packet.Info
	packet.Parse(later, &in)
	later[in.L3+6], later[in.L3+7], later[in.L3+10], later[in.L3+11] = 0, 185, 0, 0 // at byte 1480, the last one
	check := ^packet.Sum(later[in.L3:in.L4], 0)
	later[in.L3+10], later[in.L3+11] = byte(check>>8), byte(check)
	front, back := b.run(0, later)
	b.now += maxHeldTime
	b.p.Tick(b.snap, b.now)
	if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(reason.FragmentTimeout) != 1 {
		t.Errorf("%d sent, %d punted, %d waited in vain", len(front)+len(back), len(b.punted), b.counters.Packets(reason.FragmentTimeout))
	}
}

// TestPodInterface: pods are told by the interface that a packet comes in on; the patterns may change.
func TestPodInterface(t *testing.T) {
	interfaces := func(patterns ...string) func(*topology.Topology) {
		return func(t *topology.Topology) { t.Gateway.PodCIDRs, t.Gateway.PodInterfaces = nil, patterns }
	}
	b := newBed(t, changed(interfaces("ba*", "gone7")))
	source := func(iface int, sport uint16) string {
		_, back := b.run(iface, frame(tuple(tcp, client, sport, webIP, 80)))
		return one(t, back).Tuple.Src.String()
	}
	if got := source(1, 40000); got != client {
		t.Errorf("by the pods' interface: source %s, want %s", got, client)
	}
	if got := source(0, 40001); got != gateway {
		t.Errorf("by another interface: source %s, want %s", got, gateway)
	}
	b.reload(changed(interfaces("front")))
	if got := source(1, 40002); got != gateway {
		t.Errorf("by an interface that was the pods': source %s, want %s", got, gateway)
	}
	if got := source(0, 40003); got != client {
		t.Errorf("by the one that is now: source %s, want %s", got, client)
	}
}

// TestRangesOfExistingFlows: UDP flows of a client that may no longer use the service end; TCP connections go on, and only
// new ones are refused.
func TestRangesOfExistingFlows(t *testing.T) {
	ranges := func(deny, all bool, list ...string) func(*topology.Topology) {
		return func(t *topology.Topology) {
			s := web(t)
			s.SourceRanges, s.SourceRangesDeny, s.SourceRangesAll = prefixes(list...), deny, all
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*topology.Topology)
		dst    string
		goesOn bool
	}{
		{"still inside", ranges(false, false, "192.0.2.0/24"), webVIP, true},
		{"no longer inside", ranges(false, false, "192.0.3.0/24"), webVIP, false},
		{"denied", ranges(true, false, "192.0.2.0/24"), webVIP, false},
		{"clusterip, scope vip", ranges(false, false, "192.0.3.0/24"), webIP, true},
		{"clusterip, scope all", ranges(false, true, "192.0.3.0/24"), webIP, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			datagram, conn := tuple(udp, client, 40000, tc.dst, 53), tuple(tcp, client, 40001, tc.dst, 80)
			_, back := b.run(0, frame(datagram), frame(conn))
			if len(back) != 2 {
				t.Fatalf("%d sent, want 2", len(back))
			}
			b.reload(changed(tc.change))
			_, back = b.run(0, frame(datagram))
			if (len(back) == 1) != tc.goesOn || (b.counters.Packets(reason.SourceRange) == 1) == tc.goesOn {
				t.Errorf("%d datagrams sent, %d refused; goes on must be %v", len(back), b.counters.Packets(reason.SourceRange), tc.goesOn)
			}
			_, back = b.run(0, frame(conn, flags(packet.TCPAck)))
			one(t, back) // an established connection goes on in any case
			_, back = b.run(0, frame(tuple(tcp, client, 40002, tc.dst, 80)))
			if (len(back) == 1) != tc.goesOn {
				t.Errorf("%d new connections, want %v", len(back), tc.goesOn)
			}
		})
	}
}

// TestDraining: what becomes of connections to the only endpoint, and of new ones, when it takes no more or less.
func TestDraining(t *testing.T) {
	for _, tc := range []struct {
		name      string
		change    func(*topology.Topology)
		fresh     reason.Reason // of a new connection
		udpGoesOn bool
	}{
		{"no weight", func(t *topology.Topology) { weightless(&web(t).Endpoints[0]) }, reason.NoEndpoints, true},
		{"terminating, still serving", func(t *topology.Topology) { terminating(&web(t).Endpoints[0]) }, reason.LoadBalancer, true},
		{"terminating, not serving", func(t *topology.Topology) {
			unready(&web(t).Endpoints[0])
			web(t).Endpoints[0].Terminating = true
		}, reason.NoEndpoints, false},
		{"removed", func(t *topology.Topology) { web(t).Endpoints = nil }, reason.NoEndpoints, false},
		{"not ready", func(t *topology.Topology) { unready(&web(t).Endpoints[0]) }, reason.NoEndpoints, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			conn, datagram := tuple(tcp, client, 40000, webVIP, 80), tuple(udp, client, 40000, webVIP, 53)
			b.run(0, frame(conn), frame(datagram))
			b.reload(changed(tc.change))
			_, back := b.run(0, frame(conn, flags(packet.TCPAck)))
			if got := one(t, back).Tuple.Dst.String(); got != back1 {
				t.Errorf("the connection goes to %s, want %s", got, back1)
			}
			_, back = b.run(0, frame(datagram))
			if (len(back) == 1) != tc.udpGoesOn {
				t.Errorf("%d datagrams of the flow sent on; want %v", len(back), tc.udpGoesOn)
			}
			before := b.counters.Packets(tc.fresh)
			b.run(0, frame(tuple(tcp, client, 40001, webVIP, 80)))
			if got := b.counters.Packets(tc.fresh) - before; got != 1 {
				t.Errorf("a new connection is not counted as %s", tc.fresh)
			}
			_, back = b.run(0, frame(conn, flags(packet.TCPAck)))
			one(t, back)
		})
	}
}

// TestRollingUpdateOfALocalEndpoint: external policy Local while the only local endpoint goes and another comes
// (kubernetes/kubernetes#85643, KEP-1669).
func TestRollingUpdateOfALocalEndpoint(t *testing.T) {
	b := newBed(t, testTopology())
	sport := uint16(40000)
	step := func(name, want string, endpoints ...topology.Endpoint) {
		t.Helper()
		b.reload(changed(func(t *topology.Topology) {
			web(t).ExternalTrafficPolicy, web(t).Endpoints = topology.PolicyLocal, endpoints
		}))
		sport++
		_, back := b.run(0, frame(tuple(tcp, client, sport, webVIP, 80)))
		if want == "" {
			if len(back) != 0 || b.counters.Packets(reason.NoLocalEndpoints) == 0 {
				t.Errorf("%s: %d sent, want a drop", name, len(back))
			}
			return
		}
		if got := one(t, back).Tuple; got.Dst.String() != want || got.Src.String() != client {
			t.Errorf("%s: %v, want %s with the client's source", name, got, want)
		}
	}
	remote := webEndpoint(back2, "wk-7", nil)
	gone := webEndpoint(back1, "gw-a", func(e *topology.Endpoint) { unready(e); e.Terminating = true })
	step("terminating and serving", back1, webEndpoint(back1, "gw-a", terminating), remote)
	step("terminating, not serving", "", gone, remote)
	step("another local one", "10.64.0.13", webEndpoint(back1, "gw-a", terminating), webEndpoint("10.64.0.13", "gw-a", nil), remote)
}

// TestAffinityOfWorkers: workers share the pins, which outlive a reload; a segment that opens nothing and a packet that no
// client can have sent do not touch them.
func TestAffinityOfWorkers(t *testing.T) {
	topo := func(n int) *topology.Topology {
		return changed(func(t *topology.Topology) {
			web(t).SessionAffinity, web(t).Endpoints = true, nil
			for i := range n {
				web(t).Endpoints = append(web(t).Endpoints, webEndpoint(fmt.Sprintf("10.64.0.%d", 11+i), "wk-1", nil))
			}
		})
	}
	pins := nat.NewAffinity(64, 1)
	a, b := newBed(t, topo(3)), newBed(t, topo(3))
	a.p.Affinity, b.p.Affinity = pins, pins
	backend := func(b *bed, sport uint16) string {
		t.Helper()
		_, back := b.run(0, frame(tuple(tcp, client, sport, webVIP, 80)))
		return one(t, back).Tuple.Dst.String()
	}
	a.run(0, frame(tuple(tcp, client, 39999, webVIP, 80), flags(packet.TCPAck)))
	first := backend(a, 40000)
	n := 4
	for ; ; n++ { // until the first choice is another
		tu := tuple(tcp, client, 1, webVIP, 80)
		if d := snapshot(t, 1, topo(n), nil).NAT.Decide(&tu, nat.Origin{}); d.Backend.Addr.String() != first {
			break
		}
	}
	a.reload(topo(n))
	b.reload(topo(n))
	for sport := range uint16(10) {
		if got := backend(a, 41000+sport); got != first {
			t.Errorf("goes to %s, want %s", got, first)
		}
		if got := backend(b, 42000+sport); got != first {
			t.Errorf("at the other worker to %s, want %s", got, first)
		}
	}
	hour := int64(3600e9)
	a.now += 3*hour - 1
	a.run(0, frame(tuple(tcp, client, 43000, webVIP, 80), flags(packet.TCPAck))) // renews nothing
	a.now++
	if got := backend(a, 43001); got == first {
		t.Errorf("pinned to %s beyond the timeout", got)
	}
}

// TestFirstPacketAllocates opens flows of a service with affinity and ranges.
func TestFirstPacketAllocates(t *testing.T) {
	topo := changed(func(t *topology.Topology) {
		t.Conntrack.MaxFlows = 4096
		web(t).SessionAffinity, web(t).SourceRanges = true, prefixes("192.0.2.0/24")
		t.Gateway.PodInterfaces = []string{"cali*"}
		web(t).Endpoints = append(web(t).Endpoints, webEndpoint(back2, "wk-1", nil))
	})
	b := newBed(t, topo)
	b.p.Affinity = nat.NewAffinity(64, 1)
	b.run(0, frame(tuple(udp, client, 1, webVIP, 53)))
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	in := packet.Info{}
	sport := uint16(1)
	if n := testing.AllocsPerRun(100, func() {
		sport++
		in.Tuple = tuple(udp, client, 0, webVIP, 53)
		in.Tuple.SrcPort = sport
		d := b.snap.NAT.Decide(&in.Tuple, nat.Origin{})
		d = b.snap.NAT.Stick(b.p.Affinity, d, &in.Tuple, b.now)
		b.p.in = &in
		in.Proto = udp
		if flow, _, why := b.p.insert(&d); flow == nil || flow.Tuple(conntrack.Forward) != in.Tuple {
			t.Fatal(why)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
