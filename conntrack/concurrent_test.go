package conntrack_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestBothEndsAtOnce lets two goroutines see the first packets of one flow at the same instant, as two receive queues
// do: the same packet twice, both ends' packets, or one packet for which they chose different source ports. Both must
// end up with one and the same flow, inserted once, and no packet may be refused.
func TestBothEndsAtOnce(t *testing.T) {
	rounds := 100_000
	if testing.Short() {
		rounds = 10_000
	}
	tab := conntrack.NewOnHeap(options(1000), 2, 256)
	var results [2][]outcome
	var round atomic.Int32
	var wg sync.WaitGroup
	for side := range results {
		results[side] = make([]outcome, rounds)
		h := tab.Register()
		wg.Go(func() {
			for n := range rounds {
				meet(&round, 2)
				results[side][n] = arrive(h, side, n)
				meet(&round, 2)
			}
		})
	}
	wg.Wait()
	for n := range rounds {
		a, b := results[0][n], results[1][n]
		wantDir := fwd
		if n%3 == 1 {
			wantDir = rep
		}
		if a.id == 0 || a.id != b.id || a.inserted == b.inserted || (a.dir != b.dir) != (wantDir == rep) {
			t.Fatalf("round %d: %+v and %+v", n, a, b)
		}
	}
	if s := tab.Stats(); s.Inserted != uint64(rounds) || s.Removed != uint64(rounds-1) || s.Clashes != 0 {
		t.Errorf("Stats = %+v, want %d inserted, all but the last removed, no clash", s, rounds)
	}
	check(t, tab)
}

// outcome is what a goroutine got in a round.
type outcome struct {
	id       uint32
	dir      conntrack.Direction
	inserted bool
}

// arrive is what the pipeline does for a packet. The flow of the round before is removed by both, so that removals race, too.
func arrive(h *conntrack.Handle, side, n int) outcome {
	h.Enter(second)
	defer h.Leave()
	parity := n & 1
	a, b := pair(packet.ProtoUDP, 1+parity)
	old, _ := pair(packet.ProtoUDP, 2-parity)
	if f, _, ok := h.Lookup(&old); ok {
		h.Remove(f)
	}
	switch n % 3 {
	case 1:
		if side == 1 {
			a, b = b, a
		}
	case 2:
		b.DstPort += uint16(1000 * side)
	}
	f, d, ok := h.Lookup(&a)
	if ok {
		h.Packet(f, d, 0, 1)
		return outcome{id: f.Meta().Backend, dir: d}
	}
	f, d, r := h.Insert(&a, &b, conntrack.Meta{Backend: uint32(2*n + side + 1)})
	if f == nil {
		return outcome{}
	}
	h.Packet(f, d, 0, 1)
	return outcome{id: f.Meta().Backend, dir: d, inserted: r == conntrack.Inserted}
}

// TestPairsExistTogether has writers insert and remove flows with tuples in common while readers look up both tuples of
// whatever they find: when one direction is found, the other is too, as the same flow, unless the flow is dead by then.
func TestPairsExistTogether(t *testing.T) {
	for _, buckets := range []int{1, 8, 1024} {
		tab := conntrack.NewOnHeap(options(100_000), buckets, 1)
		var stop atomic.Bool
		var readers, writers sync.WaitGroup
		var seen atomic.Int64
		for i := range 2 {
			h := tab.Register()
			writers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 9))
				for churn(h, r, hammerRounds()); seen.Load() < 1000; { // on a busy machine the readers may not have run yet
					churn(h, r, 1000)
				}
			})
		}
		for i := range 2 {
			h := tab.Register()
			readers.Go(func() {
				r := rand.New(rand.NewPCG(uint64(i), 10))
				for !stop.Load() {
					seen.Add(int64(readPairs(t, h, r)))
				}
			})
		}
		writers.Wait()
		stop.Store(true)
		readers.Wait()
		check(t, tab)
		t.Logf("%d buckets: %d pairs seen, %+v", buckets, seen.Load(), tab.Stats())
	}
}

func hammerRounds() int {
	if testing.Short() {
		return 20_000
	}
	return 200_000
}

// contested returns one of 12 tuples.
func contested(r *rand.Rand) packet.Tuple { return linearTuple(r.IntN(12)) }

