package conntrack

import "sluice/xdp/packet"

// SCTP. The state follows the chunks that begin and end an association (RFC 9260 section 4). Those that end it count only
// with the right verification tag (section 8.5), so that only who sees the association can end it. Nothing is dropped: with
// a wrong tag the receiver does that.
//
// An end that has restarted, or both ends that open at once, agree on tags anew within the association (section 5.2). The
// table keeps the first ones; such an association ends here by silence.

// tagKnown is set in the word that holds the tag.
const tagKnown = 1 << 32

// Chunk records an SCTP packet as Packet does, whose first chunk is c.
func (h *Handle) Chunk(f *Flow, d Direction, c *packet.Chunk, bytes int) {
	f.tally(d, bytes)
	w := &f.windows
	w.learn(status(f.status.Load()), d, c)
	rightTag := w.rightTag(d, c)
	for {
		st := status(f.status.Load())
		next := st.nextSCTP(d, c.Type, rightTag)
		if next == st {
			if st.prolongs(0) && c.Type != packet.SCTPAbort {
				h.refresh(f)
			}
			return
		}
		h.refresh(f)
		if st.life() != live {
			return
		}
		if f.status.CompareAndSwap(uint32(st), uint32(next)) {
			h.t.expect(f, h.now+h.t.timeout[next.state()])
			return
		}
	}
}

// learn keeps the tags that INIT and INIT ACK ask for: packets towards their senders carry them.
func (w *windows) learn(st status, d Direction, c *packet.Chunk) {
	if st.state() != CookieWait {
		return
	}
	switch {
	case c.Type == packet.SCTPInit && d == Forward:
		w.of[Reply].sent.Store(tagKnown | uint64(c.InitiateTag))
	case c.Type == packet.SCTPInitAck && d == Reply && w.rightTag(Reply, c):
		w.of[Forward].sent.Store(tagKnown | uint64(c.InitiateTag))
	}
}

// rightTag reports whether the packet carries the tag of its direction, or, where the T bit says so, the other one. A tag that
// is not known is right.
func (w *windows) rightTag(d Direction, c *packet.Chunk) bool {
	if (c.Type == packet.SCTPAbort || c.Type == packet.SCTPShutdownComplete) && c.Reflected {
		d = d.Other()
	}
	tag := w.of[d&1].sent.Load()
	return tag == 0 || tag == tagKnown|uint64(c.Tag)
}

// nextSCTP returns the status after a packet in direction d whose first chunk has the type.
func (s status) nextSCTP(d Direction, typ uint8, rightTag bool) status {
	st := s.state()
	if !rightTag || st < CookieWait || st == SCTPClosed {
		return s
	}
	switch {
	case typ == packet.SCTPAbort:
		return s.withState(SCTPClosed)
	case typ == packet.SCTPCookieEcho && d == Forward && st == CookieWait:
		return s.withState(CookieEchoed)
	case typ == packet.SCTPCookieAck && d == Reply && st == CookieEchoed:
		return s.withState(Associated)
	case (typ == packet.SCTPShutdown || typ == packet.SCTPShutdownAck) && (st == CookieEchoed || st == Associated):
		return s.withState(ShuttingDown)
	case typ == packet.SCTPShutdownComplete && st == ShuttingDown:
		return s.withState(SCTPClosed)
	}
	return s
}
