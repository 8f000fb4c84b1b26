package engine

import (
	"testing"

	"sluice/engine/fib"
	"sluice/nat/reason"
)

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
