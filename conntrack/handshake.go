package conntrack

import "sluice/xdp/packet"

// How the windows begin and end: SYN and RST.
//
// An end may lose its memory, or use its ports again, while the table still has the old connection. Its SYN is let through
// (RFC 9293 section 3.10.7.4): the other end either answers with a challenge ACK, which makes the first one send the RST
// that ends the old connection, or has lost its memory, too, and accepts. For the second case the SYN is kept as the
// "rival": a SYN-ACK that acknowledges it makes it the connection's.

// maxSynData is how many bytes a SYN may carry at most (RFC 7413): a SYN-ACK need not acknowledge them.
const maxSynData = 1 << 14

// rival packs a SYN: high half: sequence number behind it; bits 0-15 window; 16-24 option; 25: there is one.
const hasRival = 1 << 25

func packRival(s *packet.Segment) uint64 {
	return pack(s.End(), uint32(s.Window)|optionOf(s)<<16|hasRival)
}

// optionOf returns the window scale option of a SYN as window.option has it.
func optionOf(s *packet.Segment) uint32 {
	if !s.Scales {
		return 0
	}
	return optScales | uint32(s.WScale)
}

// acknowledges reports whether ack is one for a SYN that ends at end.
func acknowledges(ack, end uint32) bool { return end-ack < maxSynData }

// synchronise deals with a segment that has SYN, without RST.
func (w *windows) synchronise(st status, d Direction, s *packet.Segment) effect {
	switch {
	case st.state() >= TimeWait || s.Flags&flagFIN != 0:
		return ignored
	case d == Reply && s.Flags&flagACK != 0:
		return w.accept(st, s)
	case d == Reply:
		return w.cross(st, s)
	case s.Flags&flagACK == 0:
		return w.request(st, s)
	case st.state() == SynRecv && s.End() == w.of[Forward].first.Load(): // the client's half of a simultaneous open
		w.again(Forward, s)
		return counts
	}
	return ignored
}

// again deals with a SYN or SYN-ACK that is sent once more. Its window may be larger, and it may be the first that gets to
// the other end.
func (w *windows) again(d Direction, s *packet.Segment) {
	own, other := &w.of[d&1], &w.of[d.Other()&1]
	window := uint32(s.Window)
	own.raiseSent(s.End(), window)
	if !w.known() {
		return
	}
	acked := s.Ack
	if s.Flags&flagACK == 0 {
		acked = other.first.Load()
	}
	own.raiseGrant(acked+window, acked)
}

// request deals with a SYN from the client.
func (w *windows) request(st status, s *packet.Segment) effect {
	client := &w.of[Forward]
	_, window := unpack(client.sent.Load())
	opening := st.state() < Established
	switch {
	case opening && window == 0:
		w.open(s.End(), uint32(s.Window), optionOf(s))
		return counts
	case s.End() == client.first.Load(): // once more
		if !opening {
			return ignored
		}
		w.again(Forward, s)
		if o := optionOf(s); o != 0 {
			// Some clients give up options when they are not answered. If the SYN without them is the one that is answered, the
			// answer has none either, and they do not count.
			client.option.Store(o)
		}
		return counts
	}
	rival := packRival(s)
	old := w.rival.Swap(rival)
	if opening && old != 0 && old != rival {
		w.unchecked.Store(1) // three SYNs: no telling which is the client's last
	}
	if st.state() == SynSent {
		return counts
	}
	return ignored
}

// open begins with the client's SYN.
func (w *windows) open(end, window, option uint32) {
	client := &w.of[Forward]
	client.first.Store(end)
	client.option.Store(option)
	client.sent.Store(pack(end, max(window, 1)))
}

// accept deals with a SYN-ACK from the backend.
func (w *windows) accept(st status, s *packet.Segment) effect {
	client, server := &w.of[Forward], &w.of[Reply]
	_, window := unpack(client.sent.Load())
	end, rival := unpack(w.rival.Load())
	mine := acknowledges(s.Ack, client.first.Load())
	switch {
	case window == 0:
		return counts // of a connection whose SYN was not seen
	case st.state() == SynSent && mine:
		w.answer(s, s.Ack)
		return counts
	case st.state() == SynRecv && mine:
		if s.End() != server.first.Load() || optionOf(s) != server.option.Load() {
			w.unchecked.Store(1) // two answers that differ, as SYN cookies do: the client takes either
			return counts
		}
		w.again(Reply, s)
		return counts
	case rival == 0 || !acknowledges(s.Ack, end):
		return ignored // for an older SYN: the client will answer it with RST
	case s.End() == server.first.Load():
		return ignored // an old SYN and its SYN-ACK once more
	}
	w.open(end, rival&0xffff, rival>>16&(optScales|15))
	w.answer(s, s.Ack)
	w.rival.Store(0)
	return restart
}

