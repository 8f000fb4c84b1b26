package conntrack_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestNoReuseWhileInside: a flow that a handle may still look at keeps its memory and its tuples, however much other
// handles insert and remove; once the handle has left, the memory is used again.
func TestNoReuseWhileInside(t *testing.T) {
	tab := open(t, 1000)
	reader, writer := tab.Register(), tab.Register()
	reader.Enter(second)
	held := mustInsert(t, reader, packet.ProtoUDP, 1)
	want, _ := pair(packet.ProtoUDP, 1)
	writer.Enter(second)
	writer.Remove(held)
	writer.Leave()
	for n := range 200 {
		writer.Enter(second)
		f := mustInsert(t, writer, packet.ProtoUDP, 1000+n)
		if f == held {
			t.Fatal("memory was reused under a handle that is inside")
		}
		writer.Remove(f)
		writer.Leave()
	}
	if held.Live() || held.Tuple(fwd) != want {
		t.Errorf("held flow: live %v, tuple %v, want dead, %v", held.Live(), held.Tuple(fwd), want)
	}
	reader.Leave()
	for range 2 {
		writer.Enter(second)
		writer.Leave()
	}
	writer.Enter(second)
	found := false
	for n := range 1000 {
		found = mustInsert(t, writer, packet.ProtoUDP, 2000+n) == held || found
	}
	writer.Leave()
	if !found {
		t.Error("memory was not reused after the last handle had left")
	}
	check(t, tab)
}

// TestReuseNeedsEveryHandleOnce: handles that come and go all the time, never all outside at once, do not hold memory up.
func TestReuseNeedsEveryHandleOnce(t *testing.T) {
	tab := open(t, 100)
	a, b, writer := tab.Register(), tab.Register(), tab.Register()
	a.Enter(second)
	for n := range 50_000 { // many times the memory of the table
		b.Enter(second)
		a.Leave()
		writer.Enter(second)
		writer.Remove(mustInsert(t, writer, packet.ProtoUDP, n))
		writer.Leave()
		a.Enter(second)
		b.Leave()
	}
	if peak := tab.Stats().Peak; peak > 500 {
		t.Errorf("%d flows' memory used for one flow at a time", peak)
	}
}

// TestHeldFlowsKeepTheirTuples is the same with readers and writers that run at once: within a batch a flow's plain words never
// change. Under the race detector this also proves that reuse is ordered after the last read.
func TestHeldFlowsKeepTheirTuples(t *testing.T) {
	tab := conntrack.NewOnHeap(options(100_000), 4, 1)
	var stop atomic.Bool
	var readers, writers sync.WaitGroup
	for i := range 2 {
		h := tab.Register()
		writers.Go(func() { churn(h, rand.New(rand.NewPCG(uint64(i), 12)), hammerRounds()) })
		r := tab.Register()
		readers.Go(func() {
			for !stop.Load() {
				hold(t, r)
			}
		})
	}
	writers.Wait()
	stop.Store(true)
	readers.Wait()
	check(t, tab)
}

// hold looks up every contested tuple, then reads what it found a few times more.
func hold(t *testing.T, h *conntrack.Handle) {
	h.Enter(second)
	defer h.Leave()
	var flows [12]*conntrack.Flow
	for n := range flows {
		key := linearTuple(n)
		flows[n], _, _ = h.Lookup(&key)
	}
	for range 10 {
		for n, f := range flows {
			if key := linearTuple(n); f != nil && f.Tuple(fwd) != key && f.Tuple(rep) != key {
				t.Errorf("flow found as %v became %v, %v", key, f.Tuple(fwd), f.Tuple(rep))
			}
		}
	}
}

// TestHandlesArePooled: short-lived users, such as admin requests, do not add up.
func TestHandlesArePooled(t *testing.T) {
	tab := open(t, 100)
	first := tab.Register()
	first.Close()
	for range 1000 {
		h := tab.Register()
		if h != first {
			t.Fatal("a closed handle was not given out again")
		}
		h.Enter(second)
		h.Remove(mustInsert(t, h, packet.ProtoUDP, 1))
		h.Leave()
		h.Close()
	}
	if peak := tab.Stats().Peak; peak > 100 {
		t.Errorf("%d flows' memory used for one flow at a time", peak)
	}
	check(t, tab)
}

// TestOvertakenPop: a pop that has read the top of the stack of unused flows and what comes below it is stopped, and
// another worker takes both and puts the top one back. The first must notice, though the top looks as before, or the
// second flow would be handed out twice.
func TestOvertakenPop(t *testing.T) {
	tab := conntrack.NewOnHeap(options(10), 1, 1)
	for n := range uint32(3) {
		tab.GiveSpare(n + 1)
	}
	var taken []uint32
	tab.OnStep(func() {
		tab.OnStep(nil)
		top := tab.TakeSpare()
		taken = append(taken, tab.TakeSpare())
		tab.GiveSpare(top)
	})
	for n := tab.TakeSpare(); n != 0; n = tab.TakeSpare() {
		taken = append(taken, n)
	}
	if want := []uint32{2, 3, 1}; !slices.Equal(taken, want) {
		t.Errorf("flows taken: %v, want %v", taken, want)
	}
}
