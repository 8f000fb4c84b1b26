package conntrack

import (
	"errors"
	"fmt"
	"reflect"
	"sync/atomic"

	"sluice/xdp/packet"
)

// NewOnHeap returns a table on ordinary Go memory with so many buckets: the race detector watches only the Go heap, and
// few buckets force tuples onto one chain. The number of buckets is a power of two. An insert that meets another's half-done
// one looks at it patience times before it aborts it.
func NewOnHeap(o Options, buckets, patience int) *Table {
	t := newTable(o, &arena{flows: make([]Flow, slotsFor(o.MaxFlows)), buckets: make([]atomic.Uint32, buckets)})
	t.patience = patience
	return t
}

// OnStep makes the table call pause at the places where the order of goroutines matters.
func (t *Table) OnStep(pause func()) { t.pause = pause }

// Address returns where the flows lie.
func (t *Table) Address() uint64 { return uint64(reflect.ValueOf(t.flows).Pointer()) }

// TakeSpare pops a flow off the stack of unused ones and returns its number, 0 if there is none.
func (t *Table) TakeSpare() uint32 {
	if f := t.takeSpare(); f != nil {
		return f.number
	}
	return 0
}

// GiveSpare pushes flow n on that stack.
func (t *Table) GiveSpare(n uint32) {
	f := &t.flows[n]
	f.number = n
	var c chain
	t.push(&c, f)
	t.give(&c)
}

// HashOf returns the table's hash of a tuple in words.
func (t *Table) HashOf(k *[5]uint64) uint64 { return t.hash(k) }

// Check holds a table that nobody is using to its invariants: every live flow is in the chains of both its tuples and once
// only, nothing else is in any chain, no two live flows share a tuple, and every flow's memory is in exactly one place.
func (t *Table) Check() error {
	c := checker{t: t, place: make([]string, t.fresh.Load()), owner: map[[5]uint64]uint32{}}
	c.chains()
	liveFlows := 0
	for n := range c.place {
		if status(t.flows[n].status.Load()).life() == live {
			liveFlows++
			c.put(uint32(n), "live")
		}
	}
	if got := len(c.owner); got != 2*liveFlows {
		c.fail("%d index entries for %d live flows", got, liveFlows)
	}
	if got := t.live.Load(); got != int64(liveFlows) {
		c.fail("live counter %d, live flows %d", got, liveFlows)
	}
	c.lists()
	for n := 1; n < int(t.fresh.Load()); n++ {
		if c.place[n] == "" {
			c.fail("flow %d is lost", n)
		}
	}
	return errors.Join(c.errs...)
}

type checker struct {
	t     *Table
	place []string // per flow, where it is
	owner map[[5]uint64]uint32
	errs  []error
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *checker) put(n uint32, where string) {
	if c.place[n] != "" {
		c.fail("flow %d is in %s and in %s", n, c.place[n], where)
	}
	c.place[n] = where
}

func (c *checker) chains() {
	for i := range c.t.buckets {
		for l := link(c.t.buckets[i].Load()); l != 0; {
			f, d := c.t.entry(l)
			s := &f.side[d]
			if st := status(f.status.Load()); st.life() != live {
				c.fail("flow %d is linked, life %d", f.number, st.life())
			}
			if _, twice := c.owner[s.key]; twice {
				c.fail("tuple %v has two entries", f.Tuple(d))
			}
			c.owner[s.key] = f.number
			if c.t.bucket(&s.key) != &c.t.buckets[i] {
				c.fail("tuple %v is in the wrong chain", f.Tuple(d))
			}
			if l = link(s.next.Load()); l&marked != 0 {
				c.fail("linked entry of flow %d is marked", f.number)
				l = l.bare()
			}
		}
	}
}

func (c *checker) lists() {
	c.list(uint32(c.t.spare.Load()), -1, "the stack")
	for i, h := range *c.t.handles.Load() {
		c.list(h.cache.head, h.cache.n, fmt.Sprintf("cache %d", i))
		for e := range h.limbo {
			c.list(h.limbo[e].head, h.limbo[e].n, fmt.Sprintf("limbo %d.%d", i, e))
		}
		for n := h.virgin[0]; n < h.virgin[1]; n++ {
			c.put(n, fmt.Sprintf("the untouched range of handle %d", i))
		}
	}
}

// list visits n flows from head on, or all when n is negative.
func (c *checker) list(head uint32, n int, where string) {
	for ; n > 0 || n < 0 && head != 0; n-- {
		if c.place[head] != "" {
			c.put(head, where)
			return
		}
		c.put(head, where)
		head = c.t.flows[head].free.Load()
	}
}

// HalfInsert does an insert of absent tuples up to the linking of so many entries (1 or 2), and returns what does the rest
// of it: false when the flow did not come alive.
func (h *Handle) HalfInsert(fwd, reply *packet.Tuple, linked int) (finish func() bool) {
	keys := [2][5]uint64{fwd.Words(), reply.Words()}
	f := h.allocate()
	h.prepare(f, &keys, Meta{})
	st := status(f.status.Load())
	first := Forward
	if less(&keys[Reply], &keys[Forward]) {
		first = Reply
	}
	for d, n := first, 0; n < linked; d, n = d.Other(), n+1 {
		h.put(f, d)
	}
	return func() bool {
		for n := linked; n < 2; n++ {
			if !h.put(f, first.Other()) {
				h.abandon(f, first, n)
				return false
			}
		}
		if !f.status.CompareAndSwap(uint32(st), uint32(st.with(live))) {
			h.abandon(f, first, 2)
			return false
		}
		return true
	}
}
