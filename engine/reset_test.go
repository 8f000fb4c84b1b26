package engine

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// resetting is a topology whose web service resets the connections of endpoints that leave.
func resetting(t *topology.Topology) *topology.Topology {
	t.Services[2].RemovedReset = true
	return t
}

// numbers sets sequence and acknowledgement number.
func numbers(seq, ack uint32) func(*packet.Spec) {
	return func(s *packet.Spec) { s.Seq, s.Ack = seq, ack }
}

// segment is what a test looks at of a TCP segment.
type segment struct {
	tuple    packet.Tuple
	flags    uint8
	seq, ack uint32
}

func segmentOf(t testing.TB, frames [][]byte) segment {
	t.Helper()
	in := one(t, frames)
	b := frames[0][in.L4:]
	return segment{in.Tuple, in.TCPFlags, binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])}
}

// handshake opens a connection to the web service and returns what its backend sends.
func handshake(b *bed, conn packet.Tuple) packet.Tuple {
	b.t.Helper()
	return handshakeFrom(b, conn, 2, 2)
}

// handshakeFrom is handshake with the sequence numbers of the first byte of the client and of the server.
func handshakeFrom(b *bed, conn packet.Tuple, client, server uint32) packet.Tuple {
	b.t.Helper()
	_, back := b.run(0, frame(conn, numbers(client-1, 0)))
	reply := one(b.t, back).Tuple.Reverse()
	b.run(1, frame(reply, flags(packet.TCPSyn|packet.TCPAck), numbers(server-1, client)))
	b.run(0, frame(conn, flags(packet.TCPAck), numbers(client, server)))
	return reply
}

// TestResetOfARemovedEndpoint resets an established connection at both ends, whichever sends first, with exact numbers.
func TestResetOfARemovedEndpoint(t *testing.T) {
	conn, conn6 := tuple(tcp, client, 40000, webVIP, 80), tuple(tcp, client6, 40000, webIP6, 80)
	data, fin := flags(packet.TCPAck|packet.TCPPsh), flags(packet.TCPAck|packet.TCPFin)
	for _, tc := range []struct {
		name       string
		conn       packet.Tuple
		fromServer bool
		change     []func(*packet.Spec)
	}{
		{"client sends data", conn, false, []func(*packet.Spec){data, payload(100)}},
		{"client acknowledges", conn, false, []func(*packet.Spec){flags(packet.TCPAck)}},
		{"client finishes", conn, false, []func(*packet.Spec){fin}},
		{"server sends data", conn, true, []func(*packet.Spec){data, payload(1000)}},
		{"client sends, ipv6", conn6, false, []func(*packet.Spec){data, payload(100)}},
		{"server sends, ipv6", conn6, true, []func(*packet.Spec){data, payload(100)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, resetting(testTopology()))
			numbersOf := [2]uint32{5000, 9000}
			if tc.fromServer {
				numbersOf = [2]uint32{9000, 5000}
			}
			reply := handshakeFrom(b, tc.conn, numbersOf[0], numbersOf[1])
			b.reload(resetting(moved()))
			sent, iface := tc.conn, 0
			wantFront := segment{tc.conn.Reverse(), packet.TCPRst, 9000, 0}
			wantBack := segment{reply.Reverse(), packet.TCPRst | packet.TCPAck, 5000, 9000}
			if tc.fromServer {
				sent, iface = reply, 1
				wantFront = segment{tc.conn.Reverse(), packet.TCPRst | packet.TCPAck, 5000, 9000}
				wantBack = segment{reply.Reverse(), packet.TCPRst, 9000, 0}
			}
			front, back := b.run(iface, frame(sent, append(tc.change, numbers(5000, 9000))...))
			if got := segmentOf(t, front); got != wantFront {
				t.Errorf("client gets %+v, want %+v", got, wantFront)
			}
			if got := segmentOf(t, back); got != wantBack {
				t.Errorf("server gets %+v, want %+v", got, wantBack)
			}
			if n := b.counters.Packets(reason.EndpointRemoved); n != 1 {
				t.Errorf("counted %d times, want once", n)
			}
		})
	}
}

