package conntrack

import "sluice/xdp/packet"

// Warming a batch. A lookup among many flows is a chain of reads that each miss the caches: bucket, entry, the rest of the
// flow. The reads of one packet wait for each other, but those of different packets do not, if they stand close enough
// together for the processor to see many of them at once. So a worker first computes the places of a whole batch, then reads
// the buckets in a loop that does nothing else, then the flows, and only then looks its packets up one by one. Hashing and
// reading in one loop would be twice as slow as this: two hundred instructions are all that a processor looks ahead.

// Place is where the bucket of a tuple is.
type Place uint32

// Hint is where a lookup will begin. It is good for WarmFlow in the same batch, and means nothing else: it may be out of
// date at once.
type Hint uint32

// Place returns where the bucket of key is. It reads nothing of the table.
func (h *Handle) Place(key *packet.Tuple) Place {
	k := key.Words()
	return Place(h.t.hash(&k) & h.t.mask)
}

// Warm brings the bucket at p into the caches.
func (h *Handle) Warm(p Place) Hint { return Hint(h.t.buckets[p].Load()) }

// WarmFlow brings the flow at the head of the bucket into the caches, with its windows if the packet is a TCP segment. Call it for
// all hints of a batch, after Warm for all places.
func (h *Handle) WarmFlow(hint Hint, windows bool) {
	l := link(hint).bare()
	if l == 0 {
		return
	}
	f, _ := h.t.entry(l)
	// One read for each cache line. They are atomic so that the compiler keeps them.
	f.side[Forward].packets.Load()
	f.side[Reply].packets.Load()
	f.status.Load()
	if windows {
		f.rival.Load()
	}
}
