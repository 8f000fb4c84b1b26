package conntrack

import (
	"sync/atomic"

	"sluice/xdp/packet"
)

// Direction says which of a flow's two tuples a packet carries.
type Direction uint8

// The directions.
const (
	Forward Direction = iota // as the client sends
	Reply                    // as the backend sends
)

// Other returns the opposite direction.
func (d Direction) Other() Direction { return d ^ 1 }

// String returns "forward" or "reply".
func (d Direction) String() string {
	if d == Forward {
		return "forward"
	}
	return "reply"
}

// Meta is what the caller attaches to a flow when it inserts it. The table does not interpret it.
type Meta struct {
	Service uint32 // id of the service port, stable over reloads
	Backend uint32 // id of the backend, stable over reloads
	Flags   uint16
}

// side is what belongs to one direction: one cache line, written (counters) only by the worker whose queue this
// direction arrives on, so that the workers of the two directions do not pull one line back and forth.
type side struct {
	key     [5]uint64     // the tuple; written before the flow is linked, constant until its memory is reused
	packets atomic.Uint64 // packets seen
	bytes   atomic.Uint64 // bytes seen
	next    atomic.Uint32 // the next link of this entry's chain, see link
	_       uint32
}

// Flow is one tracked flow. Its memory is the table's: a *Flow is good from the Enter under which it was obtained to the
// Leave of the same handle, and must not be kept beyond.
//
// Concurrency: all methods may be called by any goroutine that is inside.
type Flow struct {
	side [2]side

	status  atomic.Uint32 // life and state, see status
	free    atomic.Uint32 // number of the next flow of a free list, while on one
	seen    atomic.Int64  // time of the last packet, exact to one tick
	created int64         // time of Insert
	service uint32
	backend uint32
	number  uint32 // own place in the table
	flags   uint16
	_       uint16
	scratch [2]atomic.Uint64
	_       uint64

	windows // beside the line above, which every packet reads, too
}

// Tuple returns the tuple that packets of direction d carry when they arrive.
func (f *Flow) Tuple(d Direction) packet.Tuple { return packet.TupleFromWords(f.side[d&1].key) }

// Meta returns what Insert was given.
func (f *Flow) Meta() Meta { return Meta{Service: f.service, Backend: f.backend, Flags: f.flags} }

// State returns the protocol state.
func (f *Flow) State() State { return status(f.status.Load()).state() }

// Live reports whether the flow is still in the table. It turns false for good when any goroutine removes it.
func (f *Flow) Live() bool { return status(f.status.Load()).life() == live }

// Seen returns the time of the last packet in nanoseconds of the caller's clock. It may lag by up to a sixteenth of
// the shortest timeout, 100 ms at most.
func (f *Flow) Seen() int64 { return f.seen.Load() }

// Created returns the time of Insert in nanoseconds of the caller's clock.
func (f *Flow) Created() int64 { return f.created }

// Counters returns how many packets and bytes have been counted in direction d.
func (f *Flow) Counters(d Direction) (packets, bytes uint64) {
	s := &f.side[d&1]
	return s.packets.Load(), s.bytes.Load()
}

// Scratch returns a word per direction in which the caller may cache what it likes, such as the next hop. It is 0 after
// Insert; the table never reads it. It lives as long as the flow.
func (f *Flow) Scratch(d Direction) *atomic.Uint64 { return &f.scratch[d&1] }

// Uncheck switches the window check of a TCP flow off for good: from here on it is tracked by the flags of its segments alone.
// It is for flows of which the table does not see every segment.
func (f *Flow) Uncheck() { f.unchecked.Store(1) }

// Unchecked reports whether the window check of the flow is switched off.
func (f *Flow) Unchecked() bool { return f.unchecked.Load() != 0 }
