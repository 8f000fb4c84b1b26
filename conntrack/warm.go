package conntrack

import "sluice/xdp/packet"

// Warming a batch. A lookup among many flows is a chain of reads that each miss the caches: bucket, entry, the rest of the
// flow. The reads of one packet wait for each other, but those of different packets do not: a worker that first reads the
// buckets of a whole batch, then the entries, then looks its packets up one by one, waits for memory a few times a batch instead
// of a few times a packet (BenchmarkPipeline/hit/flows=64k).

// Hint is where a lookup will begin, as far as Warm has found out. It is good for WarmFlow in the same batch, and means
// nothing else: it may be out of date at once.
type Hint uint32

// Warm brings the bucket of key into the caches.
func (h *Handle) Warm(key *packet.Tuple) Hint {
	k := key.Words()
	return Hint(link(h.t.bucket(&k).Load()).bare())
}

// WarmFlow brings the flow at the head of the bucket into the caches. Call it for all hints of a batch, after Warm for all keys.
func (h *Handle) WarmFlow(hint Hint) {
	if hint == 0 {
		return
	}
	f, _ := h.t.entry(link(hint))
	// One read for each cache line. They are atomic so that the compiler keeps them.
	f.side[Forward].packets.Load()
	f.side[Reply].packets.Load()
	f.status.Load()
}