// churn inserts and removes flows between contested tuples, in batches.
func churn(h *conntrack.Handle, r *rand.Rand, rounds int) {
	h.Enter(second)
	for n := range rounds {
		a, b := contested(r), contested(r)
		f, d, _ := h.Insert(&a, &b, conntrack.Meta{})
		if f != nil {
			h.Packet(f, d, 0, 1)
			if r.IntN(2) == 0 {
				h.Remove(f)
			}
		}
		if n%16 == 0 {
			h.Leave()
			h.Enter(second)
		}
	}
	h.Leave()
}

// readPairs looks up pairs for a batch and returns how many it saw whole.
func readPairs(t *testing.T, h *conntrack.Handle, r *rand.Rand) int {
	h.Enter(second)
	defer h.Leave()
	n := 0
	for range 16 {
		key := contested(r)
		f, d, ok := h.Lookup(&key)
		if !ok {
			continue
		}
		if f.Tuple(d) != key {
			t.Errorf("lookup of %v found %v", key, f.Tuple(d))
		}
		other := f.Tuple(d.Other())
		g, e, ok := h.Lookup(&other)
		switch {
		case ok && g == f && e == d.Other():
			n++
		case f.Live():
			t.Errorf("%v found as %v, yet its other tuple %v is not (found %v)", key, d, other, ok)
		}
	}
	return n
}

// TestHammer mixes everything at once on few chains: contested inserts, removals, expiry, sweeps, walks, a table that is full most
// of the time. The invariants must hold afterwards, and under the race detector all must be silent.
func TestHammer(t *testing.T) {
	tab := conntrack.NewOnHeap(options(20), 2, 0)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { hammer(tab, i, hammerRounds()/8) })
	}
	wg.Wait()
	check(t, tab)
	s := tab.Stats()
	t.Logf("%+v", s)
	if s.Inserted-s.Expired-s.Removed != uint64(s.Live) {
		t.Errorf("inserted %d, expired %d, removed %d, live %d: do not add up", s.Inserted, s.Expired, s.Removed, s.Live)
	}
	if s.Full == 0 || s.Expired == 0 || s.Clashes == 0 || s.Exists == 0 || s.Removed == 0 {
		t.Errorf("the run was too thin: %+v", s)
	}
}

// hammer works through a handle that it gives back and takes anew from time to time.
func hammer(tab *conntrack.Table, id, rounds int) {
	r := rand.New(rand.NewPCG(uint64(id), 11))
	h := tab.Register()
	now := second
	for n := range rounds {
		now += r.Int64N(2 * second)
		switch r.IntN(20) {
		case 0:
			tab.Sweep(h, now, r.IntN(500))
		case 1:
			tab.Walk(h, now, func(f *conntrack.Flow) bool { return f.Tuple(fwd).Proto == packet.ProtoUDP })
		case 2:
			h.Close()
			h = tab.Register()
		}
		h.Enter(now)
		for range 8 {
			a, b := linearTuple(r.IntN(60)), linearTuple(r.IntN(60))
			f, d, _ := h.Insert(&a, &b, conntrack.Meta{Backend: uint32(n)})
			if f == nil {
				continue
			}
			h.Packet(f, d, 0, 64)
			if r.IntN(4) == 0 {
				h.Remove(f)
			}
		}
		h.Leave()
	}
	h.Close()
}

// TestExactCounters: packets counted by two workers for one direction at once are all counted.
func TestExactCounters(t *testing.T) {
	tab := conntrack.NewOnHeap(options(10), 2, 1)
	a, b := pair(packet.ProtoTCP, 1)
	const each = 50_000
	var wg sync.WaitGroup
	for range 2 {
		h := tab.Register()
		wg.Go(func() {
			for range each {
				h.Enter(second)
				f, d, _ := h.Insert(&a, &b, conntrack.Meta{})
				h.Packet(f, d, ack, 10)
				h.Leave()
			}
		})
	}
	wg.Wait()
	h := tab.Register()
	h.Enter(second)
	f, _, _ := h.Lookup(&a)
	if p, n := f.Counters(fwd); p != 2*each || n != 20*each {
		t.Errorf("%d packets, %d bytes, want %d, %d", p, n, 2*each, 20*each)
	}
}
