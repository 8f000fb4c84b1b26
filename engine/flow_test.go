package engine

import (
	"net/netip"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// TestPendingNeighbour holds packets while the next hop is unknown, and sends them in order when it is found.
func TestPendingNeighbour(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.State = fib.Incomplete })
	for i := range uint16(3) {
		if _, back := b.run(0, frame(tuple(udp, client, 40000+i, webVIP, 53))); len(back) != 0 {
			t.Fatal("sent without a link-layer address")
		}
	}
	if b.p.Pending() != 3 || len(b.resolved) == 0 {
		t.Fatalf("%d wait, %d requests", b.p.Pending(), len(b.resolved))
	}
	b.now += int64(time.Second)
	b.p.Tick(b.snap, b.now)
	if b.p.Pending() != 3 {
		t.Fatal("gave up after a second")
	}
	b.hops = hops(3, nil)
	_, back := b.run(0)
	if len(back) != 3 || b.counters.Packets(reason.NeighbourResolved) != 3 {
		t.Fatalf("%d sent after resolution", len(back))
	}
	for i, f := range back {
		in := verify(t, f)
		if [6]byte(f[:6]) != backendMAC || in.TTL != 63 {
			t.Errorf("packet %d: to %x, TTL %d", i, f[:6], in.TTL)
		}
	}
}

func TestPendingIsBounded(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.State = fib.Incomplete })
	for i := range uint16(100) {
		b.run(0, frame(tuple(udp, client, 40000+i, webVIP, 53)))
	}
	if b.p.Pending() != maxPendingPerHop || b.counters.Packets(reason.NeighbourQueueFull) != 100-maxPendingPerHop {
		t.Errorf("%d wait, %d turned away", b.p.Pending(), b.counters.Packets(reason.NeighbourQueueFull))
	}
	b.now += maxPendingTime
	b.run(0)
	if b.p.Pending() != 0 || b.counters.Packets(reason.NeighbourFailed) != maxPendingPerHop {
		t.Errorf("%d wait, %d given up", b.p.Pending(), b.counters.Packets(reason.NeighbourFailed))
	}
}

// TestNoWay covers next hops to which nothing can be sent. No flow is made.
func TestNoWay(t *testing.T) {
	for state, why := range map[fib.State]reason.Reason{
		fib.NoRoute: reason.NoRoute, fib.Local: reason.LocalBackend, fib.NotAttached: reason.NotAttached,
	} {
		t.Run(state.String(), func(t *testing.T) {
			b := newBed(t, testTopology())
			b.hops = hops(2, func(h *fib.NextHop) { *h = fib.NextHop{State: state, Iface: -1} })
			front, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
			if len(front)+len(back) != 0 || b.counters.Packets(why) != 1 || b.flows.Stats().Live != 0 {
				t.Errorf("%d sent, %d counted, %d flows", len(front)+len(back), b.counters.Packets(why), b.flows.Stats().Live)
			}
		})
	}
}

func TestTooBig(t *testing.T) {
	for _, tc := range []struct {
		name   string
		packet packet.Tuple
		answer uint8 // ICMP type
	}{
		{"ipv4", tuple(udp, client, 40000, webVIP, 53), 3},
		{"ipv6", tuple(udp, client6, 40000, webIP6, 53), 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 1400 })
			front, back := b.run(0, frame(tc.packet, payload(1400)))
			if len(back) != 0 || b.counters.Packets(reason.TooBig) != 1 {
				t.Fatalf("%d sent on", len(back))
			}
			in := one(t, front)
			if in.ICMPType != tc.answer || front[0][in.L4+6] != 1400>>8 || front[0][in.L4+7] != 1400&0xff {
				t.Errorf("type %d, MTU bytes %x", in.ICMPType, front[0][in.L4+4:in.L4+8])
			}
		})
	}
}

