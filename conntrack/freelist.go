package conntrack

// Unused flows are numbers in three places: a handle's cache, the table's stack, and the range that was never touched.
// Used ones are preferred, so that the memory in use follows the number of flows.

// cacheFlows is how many unused flows a handle keeps and how many it takes from the table at a time.
const cacheFlows = 32

// chain is a singly linked list of flows by Flow.free; 0 ends it.
type chain struct {
	head, tail uint32
	n          int
}

// push adds f to the front of c, which the caller owns.
func (t *Table) push(c *chain, f *Flow) {
	f.free.Store(c.head)
	if c.n == 0 {
		c.tail = f.number
	}
	c.head = f.number
	c.n++
}

// pop takes the front of c, which the caller owns and which must not be empty.
func (t *Table) pop(c *chain) *Flow {
	f := &t.flows[c.head]
	c.head = f.free.Load()
	c.n--
	return f
}

// The stack's head is the number of its top flow below a tag that changes with every operation: a pop that was overtaken
// cannot succeed with a stale successor, however often flows have come and gone meanwhile (short of 2^32 times).
const tagOne = 1 << 32

// give pushes all of c on the table's stack.
func (t *Table) give(c *chain) {
	last := &t.flows[c.tail]
	for {
		top := t.spare.Load()
		last.free.Store(uint32(top))
		if t.spare.CompareAndSwap(top, (top&^(tagOne-1)+tagOne)|uint64(c.head)) {
			break
		}
	}
	*c = chain{}
}

// takeSpare pops a flow off the table's stack; nil when it is empty.
func (t *Table) takeSpare() *Flow {
	for {
		top := t.spare.Load()
		if uint32(top) == 0 {
			return nil
		}
		f := &t.flows[uint32(top)]
		next := f.free.Load()
		t.step()
		if t.spare.CompareAndSwap(top, (top&^(tagOne-1)+tagOne)|uint64(next)) {
			return f
		}
	}
}

// recycle empties l: into the handle's cache if it is short, else to the table.
func (h *Handle) recycle(l *limbo) {
	h.waiting -= l.n
	for h.cache.n < cacheFlows && l.n > 0 {
		h.t.push(&h.cache, h.t.pop(&l.chain))
	}
	if l.n > 0 {
		h.t.give(&l.chain)
	}
	l.chain = chain{}
}

// allocate returns an unused flow and counts it as live, or nil when there is none: then it has looked for expired
// flows, once a batch.
func (h *Handle) allocate() *Flow {
	for h.t.live.Add(1) > h.t.max {
		h.t.live.Add(-1)
		if h.futile || h.reclaim() == 0 {
			h.futile = true
			return nil
		}
	}
	if f := h.unused(); f != nil {
		return f
	}
	h.t.live.Add(-1)
	return nil
}

// unused takes a flow from the cache, the table's stack or the untouched range.
func (h *Handle) unused() *Flow {
	t := h.t
	for h.cache.n == 0 {
		if h.virgin[0] < h.virgin[1] {
			return h.touch()
		}
		for range cacheFlows {
			f := t.takeSpare()
			if f == nil {
				break
			}
			t.push(&h.cache, f)
		}
		if h.cache.n == 0 && !h.reserve() {
			return nil
		}
	}
	return t.pop(&h.cache)
}

// touch takes the next flow of the range that the handle has reserved.
func (h *Handle) touch() *Flow {
	n := h.virgin[0]
	h.virgin[0]++
	f := &h.t.flows[n]
	f.number = n
	return f
}

// reserve takes a range of flows that were never used. It returns false when there are none left.
func (h *Handle) reserve() bool {
	t := h.t
	for {
		from := t.fresh.Load()
		to := min(from+cacheFlows, uint32(len(t.flows)))
		if from == to {
			return false
		}
		if t.fresh.CompareAndSwap(from, to) {
			h.virgin = [2]uint32{from, to}
			return true
		}
	}
}