// TestResetAnswersAllThatFollows: the other end may ask what it is to make of a RST out of order (RFC 5961), and its RST is
// translated like any other segment.
func TestResetAnswersAllThatFollows(t *testing.T) {
	b := newBed(t, resetting(testTopology()))
	conn := tuple(tcp, client, 40000, webVIP, 80)
	reply := handshakeFrom(b, conn, 5000, 9000)
	b.reload(resetting(moved()))
	b.run(0, frame(conn, flags(packet.TCPAck), numbers(5000, 9000)))
	_, back := b.run(1, frame(reply, flags(packet.TCPAck), numbers(9000, 4900)))
	if got, want := segmentOf(t, back), (segment{reply.Reverse(), packet.TCPRst, 4900, 0}); got != want {
		t.Errorf("challenge is answered with %+v, want %+v", got, want)
	}
	front, back := b.run(1, frame(reply, flags(packet.TCPRst), numbers(9000, 0)))
	if got, want := segmentOf(t, front), (segment{conn.Reverse(), packet.TCPRst, 9000, 0}); got != want || len(back) != 0 {
		t.Errorf("a RST becomes %+v and %d answers, want %+v and none", got, len(back), want)
	}
	b.p.Flows.Enter(b.now)
	if f, _, ok := b.p.Flows.Lookup(&reply); !ok || f.State() != conntrack.Closed {
		t.Errorf("the flow must stay, closed; found %v", ok)
	}
	b.p.Flows.Leave()
	_, back = b.run(0, frame(conn))
	if got := one(t, back).Tuple.Dst.String(); got != back2 {
		t.Errorf("the client's next connection goes to %s, want %s", got, back2)
	}
}

// TestFinishedConnectionIsNotReset: what is left of it are copies of its last segments.
func TestFinishedConnectionIsNotReset(t *testing.T) {
	b := newBed(t, resetting(testTopology()))
	conn := tuple(tcp, client, 40000, webVIP, 80)
	reply := handshake(b, conn)
	fin := flags(packet.TCPAck | packet.TCPFin)
	b.run(0, frame(conn, fin, numbers(2, 2)))
	b.run(1, frame(reply, fin, numbers(2, 3)))
	b.reload(resetting(moved()))
	front, back := b.run(0, frame(conn, flags(packet.TCPAck), numbers(3, 3)))
	want := segment{reply.Reverse(), packet.TCPAck, 3, 3}
	if got := segmentOf(t, back); got != want || len(front) != 0 {
		t.Errorf("goes on as %+v, want %+v; %d answers", got, want, len(front))
	}
}

// TestRaceForASYN: a worker that still has the services from before has opened the flow that another one is about to open for
// a copy of the SYN. The copy is lost; the client's next one gets through.
func TestRaceForASYN(t *testing.T) {
	b := newBed(t, resetting(testTopology()))
	conn := tuple(tcp, client, 40000, webVIP, 80)
	b.run(0, frame(conn))
	b.reload(resetting(moved()))
	b.p.begin(b.snap, b.now)
	flow, d, ok := b.p.Flows.Lookup(&conn)
	if !ok {
		t.Fatal("no flow")
	}
	f := frame(conn)
	var in packet.Info
	packet.Parse(f, &in)
	b.p.in = &in
	if b.p.along(&xdp.Frame{Buf: f, End: len(f)}, flow, d, reason.LoadBalancer) {
		t.Error("a SYN goes on, or is reset, in a flow that has lost its endpoint")
	}
	b.p.end()
	_, back := b.run(0, frame(conn))
	if got := one(t, back).Tuple.Dst.String(); got != back2 {
		t.Errorf("goes to %s, want %s", got, back2)
	}
}

