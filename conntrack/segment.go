package conntrack

import "sluice/xdp/packet"

// effect is what comes of a segment.
type effect uint8

const (
	outside effect = iota // not forwarded, or forwarded by a liberal table; changes nothing
	ignored               // forwarded, but changes neither state nor time: its receiver will discard or question it
	counts                // forwarded; changes state and time by its flags
	restart               // as counts, and the connection begins anew
)

// Segment records a TCP segment as Packet does, if it lies in the window. When it returns false the segment is out of it
// and must not be forwarded; nothing has changed. A table with Options.Liberal returns true all the same, and nothing
// has changed but the counters.
//
// Segments are not judged before both SYNs have been seen, and never in a flow that is unchecked or closed.
func (h *Handle) Segment(f *Flow, d Direction, s *packet.Segment, bytes int) bool {
	st := status(f.status.Load())
	switch f.judge(st, d, s) {
	case outside:
		if !h.t.liberal {
			return false
		}
		f.tally(d, bytes)
	case ignored:
		f.tally(d, bytes)
	case restart:
		f.tally(d, bytes)
		h.refresh(f)
		h.reopen(f)
	default:
		h.Packet(f, d, s.Flags, bytes)
	}
	return true
}

// judge says what comes of a segment, and records what it tells.
func (f *Flow) judge(st status, d Direction, s *packet.Segment) effect {
	w := &f.windows
	switch {
	case st.state() == Closed || w.unchecked.Load() != 0:
		return counts
	case s.Flags&flagRST != 0:
		return w.abort(st, d, s)
	case s.Flags&flagSYN != 0:
		return w.synchronise(st, d, s)
	case !w.known():
		if d == Reply && st.state() == SynSent {
			return ignored // an ACK of an older connection: the client will answer it with RST
		}
		return counts
	case !w.inside(d, s):
		return outside
	}
	w.record(d, s)
	return counts
}

// reopen takes a flow whose ends have begun a new connection back to SynRecv.
func (h *Handle) reopen(f *Flow) {
	for {
		st := status(f.status.Load())
		if st.life() != live {
			return
		}
		if f.status.CompareAndSwap(uint32(st), uint32(newStatus(live, SynRecv))) {
			h.t.expect(f, h.now+h.t.timeout[SynRecv])
			return
		}
	}
}
