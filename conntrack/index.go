package conntrack

import (
	"math/bits"
	"sync/atomic"
)

// link is the content of a bucket head and of side.next: bit 0 the mark, bit 1 the direction, above it the number of
// the flow. 0 is the end of a chain. A marked link says that the entry which holds it is being taken out; it is frozen.
type link uint32

const marked link = 1

func linkTo(f *Flow, d Direction) link { return link(f.number<<2 | uint32(d)<<1) }

func (l link) bare() link { return l &^ marked }

// entry returns the flow and the side that l leads to; l must not be 0.
func (t *Table) entry(l link) (*Flow, Direction) {
	return &t.flows[l>>2], Direction(l>>1) & 1
}

// hash mixes the words of a tuple with the seed: folded 64x64 multiplications, two of them in parallel. It takes
// half the time of packet.Tuple.Hash (BenchmarkHash), whose values need to be equal on all machines; these do not.
func (t *Table) hash(k *[5]uint64) uint64 {
	a := fold(k[0]^t.seed[0], k[1]^t.seed[1])
	b := fold(k[2]^t.seed[2], k[3]^t.seed[3])
	return fold(a^k[4]^t.seed[1], b^t.seed[2])
}

// fold multiplies two words and folds the product back into one.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (t *Table) bucket(k *[5]uint64) *atomic.Uint32 { return &t.buckets[t.hash(k)&t.mask] }

// same compares two tuples, the ports first: flows of one service differ there most often.
func same(a, b *[5]uint64) bool {
	return a[4] == b[4] && a[1] == b[1] && a[3] == b[3] && a[0] == b[0] && a[2] == b[2]
}

// less is the order in which Insert links its two tuples.
func less(a, b *[5]uint64) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

// find returns the live, unexpired flow that has tuple k. Marks are ignored: a frozen link still leads to the rest of the
// chain, and the status word alone says whether an entry counts. An expired flow met on the way is removed.
//
// A miss is right for some instant during the call: a flow that has k and stays live throughout was linked before the head was
// read, hence is reached; and between two flows that have k one after the other lies an instant at which none has it.
func (h *Handle) find(k *[5]uint64) (*Flow, Direction) {
	t := h.t
	for l := link(t.bucket(k).Load()); l != 0; {
		f, d := t.entry(l)
		s := &f.side[d]
		l = link(s.next.Load()).bare()
		if same(&s.key, k) && h.counts(f) {
			return f, d
		}
	}
	return nil, 0
}

// counts reports whether f is live and not expired; an expired one it removes.
func (h *Handle) counts(f *Flow) bool {
	st := status(f.status.Load())
	if st.life() != live {
		return false
	}
	if h.now-f.seen.Load() <= h.t.timeout[st.state()] {
		return true
	}
	h.expire(f)
	return false
}

// step marks a place in the adding and removing of flows at which tests let other goroutines run, to go through
// interleavings that are rare in nature. It costs a comparison, and none on the path of a tracked flow's packet.
func (t *Table) step() {
	if t.pause != nil {
		t.pause()
	}
}

// put links f's entry of direction d at the head of its chain, unless another flow has the tuple: then it returns false.
func (h *Handle) put(f *Flow, d Direction) bool {
	s := &f.side[d]
	b := h.t.bucket(&s.key)
	for {
		head := b.Load()
		if h.taken(link(head), &s.key) {
			return false
		}
		h.t.step()
		s.next.Store(head)
		if b.CompareAndSwap(head, uint32(linkTo(f, d))) {
			return true
		}
	}
}

// taken reports whether a flow in the chain that starts at l has tuple k. When it returns false, every entry with k in the
// chain belonged to a dead flow, and dead is for good.
func (h *Handle) taken(l link, k *[5]uint64) bool {
	for l != 0 {
		f, d := h.t.entry(l)
		s := &f.side[d]
		l = link(s.next.Load()).bare()
		if same(&s.key, k) && h.settle(f) && h.counts(f) {
			return true
		}
	}
	return false
}

// patience is how often settle looks before it aborts: about as long as an undisturbed insert takes.
const patience = 256

// settle waits for a moment while f is pending, then aborts it. It reports whether f is live.
func (h *Handle) settle(f *Flow) bool {
	for range h.t.patience {
		if l := status(f.status.Load()).life(); l != pending {
			return l == live
		}
	}
	st := status(f.status.Load())
	h.t.step()
	if st.life() == pending && f.status.CompareAndSwap(uint32(st), uint32(st.with(dead))) {
		h.bump(aborts)
		return false
	}
	return status(f.status.Load()).life() == live
}

// take unlinks f's entry of direction d, which must have been put and whose flow must be dead; one goroutine only calls
// it for an entry. When it returns, no chain leads to the entry.
func (t *Table) take(f *Flow, d Direction) {
	s := &f.side[d]
	for {
		l := s.next.Load()
		if s.next.CompareAndSwap(l, l|uint32(marked)) {
			break
		}
	}
	t.step()
	for !t.purge(t.bucket(&s.key), linkTo(f, d)) {
	}
}

// purge walks a chain and unlinks the marked entries up to and including that of want, or all if it is not there any
// more (another goroutine's purge has unlinked it). It returns false when a link changed under it, be it that the entry which
// holds the link has been marked: start again.
func (t *Table) purge(prev *atomic.Uint32, want link) bool {
	for l := link(prev.Load()); l != 0; {
		f, d := t.entry(l)
		next := link(f.side[d].next.Load())
		if next&marked == 0 {
			prev, l = &f.side[d].next, next
			continue
		}
		t.step()
		if !prev.CompareAndSwap(uint32(l), uint32(next.bare())) {
			return false
		}
		if l == want {
			return true
		}
		l = next.bare()
	}
	return true
}