// TestForgedSegmentResetsNothing: one that is out of the window would make RSTs that neither end believes, and the flow would be
// over before the ends have heard of it.
func TestForgedSegmentResetsNothing(t *testing.T) {
	for name, change := range map[string]func(*packet.Spec){
		"sequence number": numbers(1<<30, 9000), "acknowledgement": numbers(5000, 1<<30), "old": numbers(3<<30, 9000),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, resetting(testTopology()))
			conn := tuple(tcp, client, 40000, webVIP, 80)
			reply := handshakeFrom(b, conn, 5000, 9000)
			b.reload(resetting(moved()))
			front, back := b.run(0, frame(conn, flags(packet.TCPAck), change))
			if len(front)+len(back) != 0 || b.counters.Packets(reason.OutOfWindow) != 1 {
				t.Errorf("%d answers, %d sent on", len(front), len(back))
			}
			b.now += int64(b.snap.Topology.Conntrack.Timeouts.TCPClose) + 1e9
			front, back = b.run(1, frame(reply, flags(packet.TCPAck), numbers(9000, 5000)))
			want := segment{conn.Reverse(), packet.TCPRst | packet.TCPAck, 9000, 5000}
			if got := segmentOf(t, front); got != want {
				t.Errorf("client gets %+v, want %+v", got, want)
			}
			if got, want := segmentOf(t, back), (segment{reply.Reverse(), packet.TCPRst, 5000, 0}); got != want {
				t.Errorf("server gets %+v, want %+v", got, want)
			}
		})
	}
}

// TestDrainOrReset covers who is reset and who goes on.
func TestDrainOrReset(t *testing.T) {
	for _, tc := range []struct {
		name   string
		before func(*topology.Topology) // nil: drains
		change func(*topology.Topology)
		reset  bool
	}{
		{"removed, drain", nil, func(t *topology.Topology) { t.Services[2].Endpoints = nil }, false},
		{"removed", reset2, func(t *topology.Topology) { t.Services[2].Endpoints = nil; reset2(t) }, true},
		{"removed, set by the same reload", nil, func(t *topology.Topology) { t.Services[2].Endpoints = nil; reset2(t) }, true},
		{"removed, taken back by the same reload", reset2, func(t *topology.Topology) { t.Services[2].Endpoints = nil }, false},
		{"service deleted", reset2, func(t *topology.Topology) { t.Services = t.Services[:2] }, true},
		{"service deleted, drain", nil, func(t *topology.Topology) { t.Services = t.Services[:2] }, false},
		{"address taken away", reset2, func(t *topology.Topology) { t.Services[2].LoadBalancerIPs = nil; reset2(t) }, true},
		{"unready", reset2, func(t *topology.Topology) {
			reset2(t)
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Serving = false, false
		}, false},
		{"terminating", reset2, func(t *topology.Topology) {
			reset2(t)
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Terminating = false, true
		}, false},
		{"drained by weight", reset2, func(t *topology.Topology) { reset2(t); t.Services[2].Endpoints[0].Weight = 0 }, false},
		{"another service resets", func(t *topology.Topology) { t.Services[1].RemovedReset = true }, func(t *topology.Topology) {
			t.Services[1].RemovedReset, t.Services[2].Endpoints = true, nil
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			first, next := testTopology(), testTopology()
			if tc.before != nil {
				tc.before(first)
			}
			tc.change(next)
			b := newBed(t, first)
			conn := tuple(tcp, client, 40000, webVIP, 80)
			handshake(b, conn)
			b.reload(next)
			_, back := b.run(0, frame(conn, flags(packet.TCPAck)))
			in := one(t, back)
			if in.Tuple.Dst.String() != back1 || in.TCPFlags&packet.TCPRst != 0 != tc.reset {
				t.Errorf("goes to %v with flags %#x, want reset %v", in.Tuple.Dst, in.TCPFlags, tc.reset)
			}
		})
	}
}

func reset2(t *topology.Topology) { t.Services[2].RemovedReset = true }

// TestResetWithoutAWayOn answers the sender, when nothing can be sent to the other end.
func TestResetWithoutAWayOn(t *testing.T) {
	for name, change := range map[string]func(*bed) func(*packet.Spec){
		"ttl": func(*bed) func(*packet.Spec) { return ttl(1) },
		"route": func(b *bed) func(*packet.Spec) {
			b.hops = hops(2, func(h *fib.NextHop) { *h = fib.NextHop{State: fib.NoRoute, Iface: -1} })
			return ttl(64)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, resetting(testTopology()))
			conn := tuple(tcp, client, 40000, webVIP, 80)
			handshakeFrom(b, conn, 5000, 9000)
			b.reload(resetting(moved()))
			front, back := b.run(0, frame(conn, flags(packet.TCPAck), numbers(5000, 9000), change(b)))
			want := segment{conn.Reverse(), packet.TCPRst, 9000, 0}
			if got := segmentOf(t, front); got != want || len(back) != 0 {
				t.Errorf("client gets %+v, want %+v; server %d", got, want, len(back))
			}
		})
	}
}

