package conntrack_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestSweep lets flows of three lifetimes expire without anybody looking them up.
func TestSweep(t *testing.T) {
	tab := open(t, 3000)
	h := tab.Register()
	h.Enter(0)
	for n := range 3000 {
		switch n % 3 {
		case 0:
			mustInsert(t, h, packet.ProtoTCP, n) // 60 s
		case 1:
			mustInsert(t, h, packet.ProtoUDP, n) // 30 s
		case 2:
			h.Packet(mustInsert(t, h, packet.ProtoUDP, n), rep, 0, 1) // 120 s
		}
	}
	h.Leave()
	for _, tt := range []struct{ at, live int64 }{{30, 3000}, {31, 2000}, {60, 2000}, {61, 1000}, {120, 1000}, {121, 0}} {
		sweepAll(tab, h, tt.at*second)
		if got := tab.Stats().Live; int64(got) != tt.live {
			t.Errorf("%d flows live at %d s, want %d", got, tt.at, tt.live)
		}
	}
	if s := tab.Stats(); s.Expired != 3000 || s.Removed != 0 {
		t.Errorf("Stats = %+v, want 3000 expired, none removed", s)
	}
	check(t, tab)
}

// sweepAll sweeps in small parts until the hand rests.
func sweepAll(tab *conntrack.Table, h *conntrack.Handle, now int64) int {
	n := 0
	for range tab.Stats().MaxFlows + 10 {
		n += tab.Sweep(h, now, 100)
	}
	return n
}

func check(t testing.TB, tab *conntrack.Table) {
	t.Helper()
	if err := tab.Check(); err != nil {
		t.Errorf("broken invariants:\n%v", err)
	}
}

// TestSweepBudget bounds the work of one call: a block beyond the budget at most.
func TestSweepBudget(t *testing.T) {
	tab := open(t, 10000)
	h := tab.Register()
	h.Enter(0)
	for n := range 10000 {
		mustInsert(t, h, packet.ProtoUDP, n)
	}
	h.Leave()
	for total := 0; total < 10000; {
		n := tab.Sweep(h, 31*second, 300)
		if n == 0 || n > 600 {
			t.Fatalf("a call with budget 300 removed %d flows after %d", n, total)
		}
		total += n
	}
}

// TestSweepFollowsShorterTimeout: a state change that brings a flow's end nearer must reach a sweep that has already
// put the flow off for two hours.
func TestSweepFollowsShorterTimeout(t *testing.T) {
	tab := open(t, 10)
	h := tab.Register()
	h.Enter(0)
	f := mustInsert(t, h, packet.ProtoTCP, 1)
	h.Packet(f, rep, syn|ack, 60)
	h.Packet(f, fwd, ack, 60)
	h.Leave()
	sweepAll(tab, h, 100*second)
	h.Enter(200 * second)
	h.Packet(f, rep, rst, 60)
	h.Leave()
	if n := sweepAll(tab, h, 210*second); n != 0 {
		t.Errorf("%d flows expired 10 s after RST", n)
	}
	if n := sweepAll(tab, h, 212*second); n != 1 {
		t.Errorf("%d flows expired 12 s after RST, want 1", n)
	}
}

// TestBusyFlowNeverExpires sends packets just inside the timeout for a day, with a sweep before each.
func TestBusyFlowNeverExpires(t *testing.T) {
	tab := open(t, 10)
	h := tab.Register()
	h.Enter(0)
	f := mustInsert(t, h, packet.ProtoUDP, 1)
	h.Leave()
	key, _ := pair(packet.ProtoUDP, 1)
	for now := 29 * second; now < 24*3600*second; now += 29 * second {
		sweepAll(tab, h, now)
		h.Enter(now)
		got, d, ok := h.Lookup(&key)
		if !ok || got != f {
			t.Fatalf("gone after %v", time.Duration(now))
		}
		h.Packet(got, d, 0, 1)
		h.Leave()
	}
}

// TestClockSkew: a handle whose batch began earlier must not set a flow's time back.
func TestClockSkew(t *testing.T) {
	tab := open(t, 10)
	early, late := tab.Register(), tab.Register()
	early.Enter(10 * second)
	late.Enter(35 * second)
	f := mustInsert(t, early, packet.ProtoUDP, 1)
	late.Packet(f, fwd, 0, 1)
	early.Packet(f, fwd, 0, 1)
	if f.Seen() != 35*second {
		t.Errorf("seen at %v, want 35s", time.Duration(f.Seen()))
	}
	key, _ := pair(packet.ProtoUDP, 1)
	if _, _, ok := early.Lookup(&key); !ok {
		t.Error("a flow whose time lies ahead is not found")
	}
}

// TestClockJumps moves the clock by random amounts from 1 ns to ten days: what is found is what is young enough.
func TestClockJumps(t *testing.T) {
	tab := open(t, 1000)
	h := tab.Register()
	r := rand.New(rand.NewPCG(3, 4))
	now := int64(0)
	born := map[int]int64{}
	for n := range 20000 {
		jump := []int64{1, 1000, second, 1_000_000_000 * 29, 864000 * second}[r.IntN(5)]
		now += r.Int64N(jump) + 1
		h.Enter(now)
		id := r.IntN(50)
		key, _ := pair(packet.ProtoUDP, id)
		at, known := born[id]
		want := known && now-at <= 30*second
		if _, _, ok := h.Lookup(&key); ok != want {
			t.Fatalf("step %d: found %v, want %v; age %v", n, ok, want, time.Duration(now-at))
		}
		if !want {
			mustInsert(t, h, packet.ProtoUDP, id)
			born[id] = now
		}
		h.Leave()
		if r.IntN(3) == 0 {
			tab.Sweep(h, now, 50)
		}
	}
	check(t, tab)
}

// TestWalk visits every live flow once and may remove on the way: how stale UDP flows are purged.
func TestWalk(t *testing.T) {
	tab := open(t, 2000)
	h := tab.Register()
	h.Enter(0)
	for n := range 1000 {
		mustInsert(t, h, packet.ProtoUDP, n)
		mustInsert(t, h, packet.ProtoTCP, n)
	}
	h.Leave()
	visits := map[uint32]int{}
	tab.Walk(h, 20*second, func(f *conntrack.Flow) bool {
		if f.Tuple(fwd).Proto == packet.ProtoUDP {
			visits[f.Meta().Backend]++
			h.Remove(f)
		}
		return true
	})
	if len(visits) != 1000 {
		t.Errorf("%d UDP flows visited, want 1000", len(visits))
	}
	for b, n := range visits {
		if n != 1 {
			t.Errorf("flow %d visited %d times", b, n)
		}
	}
	if s := tab.Stats(); s.Live != 1000 || s.Removed != 1000 {
		t.Errorf("Stats = %+v, want 1000 live, 1000 removed", s)
	}
	n := 0
	tab.Walk(h, 20*second, func(*conntrack.Flow) bool { n++; return n < 10 })
	if n != 10 {
		t.Errorf("a walk that is told to stop after 10 visited %d", n)
	}
	tab.Walk(h, 61*second, func(f *conntrack.Flow) bool { t.Errorf("expired flow %v visited", f.Tuple(fwd)); return true })
	check(t, tab)
}
