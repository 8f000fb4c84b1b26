package conntrack

import "sluice/xdp/packet"

// Result says what Insert did.
type Result uint8

// The results.
const (
	Inserted Result = iota // the flow is in the table
	Exists                 // a flow has the forward tuple already
	Clash                  // the reply tuple belongs to another flow, or is the forward tuple itself
	Full                   // no room
)

// String returns the name of the result.
func (r Result) String() string {
	return [...]string{"inserted", "exists", "clash", "full"}[r&3]
}

// Insert adds the flow with the two tuples. The results:
//
//   - Inserted: the new flow, and Forward. Call Packet for the packet that caused it.
//   - Exists: the flow that has fwd, and the direction in which fwd travels in it. Another worker may just have added it for a
//     packet of the same flow, perhaps with another reply tuple: the caller goes on with what it gets.
//   - Clash: nil; fwd is free, but reply is not. With another source port it may be.
//   - Full: nil; MaxFlows flows are live, and no expired one was found by a bounded search.
func (h *Handle) Insert(fwd, reply *packet.Tuple, m Meta) (*Flow, Direction, Result) {
	keys := [2][5]uint64{fwd.Words(), reply.Words()}
	for try := 0; ; try++ {
		if f, d, r := h.conflict(&keys); r != Inserted {
			return f, d, r
		}
		f := h.allocate()
		if f == nil {
			h.bump(full)
			return nil, 0, Full
		}
		h.prepare(f, &keys, m)
		if h.publish(f) {
			h.bump(inserted)
			return f, Forward, Inserted
		}
		h.backOff(try)
	}
}

// conflict looks for flows that have the tuples already. Inserted stands for none.
//
// Clash must be right for one instant: the flow that has the reply tuple was live before and after the forward tuple was
// found absent.
func (h *Handle) conflict(keys *[2][5]uint64) (*Flow, Direction, Result) {
	for {
		other, _ := h.find(&keys[Reply])
		h.t.step()
		if f, d := h.find(&keys[Forward]); f != nil {
			h.bump(exists)
			return f, d, Exists
		}
		h.t.step()
		switch {
		case other == nil && keys[Forward] != keys[Reply]:
			return nil, 0, Inserted
		case other == nil || other.Live():
			h.bump(clashes)
			return nil, 0, Clash
		}
	}
}

// prepare fills in a flow that nobody else can see yet.
func (h *Handle) prepare(f *Flow, keys *[2][5]uint64, m Meta) {
	for d := range f.side {
		s := &f.side[d]
		s.key = keys[d]
		s.packets.Store(0)
		s.bytes.Store(0)
		f.scratch[d].Store(0)
	}
	f.windows.reset()
	f.created = h.now
	f.service, f.backend, f.flags = m.Service, m.Backend, m.Flags
	f.seen.Store(h.now)
	f.status.Store(uint32(newStatus(pending, firstState(uint8(keys[Forward][4])))))
}

// publish links both entries and makes them count. When it returns false, the flow is gone: a tuple was taken, or another
// insert has aborted this one.
func (h *Handle) publish(f *Flow) bool {
	st := f.status.Load()
	first := Forward
	if less(&f.side[Reply].key, &f.side[Forward].key) {
		first = Reply
	}
	if !h.put(f, first) {
		h.abandon(f, 0, 0)
		return false
	}
	h.t.step()
	if !h.put(f, first.Other()) {
		h.abandon(f, first, 1)
		return false
	}
	h.t.step()
	if !f.status.CompareAndSwap(st, uint32(status(st).with(live))) {
		h.abandon(f, first, 2)
		return false
	}
	h.t.expect(f, h.now+h.t.timeout[status(st).state()])
	return true
}

// abandon takes back a flow of which linked entries, from direction first on, have been put.
func (h *Handle) abandon(f *Flow, first Direction, linked int) {
	f.status.Store(uint32(status(f.status.Load()).with(dead)))
	for ; linked > 0; linked-- {
		h.t.take(f, first)
		first = first.Other()
	}
	h.t.live.Add(-1)
	h.retire(f)
}

// maxBackOff is the longest back-off, as a power of two of empty rounds: some ten microseconds.
const maxBackOff = 14

// backOff spends a random time that doubles with each try, so that inserts which keep aborting each other drift apart.
func (h *Handle) backOff(try int) {
	h.random = h.random*6364136223846793005 + uint64(h.now) + 1442695040888963407
	rounds := h.random >> (64 - min(try, maxBackOff))
	for range rounds {
		_ = h.pinned.Load() // a cached line, so that the loop costs a cycle or two and no more
	}
}