// TestUDPFlowLeavesARemovedBackend: a client that keeps sending must not keep a dead flow alive.
func TestUDPFlowLeavesARemovedBackend(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*topology.Topology)
		why    reason.Reason // of the next datagram
	}{
		{"endpoint removed, others left", func(t *topology.Topology) {
			t.Services[2].Endpoints = []topology.Endpoint{endpoint(back2, "wk-2", map[string]uint16{"web": 8080, "dns": 5353})}
		}, reason.LoadBalancer},
		{"endpoint no longer serving", func(t *topology.Topology) {
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Serving = false, false
		}, reason.NoEndpoints},
		{"scaled to zero", func(t *topology.Topology) { t.Services[2].Endpoints = nil }, reason.NoEndpoints},
		{"service deleted", func(t *topology.Topology) { t.Services = t.Services[:2] }, reason.NotOurs},
		{"endpoint terminating but serving", func(t *topology.Topology) {
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Terminating = false, true
		}, reason.Established},
		{"nothing changed", func(*topology.Topology) {}, reason.Established},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			datagram := tuple(udp, client, 40000, webVIP, 53)
			b.run(0, frame(datagram))
			changed := testTopology()
			tc.change(changed)
			b.reload(changed)
			_, back := b.run(0, frame(datagram))
			if b.counters.Packets(tc.why) == 0 || tc.why == reason.LoadBalancer && b.counters.Packets(tc.why) != 2 {
				t.Errorf("next datagram is not counted as %v", tc.why)
			}
			for _, f := range back {
				if in := verify(t, f); tc.why == reason.LoadBalancer && in.Tuple.Dst.String() != back2 {
					t.Errorf("next datagram goes to %v", in.Tuple.Dst)
				}
			}
		})
	}
}

// TestTCPFlowStaysWithARemovedBackend: it may drain, but no new connection goes there.
func TestTCPFlowStaysWithARemovedBackend(t *testing.T) {
	b := newBed(t, testTopology())
	conn := tuple(tcp, client, 40000, webVIP, 80)
	b.run(0, frame(conn))
	changed := testTopology()
	changed.Services[2].Endpoints = []topology.Endpoint{endpoint(back2, "wk-2", map[string]uint16{"web": 8080, "dns": 5353})}
	b.reload(changed)
	_, back := b.run(0, frame(conn, flags(packet.TCPAck)))
	if got := one(t, back).Tuple.Dst.String(); got != back1 {
		t.Errorf("established connection goes to %s, want %s", got, back1)
	}
	_, back = b.run(0, frame(tuple(tcp, client, 40001, webVIP, 80)))
	if got := one(t, back).Tuple.Dst.String(); got != back2 {
		t.Errorf("new connection goes to %s, want %s", got, back2)
	}
}

// TestSYNReusesAFinishedConnection: a client that uses a port again at once must not lose its SYN.
func TestSYNReusesAFinishedConnection(t *testing.T) {
	b := newBed(t, testTopology())
	conn := tuple(tcp, client, 40000, webVIP, 80)
	b.run(0, frame(conn))
	b.run(0, frame(conn, flags(packet.TCPRst|packet.TCPAck)))
	_, back := b.run(0, frame(conn))
	one(t, back)
	if got := b.counters.Packets(reason.LoadBalancer); got != 2 {
		t.Errorf("%d flows were opened, want 2", got)
	}
	if live := b.flows.Stats().Live; live != 1 {
		t.Errorf("%d flows, want 1", live)
	}
}

// TestOneSourcePortTwoVIPs: both flows lead to one backend and would look alike to it.
func TestOneSourcePortTwoVIPs(t *testing.T) {
	topo := testTopology()
	topo.Services[1].LoadBalancerIPs = addrs(localVIP, "203.0.113.7")
	b := newBed(t, topo)
	first, second := tuple(tcp, client, 40000, localVIP, 80), tuple(tcp, client, 40000, "203.0.113.7", 80)
	_, back1 := b.run(0, frame(first))
	_, back2 := b.run(0, frame(second))
	a, c := one(t, back1).Tuple, one(t, back2).Tuple
	if a == c {
		t.Fatalf("the backend sees both as %v", a)
	}
	for want, reply := range map[packet.Tuple]packet.Tuple{first: a.Reverse(), second: c.Reverse()} {
		front, _ := b.run(1, frame(reply, flags(packet.TCPSyn|packet.TCPAck)))
		if got := one(t, front).Tuple; got != want.Reverse() {
			t.Errorf("reply is %v, want %v", got, want.Reverse())
		}
	}
}

