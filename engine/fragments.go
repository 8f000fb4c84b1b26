package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// Fragments remembers of each datagram that comes in fragments what has become of the first one, which alone has ports: the
// others follow it. It is shared by all workers, because a network card that spreads packets by their ports sends the
// first fragment to another queue than the rest.
//
// Its memory is fixed. Packets that are no fragments never come here, so a mutex for each bucket is good enough.
//
// Concurrency: all methods may be called by any goroutine.
type Fragments struct {
	buckets [fragmentBuckets]fragmentBucket
	seed    uint64
	ids     atomic.Uint32
}

// Bounds of what is remembered: 4096 datagrams at once, and for how long (ns). A datagram whose fragments do not come within
// that time has lost one.
const (
	fragmentBuckets = 1024
	fragmentWays    = 4
	fragmentTime    = 2e9
	fragmentRanges  = 48 // separate parts of a datagram that have come; in order it is one
)

type fragmentBucket struct {
	mu      sync.Mutex
	entries [fragmentWays]fragmentEntry
}

// fragmentKey names a datagram (RFC 791 section 3.2, RFC 8200 section 4.5: IPv6 leaves out the protocol).
type fragmentKey struct {
	src, dst packet.Addr
	id       uint32
	proto    uint8
}

// keyOf returns the key of the datagram that a fragment is of.
func keyOf(in *packet.Info, h *packet.FragmentHeader) fragmentKey {
	k := fragmentKey{src: in.Tuple.Src, dst: in.Tuple.Dst, id: h.ID}
	if in.Family == 4 {
		k.proto = in.Proto
	}
	return k
}

// fragmentFate is what has become of a first fragment.
type fragmentFate uint8

const (
	fragmentDropped fragmentFate = iota // or answered
	fragmentPassed                      // punted
	fragmentMoved                       // translated and sent
)

// fragmentOutcome is what the later fragments of a datagram need to know of the first.
type fragmentOutcome struct {
	fate     fragmentFate
	why      reason.Reason // of fragmentDropped, and of what was sent
	src, dst packet.Addr   // of fragmentMoved: the addresses to write
	id       uint32        // of fragmentMoved: the number to write
}

// fragmentRange is a part of a datagram, in bytes.
type fragmentRange struct{ from, to int32 }

type fragmentEntry struct {
	key     fragmentKey
	until   int64 // 0: free
	outcome fragmentOutcome
	total   int32 // length of the datagram, 0 while not known
	ranges  [fragmentRanges]fragmentRange
	n       int
}

// NewFragments returns an empty store. seed keeps senders from choosing the bucket.
func NewFragments(seed uint64) *Fragments {
	f := &Fragments{seed: seed}
	f.ids.Store(uint32(seed))
	return f
}

// newID returns a number for a datagram that leaves under another source than it came with: the numbers of two senders behind
// one address must not meet at the receiver, which would put parts of both together. The lower half, all that IPv4 has, repeats
// after 65536 numbers and not before; the upper half does not show how many there have been (RFC 7739 section 3).
func (s *Fragments) newID() uint32 {
	n := s.ids.Add(1)
	low := uint16(n)*(uint16(s.seed)|1) ^ uint16(s.seed>>16)
	t := packet.Tuple{Src: packet.Addr{Lo: uint64(n)}}
	return uint32(t.Hash(s.seed))<<16 | uint32(low)
}

// bucket returns the bucket of a key.
func (s *Fragments) bucket(k *fragmentKey) *fragmentBucket {
	t := packet.Tuple{Src: k.src, Dst: k.dst, SrcPort: uint16(k.id), DstPort: uint16(k.id >> 16), Proto: k.proto}
	return &s.buckets[t.Hash(s.seed)%fragmentBuckets]
}