// cross deals with a SYN from the backend without ACK: both ends open at the same time (RFC 9293 section 3.5).
func (w *windows) cross(st status, s *packet.Segment) effect {
	end, window := unpack(w.of[Forward].sent.Load())
	switch {
	case st.state() > SynRecv:
		return ignored
	case window == 0:
	case st.state() == SynSent:
		w.answer(s, end)
	case s.End() == w.of[Reply].first.Load():
		w.again(Reply, s)
	default:
		return ignored
	}
	return counts
}

// answer begins the backend's direction with its SYN or SYN-ACK. The windows of SYNs count from the other one's end and are
// never scaled (RFC 7323 section 2.2).
func (w *windows) answer(s *packet.Segment, ack uint32) {
	client, server := &w.of[Forward], &w.of[Reply]
	_, window := unpack(client.sent.Load())
	server.first.Store(s.End())
	server.option.Store(optionOf(s))
	client.grant.Store(pack(s.Seq+1+window, s.Seq+1))
	server.grant.Store(pack(ack+uint32(s.Window), ack))
	server.sent.Store(pack(s.End(), max(uint32(s.Window), 1))) // last: from here on the windows are known
}

// AskedInVain notes at now, in nanoseconds, that a SYN has come from the client of a connection, and reports whether an earlier one
// was not answered: nothing has come from the backend since, and askedFor has passed. A backend that lives answers every SYN
// (RFC 9293 section 3.10.7.4), so that a forged one cannot make it seem dead. The caller has verified the checksum, and forwards
// the SYN as long as this is false.
func (f *Flow) AskedInVain(now int64) bool {
	packets, _ := f.Counters(Reply)
	next := uint32(now>>askedShift)<<16 | uint32(packets)&0xffff
	old := f.asked.Load()
	if old == 0 || old<<16 != next<<16 {
		f.asked.CompareAndSwap(old, next)
		return false
	}
	return next-old >= askedFor<<16
}

// askedFor is how long a backend has to answer a SYN, in units of 2^askedShift ns: at least half a second, so that the copy which a
// client sends after one second finds out (RFC 6298 section 2).
const (
	askedShift = 28
	askedFor   = 3
)

// abort deals with RST. It ends the flow when its receiver will believe it (RFC 5961 section 3.2): one whose number is exactly
// the one that is expected next, by the last ACK or by what has been sent. Another one in the window is forwarded, and
// the receiver's challenge ACK brings the exact one, if the sender is real.
func (w *windows) abort(st status, d Direction, s *packet.Segment) effect {
	own, other := &w.of[d&1], &w.of[d.Other()&1]
	if !w.known() || st.state() == SynRecv {
		return w.refuse(d, s)
	}
	end, _ := unpack(own.sent.Load())
	edge, acked := unpack(other.grant.Load())
	lowest := acked
	if st.fins()&(1<<d) != 0 {
		lowest-- // some stacks send RST with the number of the FIN before it, and receivers accept it
	}
	switch {
	case s.Seq == acked || s.Seq == end:
		return counts
	case d == Reply && w.refusesRival(s):
		return ignored
	case after(s.Seq, edge+1) || after(lowest, s.Seq):
		return outside
	case st.state() == Established || st.state() == HalfClosed && after(s.Seq, end):
		return ignored // one side has closed, but the other may go on for hours: nothing that was not sent so far ends that
	}
	return counts
}

// refuse deals with RST before the handshake is complete: what is about another connection is forwarded, for it may clear the
// way for this one.
func (w *windows) refuse(d Direction, s *packet.Segment) effect {
	own, other := &w.of[d&1], &w.of[d.Other()&1]
	first, peer := own.first.Load(), other.first.Load()
	_, ownWindow := unpack(own.sent.Load())
	_, peerWindow := unpack(other.sent.Load())
	edge, acked := unpack(other.grant.Load())
	switch {
	case ownWindow == 0 && peerWindow == 0:
		return counts // neither SYN was seen
	case ownWindow != 0 && acknowledges(s.Seq, first):
		return counts // at the beginning of what it has sent
	case peerWindow != 0 && s.Flags&flagACK != 0 && acknowledges(s.Ack, peer):
		return counts // the answer to a SYN of the peer
	case w.known() && !after(s.Seq, edge) && !after(acked, s.Seq):
		return counts
	}
	return ignored
}

// refusesRival reports whether RST answers the rival SYN: the backend knows neither the old connection nor wants the new one.
// The client believes it if the rival is its own. If it is forged, the connection goes on; so the flow does in either
// case, until it is silent or a SYN-ACK comes.
func (w *windows) refusesRival(s *packet.Segment) bool {
	end, rival := unpack(w.rival.Load())
	return rival != 0 && s.Flags&flagACK != 0 && acknowledges(s.Ack, end)
}
