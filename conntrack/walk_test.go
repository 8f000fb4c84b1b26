package conntrack_test

import (
	"testing"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestWalkStep visits every live flow once, a part at a time, and may remove on the way.
func TestWalkStep(t *testing.T) {
	const flows = 1000
	tab := open(t, flows)
	h := tab.Register()
	h.Enter(0)
	for n := range flows {
		mustInsert(t, h, packet.ProtoUDP, n) // 30 s
	}
	h.Leave()
	walk := func(now int64, fn func(*conntrack.Flow)) (steps uint32) {
		for more := true; more; steps++ {
			before := 0
			more = tab.WalkStep(h, now, steps, func(f *conntrack.Flow) {
				before++
				fn(f)
			})
			if before > flows/2 {
				t.Errorf("step %d visits %d flows: that is no part", steps, before)
			}
		}
		return steps
	}
	seen := map[packet.Tuple]int{}
	steps := walk(second, func(f *conntrack.Flow) {
		if seen[f.Tuple(fwd)]++; len(seen)%2 == 0 {
			h.Remove(f)
		}
	})
	if len(seen) != flows || steps < 4 {
		t.Fatalf("%d flows in %d steps", len(seen), steps)
	}
	for tu, n := range seen {
		if n != 1 {
			t.Errorf("%v visited %d times", tu, n)
		}
	}
	left := 0
	walk(second, func(*conntrack.Flow) { left++ })
	if left != flows/2 {
		t.Errorf("%d flows left, want %d", left, flows/2)
	}
	walk(31*second, func(f *conntrack.Flow) { t.Errorf("expired flow %v visited", f.Tuple(fwd)) })
	if tab.WalkStep(h, second, 1000, func(*conntrack.Flow) { t.Error("visited beyond the end") }) {
		t.Error("more beyond the end")
	}
	check(t, tab)
}
