package conntrack

import "sync/atomic"

// NewOnHeap returns a table on ordinary Go memory with so many buckets: the race detector watches only the Go heap, and
// few buckets force tuples onto one chain. The number of buckets is a power of two.
func NewOnHeap(o Options, buckets int) *Table {
	return newTable(o, &arena{flows: make([]Flow, slotsFor(o.MaxFlows)), buckets: make([]atomic.Uint32, buckets)})
}
