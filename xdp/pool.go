package xdp

import (
	"errors"
	"fmt"
)

// pool is the chunks of one worker's packet memory and the list of those that are free. Chunk addresses are offsets into
// the memory, as in a UMEM. The list is a stack: the chunk given back last is the likeliest to be in the cache.
type pool struct {
	mem    []byte
	size   int // bytes of a chunk, a power of two
	mask   uint64
	free   []uint64
	worker int // frames that the worker holds
}

// init cuts mem into chunks and puts all of them on the free list.
func (p *pool) init(mem []byte, size int) {
	p.mem, p.size, p.mask = mem, size, uint64(size-1)
	p.free = make([]uint64, 0, len(mem)/size)
	for addr := len(mem) - size; addr >= 0; addr -= size {
		p.free = append(p.free, uint64(addr))
	}
}

// chunk returns the memory of the chunk at base address addr.
func (p *pool) chunk(addr uint64) []byte {
	end := addr + uint64(p.size)
	return p.mem[addr:end:end]
}

// base returns the address of the chunk that addr points into: descriptors carry the address of the packet.
func (p *pool) base(addr uint64) uint64 { return addr &^ p.mask }

// give puts a chunk back on the free list.
func (p *pool) give(addr uint64) { p.free = append(p.free, addr) }

// take moves a free chunk to the worker; false when none is left.
func (p *pool) take(f *Frame) bool {
	last := len(p.free) - 1
	if last < 0 {
		return false
	}
	addr := p.free[last]
	p.free = p.free[:last]
	p.worker++
	f.Buf, f.Addr = p.chunk(addr), addr
	return true
}

// Audit says where a Port's frames are. A frame is in exactly one place, so that the places add up to Total.
type Audit struct {
	Total  int
	Free   int
	Fill   int // given to the kernel to receive into, and not seen in an RX ring yet
	Worker int // held by the worker
	Tx     int // given to the kernel to send, and not completed yet
}

// audit fills in what the pool knows.
func (p *pool) audit() Audit {
	return Audit{Total: len(p.mem) / p.size, Free: len(p.free), Worker: p.worker}
}

// check reports a sum that is not Total, and a chunk that is on the free list twice.
func (a Audit) check(free []uint64) error { return errors.Join(a.sum(), unique(free)) }

// sum reports places that do not add up.
func (a Audit) sum() error {
	if sum := a.Free + a.Fill + a.Worker + a.Tx; sum != a.Total || a.Worker < 0 {
		return fmt.Errorf("frames do not add up: %+v", a)
	}
	return nil
}

// unique reports a chunk that is on the free list twice.
func unique(free []uint64) error {
	seen := make(map[uint64]bool, len(free))
	for _, addr := range free {
		if seen[addr] {
			return fmt.Errorf("chunk %#x is free twice", addr)
		}
		seen[addr] = true
	}
	return nil
}