// follow returns what is to become of the fragment h of a datagram after its first one, and notes that it has come. ok is false
// when the first one has not. When h contradicts what has come before, the whole datagram is refused from then on: that is an
// attack, or a number that is used again too soon (RFC 5722; the same is done for IPv4). A copy is refused alone, as RFC 8200
// section 4.5 allows: networks make them.
func (s *Fragments) follow(k *fragmentKey, h *packet.FragmentHeader, now int64) (fragmentOutcome, bool) {
	b := s.bucket(k)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(k, now)
	if e == nil {
		return fragmentOutcome{}, false
	}
	outcome := e.add(h)
	if e.isComplete() {
		e.until = 0
	}
	return outcome, true
}

// lead notes the first fragment of a datagram, h, and what has become of it. One whose predecessor of the same number the kernel
// has is another datagram's.
func (s *Fragments) lead(k *fragmentKey, h *packet.FragmentHeader, outcome *fragmentOutcome, now int64) {
	b := s.bucket(k)
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.find(k, now)
	if e == nil || e.outcome.fate == fragmentPassed {
		if e == nil {
			e = b.oldest()
		}
		*e = fragmentEntry{key: *k, until: now + fragmentTime, outcome: *outcome}
	}
	e.add(h)
}

// find returns the entry of a datagram.
func (b *fragmentBucket) find(k *fragmentKey, now int64) *fragmentEntry {
	for i := range b.entries {
		if e := &b.entries[i]; e.until > now && e.key == *k {
			return e
		}
	}
	return nil
}

// oldest returns the entry that ends first, or a free one.
func (b *fragmentBucket) oldest() *fragmentEntry {
	e := &b.entries[0]
	for i := range b.entries[1:] {
		if o := &b.entries[i+1]; o.until < e.until {
			e = o
		}
	}
	return e
}

// add notes a fragment and returns what is to become of it. What the kernel has is the kernel's to judge.
func (e *fragmentEntry) add(h *packet.FragmentHeader) fragmentOutcome {
	if e.outcome.fate == fragmentPassed {
		return e.outcome
	}
	r := fragmentRange{int32(h.Offset), int32(h.End())}
	switch {
	case e.contradicts(r, h.More):
		e.outcome = fragmentOutcome{why: reason.FragmentOverlap}
	case e.has(r):
		if e.outcome.fate == fragmentMoved {
			return fragmentOutcome{why: reason.FragmentOverlap}
		}
	case e.overlaps(r):
		e.outcome = fragmentOutcome{why: reason.FragmentOverlap}
	case !e.merge(r):
		e.outcome = fragmentOutcome{why: reason.FragmentStoreFull}
	}
	if !h.More {
		e.total = r.to
	}
	return e.outcome
}

// contradicts reports whether a fragment and those that have come do not agree on where their datagram ends.
func (e *fragmentEntry) contradicts(r fragmentRange, more bool) bool {
	if e.total > 0 {
		return r.to > e.total || !more && r.to != e.total
	}
	return !more && slices.ContainsFunc(e.ranges[:e.n], func(o fragmentRange) bool { return o.to > r.to })
}

// has reports whether all of a range has come.
func (e *fragmentEntry) has(r fragmentRange) bool {
	return slices.ContainsFunc(e.ranges[:e.n], func(o fragmentRange) bool { return o.from <= r.from && r.to <= o.to })
}

func (e *fragmentEntry) overlaps(r fragmentRange) bool {
	for _, o := range e.ranges[:e.n] {
		if r.from < o.to && o.from < r.to {
			return true
		}
	}
	return false
}

// merge adds a range that overlaps none; false when there are too many apart.
func (e *fragmentEntry) merge(r fragmentRange) bool {
	for i := 0; i < e.n; {
		o := e.ranges[i]
		if o.to != r.from && r.to != o.from {
			i++
			continue
		}
		r = fragmentRange{min(o.from, r.from), max(o.to, r.to)}
		e.n--
		e.ranges[i] = e.ranges[e.n]
	}
	if e.n == fragmentRanges {
		return false
	}
	e.ranges[e.n] = r
	e.n++
	return true
}

// isComplete reports whether all of a datagram that is not refused has come. Its number may then be used again.
func (e *fragmentEntry) isComplete() bool {
	return e.outcome.fate != fragmentDropped && e.n == 1 && e.ranges[0] == fragmentRange{0, e.total}
}
