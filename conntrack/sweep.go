package conntrack

import (
	"math"
	"time"
)

// blockFlows is how many flows share one entry of Table.due.
//
// Table.due says for each block when its first flow may expire, or earlier, never later. Sweep looks into a block only
// when that time has come, so a million idle connections cost a few thousand loads a lap. Whoever shortens a flow's
// remaining time lowers the entry, after the change is visible. Sweep resets the entry before it looks at the flows: a change
// that comes too late to be seen lowers the entry after the reset.
const blockFlows = 256

// reclaimBudget bounds the search for expired flows by an insert that finds the table full.
const reclaimBudget = 4096

// expect notes that f may expire at time at.
func (t *Table) expect(f *Flow, at int64) { t.lower(f.number/blockFlows, at) }

// lower sets the entry of a block to at if that is earlier.
func (t *Table) lower(block uint32, at int64) {
	for {
		old := t.due[block].Load()
		if old <= at || t.due[block].CompareAndSwap(old, at) {
			return
		}
	}
}

// Sweep removes expired flows, a part of the table per call: it looks at about budget flows at most, then goes on from
// there at the next call. Once round, it rests for a second, or an eighth of the shortest timeout if that is less: calling
// it often is cheap. It returns how many flows it removed. Any number of goroutines may sweep at once, each with its handle,
// inside (now is then that of Enter) or outside.
func (t *Table) Sweep(h *Handle, now int64, budget int) int {
	if !h.inside() {
		h.Enter(now)
		defer h.Leave()
	}
	n := 0
	for budget > 0 {
		block, ok := t.nextBlock(h.now)
		if !ok {
			break
		}
		looked, gone := h.sweepBlock(block)
		budget -= 1 + looked
		n += gone
	}
	return n
}

// blocksInUse returns how many blocks have a flow that was ever used.
func (t *Table) blocksInUse() uint32 { return (t.fresh.Load() + blockFlows - 1) / blockFlows }

// nextBlock moves the hand, and returns false while it rests.
func (t *Table) nextBlock(now int64) (uint32, bool) {
	for {
		block := t.hand.Load()
		if block < t.blocksInUse() {
			if t.hand.CompareAndSwap(block, block+1) {
				return block, true
			}
			continue
		}
		until := t.rest.Load()
		if now < until {
			return 0, false
		}
		pause := min(int64(time.Second), t.timeout.shortest()/8)
		if t.rest.CompareAndSwap(until, now+pause) {
			t.hand.CompareAndSwap(block, 0)
		}
	}
}

// sweepBlock removes the expired flows of a block if it is due, and returns how many it looked at and removed.
func (h *Handle) sweepBlock(block uint32) (looked, gone int) {
	t := h.t
	if t.due[block].Load() >= h.now {
		return 0, 0
	}
	t.due[block].Store(math.MaxInt64)
	earliest := int64(math.MaxInt64)
	for n := max(1, block*blockFlows); n < min((block+1)*blockFlows, t.fresh.Load()); n++ {
		looked++
		f := &t.flows[n]
		st := status(f.status.Load())
		if st.life() != live {
			continue
		}
		if until := f.seen.Load() + t.timeout[st.state()]; until >= h.now {
			earliest = min(earliest, until)
		} else if h.expire(f) {
			gone++
		}
	}
	t.lower(block, earliest)
	return looked, gone
}

// reclaim is the sweep of an insert that finds the table full: bounded, and it does not rest. It goes on where
// this handle's last one ended.
func (h *Handle) reclaim() int {
	blocks := h.t.blocksInUse()
	gone, budget := 0, reclaimBudget
	for range blocks {
		if budget <= 0 {
			break
		}
		h.next = (h.next + 1) % blocks
		looked, n := h.sweepBlock(h.next)
		budget -= 1 + looked
		gone += n
	}
	return gone
}

// Walk calls fn for every live, unexpired flow until fn returns false. The handle must be outside; Walk enters for a part
// of the table at a time, so that a long walk does not hold up the reuse of memory. A flow that is there all along is
// visited once; one that comes or goes meanwhile may or may not be. fn may call the flow's methods and Remove, and must
// not keep the flow.
func (t *Table) Walk(h *Handle, now int64, fn func(*Flow) bool) {
	for block := range t.blocksInUse() {
		if !h.walkBlock(block, now, fn) {
			return
		}
	}
}

func (h *Handle) walkBlock(block uint32, now int64, fn func(*Flow) bool) bool {
	h.Enter(now)
	defer h.Leave()
	t := h.t
	for n := max(1, block*blockFlows); n < min((block+1)*blockFlows, t.fresh.Load()); n++ {
		if f := &t.flows[n]; h.counts(f) && !fn(f) {
			return false
		}
	}
	return true
}
