package nat

import (
	"math/bits"
	"sync/atomic"

	"sluice/xdp/packet"
)

// AffinityPins is how many pins an Affinity holds by default: one megabyte.
const AffinityPins = 1 << 16

// pinWays is how many places a pin can be in.
const pinWays = 8

// maxPinTries bounds the attempts to write a pin while other workers write theirs.
const maxPinTries = 64

// Affinity remembers which backend each client of a service with session affinity has. Its size is fixed: where the
// places that a new pin can have are all taken, the pin that has not been used for the longest time goes, and its client
// is back at the first choice, which is the same as long as the set of backends is (see Table.Stick).
//
// A pin is named by 31 bits of a keyed hash, besides those that find its places. Two clients that agree in all of them, one
// pair of some ten million million, share a pin: they keep to one backend all the same.
//
// Concurrency: any number of goroutines, without locks. Of workers that pin one client at the same time all end with the
// backend of one. While a pin is being replaced, a worker that has already found it may still use it; and a pin that is
// renewed while it expires may do either. It does not allocate after NewAffinity.
type Affinity struct {
	buckets []pinBucket
	seed    uint64
}

// pinBucket is the places that a pin can be in: two lines of the cache.
type pinBucket [pinWays]pinSlot

// pinSlot is a pin, or empty. The word says whose and which in one, so that both change at once; used is good only while
// the word is a valid pin.
type pinSlot struct {
	word atomic.Uint64
	used atomic.Int64 // time of the last new flow, in nanoseconds
}

// pinWord is the number of a backend in the lower half, and above it pinMark and 31 bits of the client's hash. 0 is an
// empty slot; no backend has the number 0.
type pinWord uint64

// pinMark is set in a pin that its writer has not made valid yet: it must first see that no other writer's is.
const pinMark pinWord = 1 << 32

func (w pinWord) backend() uint32    { return uint32(w) }
func (w pinWord) valid() bool        { return w != 0 && w&pinMark == 0 }
func (w pinWord) of(key pinKey) bool { return w != 0 && w>>33 == pinWord(key)>>33 }

// pinKey is the hash of a client and of what it is pinned for. The upper 31 bits name the pin, the lower ones find the
// bucket.
type pinKey uint64

// pin returns the valid word that pins key to a backend.
func (k pinKey) pin(backend uint32) pinWord { return pinWord(k)>>33<<33 | pinWord(backend) }

// NewAffinity returns an empty table for at least so many pins; the number is rounded up to a power of two, and is at
// least 8. seed should be secret, so that nobody can find clients whose pins crowd out others.
func NewAffinity(pins int, seed uint64) *Affinity {
	n := 1
	if pins > pinWays {
		n = 1 << bits.Len(uint((pins-1)/pinWays))
	}
	return &Affinity{buckets: make([]pinBucket, n), seed: seed}
}

// key returns the key of a client and what it is pinned for.
func (a *Affinity) key(client packet.Addr, scope pinScope) pinKey {
	tu := packet.Tuple{Src: client, Dst: packet.Addr{Hi: scope.since, Lo: scope.id}}
	return pinKey(tu.Hash(a.seed))
}

func (a *Affinity) bucket(k pinKey) *pinBucket { return &a.buckets[uint64(k)&uint64(len(a.buckets)-1)] }

// find returns the slot and the word of key's valid pin, nil when there is none.
func (b *pinBucket) find(key pinKey) (*pinSlot, pinWord) {
	for i := range b {
		if w := pinWord(b[i].word.Load()); w.of(key) && w.valid() {
			return &b[i], w
		}
	}
	return nil, 0
}

// renew notes that the pin was used. The time never goes back: a slow worker must not age a pin.
func (s *pinSlot) renew(now int64) {
	for {
		used := s.used.Load()
		if used >= now || s.used.CompareAndSwap(used, now) {
			return
		}
	}
}

// clear empties the slot if it still has the word.
func (s *pinSlot) clear(w pinWord) { s.word.CompareAndSwap(uint64(w), 0) }

// lookup returns the backend that key is pinned to and renews the pin. A pin that has not been used for timeout is over,
// and so is one whose backend usable refuses; both are taken out.
func (a *Affinity) lookup(key pinKey, now, timeout int64, usable func(backend uint32) bool) (uint32, bool) {
	slot, w := a.bucket(key).find(key)
	switch {
	case slot == nil:
		return 0, false
	case now-slot.used.Load() >= timeout || !usable(w.backend()):
		slot.clear(w)
		return 0, false
	}
	slot.renew(now)
	return w.backend(), true
}

// insert pins key to backend and returns the backend that it is pinned to then: that of another worker, if one was
// faster.
func (a *Affinity) insert(key pinKey, backend uint32, now int64) uint32 {
	b := a.bucket(key)
	for range maxPinTries {
		if _, w := b.find(key); w != 0 {
			return w.backend()
		}
		slot, old := b.victim()
		pin := key.pin(backend)
		if !slot.word.CompareAndSwap(uint64(old), uint64(pin|pinMark)) {
			continue
		}
		slot.used.Store(now)
		if w := b.contend(key, slot); w != 0 {
			slot.clear(pin | pinMark)
			return w.backend()
		}
		if slot.word.CompareAndSwap(uint64(pin|pinMark), uint64(pin)) {
			return backend
		}
	}
	return backend // unpinned: so many writers met in this bucket that the next flow may try again
}

// contend looks for other pins of key than the one in mine, which is not valid yet. A valid one has won: it is returned. One
// that is not valid is taken from its writer, who sees that and begins anew. Of two writers at least the later one sees
// the other's mark, so that never both become valid.
func (b *pinBucket) contend(key pinKey, mine *pinSlot) pinWord {
	for i := range b {
		slot := &b[i]
		w := pinWord(slot.word.Load())
		if slot == mine || !w.of(key) {
			continue
		}
		if !w.valid() && slot.word.CompareAndSwap(uint64(w), 0) {
			continue
		}
		if w = pinWord(slot.word.Load()); w.of(key) && w.valid() {
			return w
		}
	}
	return 0
}

// victim returns the slot for a new pin, and what is in it: an empty one, or the one that was not used for the longest
// time. Pins that are not valid yet are left to their writers as long as there is another.
func (b *pinBucket) victim() (slot *pinSlot, old pinWord) {
	slot, old = &b[0], pinWord(b[0].word.Load())
	for i := range b {
		s := &b[i]
		w := pinWord(s.word.Load())
		switch {
		case w == 0:
			return s, w
		case w.valid() && (!old.valid() || s.used.Load() < slot.used.Load()):
			slot, old = s, w
		}
	}
	return slot, old
}
