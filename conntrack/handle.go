package conntrack

import (
	"sync/atomic"

	"sluice/xdp/packet"
)

// Handle is one goroutine's way into a table.
//
// Concurrency: a handle is for one goroutine at a time. Lookup, Insert, Packet and Remove are for between Enter and Leave.
type Handle struct {
	pinned atomic.Uint64 // epoch at Enter, 0 outside; read by the other handles, so on a line of its own
	_      [56]byte

	t   *Table
	now int64

	cache   chain     // unused flows at hand
	virgin  [2]uint32 // flows at hand that were never used: from, to (exclusive)
	limbo   [3]limbo  // dead flows waiting for their grace period, by epoch modulo 3
	waiting int       // flows in limbo
	futile  bool      // an insert of this batch has looked for expired flows in vain
	next    uint32    // block at which reclaim goes on
	random  uint64    // state of the back-off's generator

	_     [64]byte
	count [numCounter]atomic.Uint64 // written by the owner only
	_     [64]byte
}

// counter numbers the counts that a handle keeps.
type counter uint8

const (
	inserted counter = iota
	expired
	removed
	exists
	clashes
	full
	aborts
	numCounter
)

// bump adds one to a counter. The owner is its only writer, so a load and a store do.
func (h *Handle) bump(c counter) { h.count[c].Store(h.count[c].Load() + 1) }

// Enter starts a batch at time now, in nanoseconds of a monotonic clock that all handles share. It does not nest.
func (h *Handle) Enter(now int64) {
	h.now = now
	h.futile = false
	h.pin()
}

// Leave ends a batch. Every Flow obtained since Enter is off limits from here on. A worker that waits for packets must
// have left: while a handle is inside, dead flows cannot be reused.
func (h *Handle) Leave() {
	h.unpin()
	if h.waiting > 0 {
		h.collect()
	}
}

// inside reports whether the handle is between Enter and Leave.
func (h *Handle) inside() bool { return h.pinned.Load() != 0 }

// Close gives the handle back to the table. The caller must have left and not use it again.
func (h *Handle) Close() {
	h.collect()
	t := h.t
	t.mu.Lock()
	defer t.mu.Unlock()
	t.idle = append(t.idle, h)
}

// Lookup returns the flow that has tuple key, and the direction in which key travels. Expired flows are not found.
func (h *Handle) Lookup(key *packet.Tuple) (*Flow, Direction, bool) {
	k := key.Words()
	f, d := h.find(&k)
	return f, d, f != nil
}

// Packet records a packet of bytes bytes, L3 header included, that travels in direction d: time, counters and state. It is
// for protocols without states of their own, and for TCP segments that cannot be judged by their window, see Segment;
// tcpFlags is the flags byte of the TCP header, 0 for other protocols. It, Segment or Chunk must be called for the packet
// that caused Insert, too.
func (h *Handle) Packet(f *Flow, d Direction, tcpFlags uint8, bytes int) {
	f.tally(d, bytes)
	st := status(f.status.Load())
	next := st.next(d, tcpFlags)
	if next == st {
		if st.prolongs(tcpFlags) {
			h.refresh(f)
		}
		return
	}
	// The time before the state: a shorter timeout must not be applied to an old time.
	h.refresh(f)
	h.advance(f, st, d, tcpFlags)
}

// End closes a TCP flow as a RST does that was in the window, for a caller that resets the connection itself.
func (h *Handle) End(f *Flow) {
	if st := status(f.status.Load()); st.state() != Closed {
		h.refresh(f)
		h.advance(f, st, Forward, flagRST)
	}
}

// tally counts a packet.
func (f *Flow) tally(d Direction, bytes int) {
	s := &f.side[d&1]
	s.packets.Add(1)
	s.bytes.Add(uint64(bytes))
}

// refresh notes that the flow is in use.
func (h *Handle) refresh(f *Flow) {
	if seen := f.seen.Load(); h.now-seen >= h.t.tick {
		// Another worker may have a later time; it must not be set back. Losing to it is fine.
		f.seen.CompareAndSwap(seen, h.now)
	}
}

// advance moves f from status st to the next one, again if another worker has moved it meanwhile.
func (h *Handle) advance(f *Flow, st status, d Direction, tcpFlags uint8) {
	for {
		next := st.next(d, tcpFlags)
		if next == st || st.life() != live {
			return
		}
		if f.status.CompareAndSwap(uint32(st), uint32(next)) {
			h.t.expect(f, h.now+h.t.timeout[next.state()])
			return
		}
		st = status(f.status.Load())
	}
}

// Remove takes f out of the table, both directions at once. It reports whether this call did it: false if
// another one, or expiry, came first.
func (h *Handle) Remove(f *Flow) bool {
	if !h.kill(f) {
		return false
	}
	h.bump(removed)
	return true
}

// expire is Remove for a flow that has been silent for too long.
func (h *Handle) expire(f *Flow) bool {
	if !h.kill(f) {
		return false
	}
	h.bump(expired)
	return true
}

// kill turns a live flow dead, unlinks it and leaves its memory to the grace period. One caller only gets true.
func (h *Handle) kill(f *Flow) bool {
	for {
		st := status(f.status.Load())
		if st.life() != live {
			return false
		}
		if f.status.CompareAndSwap(uint32(st), uint32(st.with(dead))) {
			break
		}
	}
	h.t.live.Add(-1)
	h.t.step()
	h.t.take(f, Forward)
	h.t.step()
	h.t.take(f, Reply)
	h.retire(f)
	return true
}
