package conntrack

import (
	"sync/atomic"

	"sluice/xdp/packet"
)

// TCP windows, after "Real Stateful TCP Packet Filtering in IP Filter" (G. van Rooij, 2000) and Linux's
// nf_conntrack_proto_tcp.c. docs/decisions/0007-tcp-window.md says where and why this differs from Linux.
//
// The table sees every segment before its receiver does. So what an end can know of the other it has learned from segments
// that were here before, and an honest segment lies between bounds that the table can compute:
//
//	seq  at most the right edge that the receiver has granted, and one: a byte may have been sent to probe a window of zero
//	end  at least what the sender has sent, less the largest window of the receiver: what is older has been acknowledged
//	ack  at most what the receiver has sent
//	ack  at least what the receiver has sent, less two windows: an older one its addressee discards (RFC 5961 section 5.2)
//
// Concurrency: the two directions of a flow may be handled by two workers at once, and even one direction by two. Each word
// below is written by segments of one direction, by compare-and-swap, so that no increase is lost; the check of
// the other direction reads them. Why a race never makes the check stricter than it would be without one:
//
//   - Words are stored before the segment is forwarded. A segment that reacts to another one, such as data into a larger
//     window or an acknowledgement, is read from the wire after the store, and the check finds at least the values it relies on.
//   - A lower bound comes from a value that grows (what has been sent) less one that grows (a window). The first is loaded
//     before the second, so the window is at least the one under which it was sent.
//   - An old value of what grows, where it is the part that a lower bound is made of, lowers the bound.
//
// A new connection's values replace those of an old one only by SYN and SYN-ACK. A segment of the old one that meets them half
// replaced can be dropped; the new connection has sent none yet.

// windows is the cache line that holds a flow's two windows, or an SCTP association's tags.
type windows struct {
	of        [2]window     // by the direction of the sender
	rival     atomic.Uint64 // a SYN of the client that is not the connection's: see handshake.go
	unchecked atomic.Uint32 // 1: see Flow.Uncheck
	asked     atomic.Uint32 // see Flow.AskedInVain
}

// window is what segments of one direction have said.
type window struct {
	sent   atomic.Uint64 // high half: sequence number behind all that was sent; low half: the largest window, in bytes, 0: unknown
	grant  atomic.Uint64 // high half: right edge granted to the other side; low half: the largest ACK
	first  atomic.Uint32 // sequence number behind the SYN
	option atomic.Uint32 // window scale from the SYN: optScales and the shift count
}

// optScales is set in window.option when the SYN had the window scale option.
const optScales = 1 << 8

func pack(high, low uint32) uint64       { return uint64(high)<<32 | uint64(low) }
func unpack(w uint64) (high, low uint32) { return uint32(w >> 32), uint32(w) }
func after(a, b uint32) bool             { return int32(a-b) > 0 }
func later(a, b uint32) uint32 {
	if after(a, b) {
		return a
	}
	return b
}
func earlier(a, b uint32) uint32 { return a + b - later(a, b) }

// minAckWindow is how far behind an ACK may be at least, in bytes (Linux: MAXACKWINCONST): windows may be tiny, and a late
// ACK does no harm.
const minAckWindow = 66000

// known reports whether both sides' SYNs have been seen. While they have not, nothing is judged.
func (w *windows) known() bool {
	return uint32(w.of[Forward].sent.Load()) != 0 && uint32(w.of[Reply].sent.Load()) != 0
}

// scaled returns the window of a segment without SYN in bytes. Scaling needs both sides' consent (RFC 7323 section 2.2).
func (w *windows) scaled(d Direction, window uint16) uint32 {
	own, other := w.of[d&1].option.Load(), w.of[d.Other()&1].option.Load()
	if own&other&optScales == 0 {
		return uint32(window)
	}
	return uint32(window) << (own & 15)
}

// inside reports whether a segment without SYN and RST lies between the bounds.
func (w *windows) inside(d Direction, s *packet.Segment) bool {
	own, other := &w.of[d&1], &w.of[d.Other()&1]
	// The order of these loads matters, see above: sent before window, edge before window.
	sent, _ := unpack(own.sent.Load())
	edge, _ := unpack(other.grant.Load())
	peerSent, peerWindow := unpack(other.sent.Load())
	peerEdge, _ := unpack(own.grant.Load())
	_, window := unpack(own.sent.Load())
	// What was sent beyond the edge says nothing of the window under which it was sent.
	if after(s.Seq, edge+1) || after(earlier(sent, edge)-peerWindow, s.End()) {
		return false
	}
	if s.Flags&flagACK == 0 {
		return true
	}
	// Two windows can be 2^31: too far for after, so the distance from the upper bound is compared.
	oldest := earlier(peerSent, peerEdge) - 2*max(window, minAckWindow)
	return peerSent-s.Ack <= peerSent-oldest
}

// record keeps what a segment that is inside has told: the window before the edge that it makes, as inside reads them in the
// opposite order.
func (w *windows) record(d Direction, s *packet.Segment) {
	own := &w.of[d&1]
	window := w.scaled(d, s.Window)
	own.raiseSent(s.End(), window)
	if s.Flags&flagACK != 0 {
		own.raiseGrant(s.Ack+window, s.Ack)
	}
}

// raiseSent notes that all before end has been sent, and a window.
func (w *window) raiseSent(end, window uint32) {
	for {
		old := w.sent.Load()
		oldEnd, oldWindow := unpack(old)
		next := pack(later(end, oldEnd), max(window, oldWindow))
		if next == old || w.sent.CompareAndSwap(old, next) {
			return
		}
	}
}

// raiseGrant notes a right edge and an ACK.
func (w *window) raiseGrant(edge, ack uint32) {
	for {
		old := w.grant.Load()
		oldEdge, oldAck := unpack(old)
		next := pack(later(edge, oldEdge), later(ack, oldAck))
		if next == old || w.grant.CompareAndSwap(old, next) {
			return
		}
	}
}

// reset forgets everything, for a flow that nobody else can see.
func (w *windows) reset() {
	for d := range w.of {
		o := &w.of[d]
		o.sent.Store(0)
		o.grant.Store(0)
		o.first.Store(0)
		o.option.Store(0)
	}
	w.rival.Store(0)
	w.unchecked.Store(0)
	w.asked.Store(0)
}
