package engine

import (
	"net/netip"
	"testing"

	"sluice/conntrack"
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// TestMartianSources: no flow, and no answer, for what claims to come from an address that no reply can go to.
func TestMartianSources(t *testing.T) {
	for _, src := range []string{"127.0.0.1", "0.0.0.0", "0.1.2.3", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255",
		"::", "::1", "ff02::1", "fe80::1", "192.0.2.255", gateway, gateway6} {
		vip, ping, kind := webVIP, uint8(packet.ProtoICMP), uint8(packet.ICMPEcho)
		if netip.MustParseAddr(src).Is6() {
			vip, ping, kind = webIP6, packet.ProtoICMPv6, packet.ICMPv6Echo
		}
		echo := func(s *packet.Spec) { s.ICMPType = kind }
		for name, f := range map[string][]byte{
			"tcp":     frame(tuple(tcp, src, 40000, vip, 80)),
			"udp":     frame(tuple(udp, src, 40000, vip, 53)),
			"unknown": frame(tuple(udp, src, 40000, vip, 99)),
			"ttl":     frame(tuple(udp, src, 40000, vip, 53), ttl(1)),
			"echo":    frame(tuple(ping, src, 7, vip, 7), echo),
		} {
			t.Run(src+" "+name, func(t *testing.T) {
				b := newBed(t, testTopology())
				b.hops = fib.Static(2, append(routes(nil), fib.Route{Prefix: netip.MustParsePrefix("192.0.2.255/32"),
					Hop: fib.NextHop{State: fib.Local}})...)
				front, back := b.run(0, f)
				if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(reason.Martian) != 1 {
					t.Errorf("%d sent, %d punted, %d martian", len(front)+len(back), len(b.punted), b.counters.Packets(reason.Martian))
				}
				if live := b.flows.Stats().Live; live != 0 {
					t.Errorf("%d flows", live)
				}
			})
		}
	}
}

// TestMartianICMPError: an error about a packet of a flow is passed on only from an address that has a host.
func TestMartianICMPError(t *testing.T) {
	for _, src := range []string{"127.0.0.1", "224.0.0.1", gateway} {
		b := newBed(t, testTopology())
		_, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
		forged := quoteError(packet.AddrFrom(netip.MustParseAddr(src)), back[0], 28, packet.TooBig, 1400)
		front, back := b.run(1, forged)
		if len(front)+len(back) != 0 || b.counters.Packets(reason.Martian) != 1 {
			t.Errorf("%s: %d sent, %d martian", src, len(front)+len(back), b.counters.Packets(reason.Martian))
		}
	}
}

// TestServiceAsSource: a packet from one service port to another would have the two backends talk to each other without
// end, with the gateway between them.
func TestServiceAsSource(t *testing.T) {
	for _, tu := range []packet.Tuple{
		tuple(udp, webVIP, 53, webVIP, 53), tuple(tcp, webVIP, 80, webVIP, 80),
		tuple(udp, localVIP, 53, webIP, 53), tuple(udp, webIP, 53, localVIP, 53), tuple(udp, webIP6, 53, webIP6, 53),
	} {
		b := newBed(t, testTopology())
		front, back := b.run(0, frame(tu))
		if len(front)+len(back) != 0 || b.counters.Packets(reason.Martian) != 1 {
			t.Errorf("%v: %d sent, %d martian", tu, len(front)+len(back), b.counters.Packets(reason.Martian))
		}
	}
}

// TestForOtherStations: a frame that a switch has flooded, or that was sent to all, is the kernel's to drop or to bridge.
func TestForOtherStations(t *testing.T) {
	known := tuple(udp, client, 40000, webVIP, 53)
	for _, mac := range [][6]byte{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, {1, 0, 0x5e, 0, 0, 1}, {2, 0, 0, 0, 9, 9}} {
		to := func(s *packet.Spec) { s.DstMAC = mac }
		for name, f := range map[string][]byte{
			"known flow": frame(known, to),
			"new flow":   frame(tuple(tcp, client, 40001, webVIP, 80), to),
			"reject":     frame(tuple(tcp, client, 40001, webVIP, 99), to),
			"echo":       frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), to, func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho }),
		} {
			b := newBed(t, testTopology())
			b.run(0, frame(known))
			front, back := b.run(0, append([]byte(nil), f...))
			if len(front)+len(back) != 0 || len(b.punted) != 1 || string(b.punted[0]) != string(f) {
				t.Errorf("%s to %x: %d sent, %d punted", name, mac, len(front)+len(back), len(b.punted))
			}
		}
	}
}

// TestVLANDeviceWithItsOwnAddress: what is sent to the address that the gateway itself sends from is for the gateway.
func TestVLANDeviceWithItsOwnAddress(t *testing.T) {
	own := [6]byte{2, 0, 0, 0, 7, 7}
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.SrcMAC, h.VLAN = own, 7 })
	_, back := b.run(1, frame(tuple(tcp, podClient, 40000, webIP, 80), func(s *packet.Spec) { s.DstMAC, s.VLAN = own, 7 }))
	one(t, back)
}

