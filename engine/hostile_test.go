package engine

import (
	"testing"

	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

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
