package engine

import (
	"testing"

	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

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
