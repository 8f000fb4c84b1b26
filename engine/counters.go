package engine

import (
	"math/bits"
	"sync/atomic"

	"sluice/nat/reason"
)

// Counters counts the packets of one worker by reason. All values only grow.
//
// Concurrency: written by the worker, read by any goroutine.
type Counters struct {
	_       [64]byte // not on a cache line with another worker's
	packets [reason.Count]atomic.Uint64
	bytes   [reason.Count]atomic.Uint64
	_       [64]byte
}

// Packets returns how many packets ended with a reason.
func (c *Counters) Packets(r reason.Reason) uint64 { return c.packets[r].Load() }

// Bytes returns how many bytes these had, Ethernet headers included.
func (c *Counters) Bytes(r reason.Reason) uint64 { return c.bytes[r].Load() }

// tally counts within a batch, without atomics, and publishes at its end.
type tally struct {
	packets [reason.Count]uint64
	bytes   [reason.Count]uint64
	touched uint64 // bit r: reason r has been counted since the last publication
}

// A tally's set of touched reasons is one word.
const _ = uint(64 - reason.Count)

func (t *tally) add(r reason.Reason, bytes int) {
	t.packets[r]++
	t.bytes[r] += uint64(bytes)
	t.touched |= 1 << r
}

func (t *tally) publish(c *Counters) {
	for ; t.touched != 0; t.touched &= t.touched - 1 {
		r := bits.TrailingZeros64(t.touched)
		c.packets[r].Store(t.packets[r])
		c.bytes[r].Store(t.bytes[r])
	}
}