// TestTrailer: what follows the IP packet in its frame does not go on to a link for which it may be too long.
func TestTrailer(t *testing.T) {
	known := tuple(udp, client, 40000, webVIP, 53)
	b := newBed(t, testTopology())
	long := append(frame(known), make([]byte, 1700)...)
	_, back := b.run(0, long)
	translated := one(t, back)
	if len(back[0]) > 60 {
		t.Errorf("%d bytes leave", len(back[0]))
	}
	short := append(frame(known), make([]byte, 60-len(frame(known)))...)
	_, back = b.run(0, short)
	if one(t, back); len(back[0]) != 60 {
		t.Errorf("a minimal frame leaves with %d bytes", len(back[0]))
	}
	quote := quoteError(translated.Tuple.Dst, back[0], 1500, packet.PortUnreachable, 0)
	front, _ := b.run(1, append(quote, make([]byte, 1600)...))
	if in := one(t, front); len(front[0]) != max(60, in.End) {
		t.Errorf("an error leaves with %d bytes", len(front[0]))
	}
}

// TestRouteChangesWhileWaiting: a frame that waits goes by the route of the moment when it leaves, and only if it may.
func TestRouteChangesWhileWaiting(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*fib.NextHop)
		why    reason.Reason
	}{
		{"smaller mtu", func(h *fib.NextHop) { h.MTU = 500 }, reason.TooBig},
		{"no route", func(h *fib.NextHop) { h.State = fib.NoRoute }, reason.NoRoute},
		{"local", func(h *fib.NextHop) { h.State = fib.Local }, reason.LocalBackend},
		{"not attached", func(h *fib.NextHop) { h.State = fib.NotAttached }, reason.NotAttached},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			b.hops = hops(2, func(h *fib.NextHop) { h.State = fib.Incomplete })
			b.run(0, frame(tuple(udp, client, 40000, webVIP, 53), payload(1000)))
			b.hops = hops(3, tc.change)
			_, back := b.run(0)
			if len(back) != 0 || b.counters.Packets(tc.why) != 1 || b.p.Pending() != 0 {
				t.Errorf("%d sent, %d %v, %d wait", len(back), b.counters.Packets(tc.why), tc.why, b.p.Pending())
			}
		})
	}
}

// TestDamagedIPHeader: its addresses may be anybody's, so that it opens no flow and gets no answer.
func TestDamagedIPHeader(t *testing.T) {
	conn := tuple(udp, client, 40000, webVIP, 53)
	b := newBed(t, testTopology())
	_, back := b.run(0, frame(conn))
	damaged := [][]byte{
		frame(tuple(tcp, client, 40001, webVIP, 80)), frame(tuple(udp, client, 40001, webVIP, 99)),
		frame(tuple(udp, client, 40000, webVIP, 53), ttl(1)),
		frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho }),
		quoteError(packet.AddrFrom(netip.MustParseAddr(routerAddr)), back[0], 28, packet.TooBig, 1400),
	}
	for i, f := range damaged {
		f[14+15]++ // the source
		front, back := b.run(0, f)
		if len(front)+len(back)+len(b.punted) != 0 || b.flows.Stats().Live != 1 {
			t.Errorf("%d: %d sent, %d punted, %d flows", i, len(front)+len(back), len(b.punted), b.flows.Stats().Live)
		}
	}
	if got := b.counters.Packets(reason.Malformed); got != uint64(len(damaged)) {
		t.Errorf("%d counted as malformed, want %d", got, len(damaged))
	}
}

// TestDroppedPacketsMoveNoState: a RST or FIN that the other end never sees does not end the connection.
func TestDroppedPacketsMoveNoState(t *testing.T) {
	for _, last := range []uint8{packet.TCPRst, packet.TCPFin | packet.TCPAck} {
		for _, way := range []string{"forward", "reply"} {
			b := newBed(t, testTopology())
			conn := tuple(tcp, client, 40000, webVIP, 80)
			_, back := b.run(0, frame(conn))
			reply := one(t, back).Tuple.Reverse()
			b.run(1, frame(reply, flags(packet.TCPSyn|packet.TCPAck)))
			b.run(0, frame(conn, flags(packet.TCPAck)))
			forged := conn
			if way == "reply" {
				forged = reply
			}
			b.run(0, frame(forged, flags(last), ttl(1)))
			b.p.Flows.Enter(b.now)
			flow, _, ok := b.p.Flows.Lookup(&conn)
			if !ok || flow.State() != conntrack.Established {
				t.Errorf("%s, flags %#x: in state %v", way, last, flow.State())
			}
			b.p.Flows.Leave()
		}
	}
}