// TestDamagedSegmentResetsNothing, neither of the two ends.
func TestDamagedSegmentResetsNothing(t *testing.T) {
	b := newBed(t, resetting(testTopology()))
	conn := tuple(tcp, client, 40000, webVIP, 80)
	handshake(b, conn)
	b.reload(resetting(moved()))
	front, back := b.run(0, damage(frame(conn, flags(packet.TCPAck), payload(10))))
	if len(front)+len(back) != 0 || b.counters.Packets(reason.Malformed) != 1 {
		t.Errorf("%d sent", len(front)+len(back))
	}
}

// damage changes a bit of the last byte.
func damage(f []byte) []byte {
	f[len(f)-1] ^= 1
	return f
}

// TestRejectWithReset covers how TCP is refused under gateway.reject_with = "tcp-reset".
func TestRejectWithReset(t *testing.T) {
	idle, unknown := tuple(tcp, client, 40000, idleIP, 80), tuple(tcp, client, 40000, webIP, 443)
	for _, tc := range []struct {
		name  string
		frame []byte
		why   reason.Reason
		want  *segment // nil: no answer
	}{
		{"no endpoints", frame(idle), reason.NoEndpoints, &segment{idle.Reverse(), packet.TCPRst | packet.TCPAck, 0, 2}},
		{"unknown port", frame(unknown), reason.UnknownPort, &segment{unknown.Reverse(), packet.TCPRst | packet.TCPAck, 0, 2}},
		{"in the middle", frame(idle, flags(packet.TCPAck), numbers(1, 7)), reason.NoEndpoints,
			&segment{idle.Reverse(), packet.TCPRst, 7, 0}},
		{"ipv6", frame(tuple(tcp, client6, 40000, webIP6, 443)), reason.UnknownPort,
			&segment{tuple(tcp, webIP6, 443, client6, 40000), packet.TCPRst | packet.TCPAck, 0, 2}},
		{"a RST", frame(idle, flags(packet.TCPRst)), reason.NoEndpoints, nil},
		{"damaged", damage(frame(idle, payload(4))), reason.NoEndpoints, nil},
		{"left to the card to complete", partial(frame(idle)), reason.NoEndpoints,
			&segment{idle.Reverse(), packet.TCPRst | packet.TCPAck, 0, 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			topo := testTopology()
			topo.Gateway.RejectWith = "tcp-reset"
			b := newBed(t, topo)
			front, back := b.run(0, tc.frame)
			if len(back) != 0 || b.counters.Packets(tc.why) != 1 {
				t.Errorf("%d sent on, %d counted", len(back), b.counters.Packets(tc.why))
			}
			if tc.want == nil {
				if len(front) != 0 {
					t.Error("answered")
				}
				return
			}
			if got := segmentOf(t, front); got != *tc.want {
				t.Errorf("got %+v, want %+v", got, *tc.want)
			}
		})
	}
}

// partial leaves the checksum as a sender does whose network card is to complete it.
func partial(f []byte) []byte {
	var in packet.Info
	packet.Parse(f, &in)
	seg := f[in.L4:in.End]
	seg[16], seg[17] = 0, 0
	whole := packet.Sum(seg, 0)
	packet.Complete(f, &in)
	// The folded sum of the pseudo-header is that of the whole less that of the segment.
	pseudo := packet.Sum([]byte{^seg[16], ^seg[17], byte(^whole >> 8), byte(^whole)}, 0)
	binary.BigEndian.PutUint16(seg[16:], pseudo)
	if !packet.IsPartial(f, &in) || packet.VerifyL4(f, &in) {
		panic("not a partial checksum")
	}
	return f
}

