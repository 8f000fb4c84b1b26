package ring

import (
	"fmt"
	"unsafe"
)

// This file turns offsets into mapped memory into typed pointers; nothing else in the package is unsafe. Why it is sound:
// place and entries check that what they point at lies inside mem and is aligned. The pointers do not keep a mapping
// alive, since the garbage collector does not know mmapped memory: whoever maps it must not unmap it while a ring is in
// use. Heap memory (in tests) is kept alive by them as usual. All words that the other end writes are accessed through
// sync/atomic only; entries are plain memory, ordered by those accesses.

// Layout says where the parts of a ring lie in its memory, in bytes from the start (struct xdp_ring_offset).
type Layout struct {
	Producer, Consumer, Flags, Entries uint64
}

// view is what both ends of a ring share.
type view[T Entry] struct {
	producer, consumer, flags *uint32
	entries                   []T
	mask                      uint32
}

// newView places a ring of size entries over mem.
func newView[T Entry](mem []byte, l Layout, size uint32) (v view[T], err error) {
	if size == 0 || size&(size-1) != 0 {
		return v, fmt.Errorf("ring size %d: must be a power of two", size)
	}
	for _, w := range []struct {
		p   **uint32
		off uint64
	}{{&v.producer, l.Producer}, {&v.consumer, l.Consumer}, {&v.flags, l.Flags}} {
		if *w.p, err = place[uint32](mem, w.off, 1); err != nil {
			return v, err
		}
	}
	first, err := place[T](mem, l.Entries, size)
	if err != nil {
		return v, err
	}
	v.entries, v.mask = unsafe.Slice(first, size), size-1
	return v, nil
}

// place returns a pointer to n values of type T at offset off of mem.
func place[T any](mem []byte, off uint64, n uint32) (*T, error) {
	var zero T
	width := uint64(unsafe.Sizeof(zero))
	if off > uint64(len(mem)) || width*uint64(n) > uint64(len(mem))-off {
		return nil, fmt.Errorf("ring part of %d bytes at offset %d: outside the mapping of %d bytes",
			width*uint64(n), off, len(mem))
	}
	p := unsafe.Pointer(&mem[off])
	if uintptr(p)%unsafe.Alignof(zero) != 0 {
		return nil, fmt.Errorf("ring part at offset %d: not aligned", off)
	}
	return (*T)(p), nil
}
