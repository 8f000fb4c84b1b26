package conntrack

// Epochs. A handle publishes the current epoch when it enters and 0 when it leaves. The epoch moves from e to e+1 when no
// handle is inside with another value than e. A flow that is unlinked and then retired in epoch r is free in epoch r+2.
//
// Why that is enough: let a handle publish while the epoch is g; what it publishes may be older, if the epoch moved between
// its load and its store. The move g -> g+1 may already be under way. The move g+1 -> g+2 begins with a load of g+1, after the
// publication, sees it, and fails until the handle has left. So while the handle is inside, the epoch is at most g+1.
// A flow that it can still reach was unlinked after it published, hence retired in r >= g, hence not free before g+2.
//
// The same chain of atomic operations (leave, scan, move, load) orders the handle's reads of a flow before the
// writes of the flow's next user, which is why the tuples can be plain words.

// limbo holds flows that were retired in one epoch.
type limbo struct {
	chain
	epoch uint64
}

// pin publishes that the handle is inside. The store is sequentially consistent: it is visible to every scan that starts
// after it, before any link is read.
func (h *Handle) pin() { h.pinned.Store(h.t.epoch.Load()) }

// unpin publishes that the handle is outside.
func (h *Handle) unpin() { h.pinned.Store(0) }

// moveEpoch tries to move the epoch on by one, and reports whether it moved, by this call or another's.
func (t *Table) moveEpoch() bool {
	e := t.epoch.Load()
	for _, h := range *t.handles.Load() {
		if p := h.pinned.Load(); p != 0 && p != e {
			return false
		}
	}
	t.epoch.CompareAndSwap(e, e+1)
	return true
}

// retire puts a dead, unlinked flow into limbo.
func (h *Handle) retire(f *Flow) {
	e := h.t.epoch.Load()
	l := &h.limbo[e%3]
	if l.epoch != e { // what is in there was retired three epochs ago or earlier
		h.recycle(l)
		l.epoch = e
	}
	h.t.push(&l.chain, f)
	h.waiting++
}

// collect recycles what has waited long enough. Called outside, with no other handle inside, that is everything.
func (h *Handle) collect() {
	if h.t.moveEpoch() {
		h.t.moveEpoch()
	}
	e := h.t.epoch.Load()
	for i := range h.limbo {
		if l := &h.limbo[i]; l.n > 0 && l.epoch+2 <= e {
			h.recycle(l)
		}
	}
}