func TestSNATPoolIsUsedWhollyThenRefuses(t *testing.T) {
	topo := testTopology()
	topo.Gateway.SNATPorts = topology.PortRange{First: 40000, Last: 40009}
	b := newBed(t, topo)
	seen := map[uint16]bool{}
	for i := range uint16(10) {
		_, back := b.run(0, frame(tuple(tcp, client, 1000+i, webVIP, 80)))
		seen[one(t, back).Tuple.SrcPort] = true
	}
	if len(seen) != 10 {
		t.Fatalf("%d ports used, want 10", len(seen))
	}
	for range 2 { // the second time from memory
		b.run(0, frame(tuple(tcp, client, 2000, webVIP, 80)))
	}
	if got := b.counters.Packets(reason.SNATExhausted); got != 2 {
		t.Errorf("%d refused, want 2", got)
	}
	_, back := b.run(0, frame(tuple(udp, client, 2000, webVIP, 53))) // another destination
	one(t, back)
	b.now += 2 * exhaustedFor
	b.run(0, frame(tuple(tcp, client, 1000, webVIP, 80), flags(packet.TCPRst)))
	b.now += int64(topo.Conntrack.Timeouts.TCPClose) + 1
	_, back = b.run(0, frame(tuple(tcp, client, 2000, webVIP, 80)))
	one(t, back)
}

func TestFullTableRefusesNewFlows(t *testing.T) {
	topo := testTopology()
	topo.Conntrack.MaxFlows = 16
	b := newBed(t, topo)
	for i := range uint16(16) {
		b.run(0, frame(tuple(tcp, client, 1000+i, webVIP, 80)))
	}
	_, back := b.run(0, frame(tuple(tcp, client, 2000, webVIP, 80)))
	if len(back) != 0 || b.counters.Packets(reason.TableFull) != 1 {
		t.Errorf("%d sent, %d counted", len(back), b.counters.Packets(reason.TableFull))
	}
	_, back = b.run(0, frame(tuple(tcp, client, 1000, webVIP, 80), flags(packet.TCPAck)))
	one(t, back) // established flows go on
}

func TestRepliesAreRateLimited(t *testing.T) {
	b := newBed(t, testTopology())
	count := func() (n int) {
		for range 300 {
			front, _ := b.run(0, frame(tuple(udp, client, 40000, webVIP, 99)))
			n += len(front)
		}
		return n
	}
	if n := count(); n != repliesPerSecond/10 {
		t.Errorf("%d answers at once, want %d", n, repliesPerSecond/10)
	}
	if b.counters.Packets(reason.RateLimited) != 300-repliesPerSecond/10 {
		t.Error("the rest is not counted")
	}
	b.now += 50e6
	if n := count(); n != repliesPerSecond/20 {
		t.Errorf("%d answers after 50 ms, want %d", n, repliesPerSecond/20)
	}
}

func TestVLANTags(t *testing.T) {
	for _, tc := range []struct {
		name    string
		in, out uint16
	}{{"untagged to tagged", 0, 7}, {"tagged to untagged", 5, 0}, {"tagged to tagged", 5, 7}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			b.hops = hops(2, func(h *fib.NextHop) { h.VLAN = tc.out })
			_, back := b.run(0, frame(tuple(tcp, client, 40000, webVIP, 80), func(s *packet.Spec) { s.VLAN = tc.in }))
			in := one(t, back)
			if in.VLAN != tc.out || (in.VLANs == 1) != (tc.out != 0) {
				t.Errorf("%d tags, %d; want %d", in.VLANs, in.VLAN, tc.out)
			}
			if [6]byte(back[0][:6]) != backendMAC || [6]byte(back[0][6:12]) != backMAC {
				t.Errorf("link-layer addresses %x", back[0][:12])
			}
		})
	}
}

// TestFullRing loses what does not fit, counted, and no frame.
func TestFullRing(t *testing.T) {
	b := newBed(t, testTopology())
	b.port.Stall(1, true)
	conn := tuple(tcp, client, 40000, webVIP, 80)
	for range 10 {
		batch := make([][]byte, 64)
		for i := range batch {
			batch[i] = frame(conn)
		}
		b.run(0, batch...)
	}
	if b.counters.Packets(reason.TxFull) == 0 {
		t.Error("nothing was counted as lost")
	}
	b.port.Stall(1, false)
	_, back := b.run(0, frame(conn))
	if len(back) == 0 {
		t.Error("nothing moves after the stall")
	}
}

func TestPuntWithoutRoom(t *testing.T) {
	b := newBed(t, testTopology())
	b.puntFull = true
	b.run(0, frame(tuple(tcp, client, 40000, gateway, 22)))
	if b.counters.Packets(reason.PuntFull) != 1 || b.counters.Packets(reason.NotOurs) != 0 {
		t.Error("a lost packet must be counted as such")
	}
}

