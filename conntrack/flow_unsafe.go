package conntrack

// The arrays of flows and of bucket heads live in anonymous private mappings, outside the Go heap: the collector neither
// scans nor counts them, and pages that were never touched cost no memory (MAP_NORESERVE: nor swap).
//
// Why the conversions below are sound:
//
//   - A mapping is page-aligned, which satisfies the alignment of every element type used here (8 bytes) and puts each Flow
//     on a cache line of its own, as its size is a multiple of 64.
//   - Its length is count times the element size, so every index that the slice's bounds check lets through is inside.
//   - Neither Flow nor atomic.Uint32 contains a Go pointer, so the collector need not know about them; pointers to
//     them that lie on stacks lead outside the heap, which the collector permits.
//   - All bits zero is a valid value of both types: a free flow, an empty bucket.
//   - The mapping outlives its users: Table.Close, which unmaps, must be called after every handle has left for good.

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"unsafe"
)

// flowSize is the size of a Flow in bytes: four cache lines, one per direction and two shared.
const flowSize = 256

// Compile-time checks: the index of a one-element array must be 0.
var (
	_ = [1]struct{}{}[unsafe.Sizeof(Flow{})-flowSize]
	_ = [1]struct{}{}[unsafe.Sizeof(side{})-64]
	_ = [1]struct{}{}[unsafe.Offsetof(Flow{}.status)-128]
	_ = [1]struct{}{}[unsafe.Offsetof(Flow{}.windows)-192]
)

// arena is the memory of a table.
type arena struct {
	flows    []Flow
	buckets  []atomic.Uint32
	mappings [][]byte
}

// mapArena reserves memory for a table.
func mapArena(flows, buckets int) (*arena, error) {
	a := new(arena)
	fp, err := a.reserve(flows * flowSize)
	if err != nil {
		return nil, fmt.Errorf("reserving memory for %d flows: %w", flows, err)
	}
	bp, err := a.reserve(buckets * int(unsafe.Sizeof(atomic.Uint32{})))
	if err != nil {
		return nil, fmt.Errorf("reserving memory for %d buckets: %w (%w)", buckets, err, a.release())
	}
	a.flows = unsafe.Slice((*Flow)(fp), flows)
	a.buckets = unsafe.Slice((*atomic.Uint32)(bp), buckets)
	return a, nil
}

// reserve maps size zero bytes.
func (a *arena) reserve(size int) (unsafe.Pointer, error) {
	m, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		return nil, err
	}
	// Lookups go all over the table; with pages of 2 MiB far fewer of them miss the TLB. Where there are none to be had the
	// table works all the same.
	_ = syscall.Madvise(m, syscall.MADV_HUGEPAGE)
	a.mappings = append(a.mappings, m)
	return unsafe.Pointer(unsafe.SliceData(m)), nil
}

// release gives the memory back. The slices must not be used any more.
func (a *arena) release() error {
	a.flows, a.buckets = nil, nil
	var first error
	for _, m := range a.mappings {
		if err := syscall.Munmap(m); err != nil && first == nil {
			first = fmt.Errorf("unmapping the flow table: %w", err)
		}
	}
	a.mappings = nil
	return first
}