// TestRejectOfOthersStaysICMP, and that of TCP where nothing is said.
func TestRejectOfOthersStaysICMP(t *testing.T) {
	for with, frame := range map[string][]byte{
		"tcp-reset": frame(tuple(udp, client, 40000, webVIP, 99)),
		"icmp":      frame(tuple(tcp, client, 40000, idleIP, 80)),
		"":          frame(tuple(tcp, client, 40000, idleIP, 80)),
	} {
		topo := testTopology()
		topo.Gateway.RejectWith = with
		b := newBed(t, topo)
		front, _ := b.run(0, frame)
		if in := one(t, front); in.ICMPType != packet.ICMPUnreachable || in.ICMPCode != 3 {
			t.Errorf("%q: type %d code %d", with, in.ICMPType, in.ICMPCode)
		}
	}
}

// TestRejectsShareOneLimit: RSTs and ICMP errors together are limited.
func TestRejectsShareOneLimit(t *testing.T) {
	topo := testTopology()
	topo.Gateway.RejectWith = "tcp-reset"
	b := newBed(t, topo)
	answers := 0
	for range repliesPerSecond / 10 {
		for _, f := range [][]byte{frame(tuple(tcp, client, 40000, idleIP, 80)), frame(tuple(udp, client, 40000, webVIP, 99))} {
			front, _ := b.run(0, f)
			answers += len(front)
		}
	}
	if answers != repliesPerSecond/10 || b.counters.Packets(reason.RateLimited) != repliesPerSecond/10 {
		t.Errorf("%d answers, %d limited", answers, b.counters.Packets(reason.RateLimited))
	}
}

// TestRejectWithResetIsTraced names the answer.
func TestRejectWithResetIsTraced(t *testing.T) {
	for with, want := range map[string]string{"tcp-reset": "tcp-reset", "icmp": "icmp", "": "icmp"} {
		topo := testTopology()
		topo.Gateway.RejectWith = with
		conn := tuple(tcp, client, 40000, idleIP, 80)
		r, err := Trace(topo, TraceSpec{From: FromExternal, Proto: "tcp", Src: hostPort(conn.Src, conn.SrcPort),
			Dst: hostPort(conn.Dst, conn.DstPort)})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != nat.Reject.String() || r.Reject != want {
			t.Errorf("%q: %s with %q, want %q", with, r.Verdict, r.Reject, want)
		}
	}
}

// TestFlowRemembersReset: what a deleted service asked for is kept with its flows.
func TestFlowRemembersReset(t *testing.T) {
	b := newBed(t, resetting(testTopology()))
	conn := tuple(tcp, client, 40000, webVIP, 80)
	b.run(0, frame(conn))
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	if f, _, ok := b.p.Flows.Lookup(&conn); !ok || f.Meta().Flags != metaReset || f.State() != conntrack.SynSent {
		t.Errorf("found %v", ok)
	}
}

func hostPort(a packet.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(a.Netip(), port) }

// TestResetDoesNotAllocate, neither of a connection nor of what is refused.
func TestResetDoesNotAllocate(t *testing.T) {
	topo, next := resetting(testTopology()), resetting(moved())
	topo.Gateway.RejectWith, next.Gateway.RejectWith = "tcp-reset", "tcp-reset"
	conn := tuple(tcp, client, 40000, webVIP, 80)
	for name, f := range map[string][]byte{
		"reset": frame(conn, flags(packet.TCPAck)), "reject": frame(tuple(tcp, client, 40000, idleIP, 80)),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, topo)
			handshake(b, conn)
			b.reload(next)
			b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 64, Discard: true, Interfaces: []xdp.Interface{{Name: "a"}, {Name: "b"}}})
			b.p.Port = b.port
			frames := make([]xdp.Frame, 1)
			one := func() {
				b.now += 1e7
				if err := b.port.Deliver(0, f); err != nil {
					t.Fatal(err)
				}
				b.p.Process(b.snap, b.now, frames[:b.port.Receive(frames)])
				if err := b.port.Flush(); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(300, one); n != 0 {
				t.Errorf("%v allocations a packet", n)
			}
			if b.counters.Packets(reason.EndpointRemoved)+b.counters.Packets(reason.NoEndpoints) < 300 {
				t.Error("not what was to be measured")
			}
		})
	}
}