// TestPipelineDoesNotAllocate covers every path that a packet can take often.
func TestPipelineDoesNotAllocate(t *testing.T) {
	hit := frame(tuple(tcp, client, 40000, webVIP, 80))
	for _, tc := range []struct {
		name  string
		frame []byte
		each  func(*bed)
	}{
		{"hit", hit, nil},
		{"new flow", hit, func(b *bed) { b.now += int64(time.Hour) }},
		{"reject", frame(tuple(tcp, client, 40000, webIP, 443)), nil},
		{"rate limited", frame(tuple(udp, client, 40000, webIP, 443)), nil},
		{"drop", frame(tuple(tcp, client, 40000, "10.96.9.9", 80)), nil},
		{"echo", frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho }), nil},
		{"punt", frame(tuple(tcp, client, 40000, gateway, 22)), nil},
		{"answered reject", frame(tuple(tcp, client, 40000, webIP, 443)), func(b *bed) { b.now += 1e9 }},
		{"too big", frame(tuple(udp, client, 40000, webVIP, 53), payload(1500)), func(b *bed) { b.now += 1e9 }},
		{"icmp error", quoteError(packet.AddrFrom(netip.MustParseAddr(routerAddr)),
			frame(tuple(tcp, localVIP, 80, client, 40000)), 28, packet.TooBig, 1400), nil},
		{"hit after a reload", hit, func(b *bed) { b.snap.Generation++; b.p.snap = nil }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			b.run(0, frame(tuple(tcp, client, 40000, localVIP, 80))) // what the ICMP error is about
			b.puntFull = true                                        // so that the test's punter keeps nothing
			b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 64, Discard: true, Interfaces: []xdp.Interface{{Name: "a"}, {Name: "b"}}})
			b.p.Port = b.port
			frames := make([]xdp.Frame, 1)
			one := func() {
				if tc.each != nil {
					tc.each(b)
				}
				if err := b.port.Deliver(0, tc.frame); err != nil {
					t.Fatal(err)
				}
				n := b.port.Receive(frames)
				b.p.Process(b.snap, b.now, frames[:n])
				if err := b.port.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(300, one); n != 0 {
				t.Errorf("%v allocations a packet", n)
			}
		})
	}
}

// TestPortsReusedAtOnce opens and ends a thousand connections in one second from a handful of source ports: no packet of any is
// lost.
func TestPortsReusedAtOnce(t *testing.T) {
	b := newBed(t, testTopology())
	one := func(n int) {
		seq, answer := uint32(n)*7919, -uint32(n)*104729
		there := tuple(tcp, podClient, uint16(40000+n%5), webIP, 80)
		var back packet.Tuple
		for i, s := range []struct {
			reply    bool
			flags    uint8
			seq, ack uint32
		}{
			{false, packet.TCPSyn, seq, 0}, {true, packet.TCPSyn | packet.TCPAck, answer, seq + 1},
			{false, packet.TCPAck, seq + 1, answer + 1}, {true, packet.TCPFin | packet.TCPAck, answer + 1, seq + 1},
			{false, packet.TCPFin | packet.TCPAck, seq + 1, answer + 2}, {true, packet.TCPAck, answer + 2, seq + 2},
		} {
			from, tu := 0, there
			if s.reply {
				from, tu = 1, back
			}
			front, out := b.run(from, frame(tu, func(p *packet.Spec) { p.TCPFlags, p.Seq, p.Ack = s.flags, s.seq, s.ack }))
			sent := out
			if s.reply {
				sent = front
			}
			if len(sent) != 1 || len(front)+len(out) != 1 {
				t.Fatalf("connection %d, packet %d: %d and %d sent", n, i, len(front), len(out))
			}
			if !s.reply {
				in := verify(t, sent[0])
				back = in.Tuple.Reverse()
			}
		}
	}
	for n := range 1000 {
		b.now += int64(time.Millisecond)
		one(n)
	}
	if s := b.flows.Stats(); s.Inserted != 1000 || s.Live != 5 {
		t.Errorf("%d flows inserted, %d live, want 1000 and 5", s.Inserted, s.Live)
	}
	if n := b.counters.Packets(reason.Established); n != 5000 {
		t.Errorf("%d packets of tracked flows, want 5000", n)
	}
}
