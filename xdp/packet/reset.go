package packet

import "encoding/binary"

// BuildReset turns the TCP segment buf[start:end], which in describes, into the RST that answers it, in place: back by
// the way it came, from the address and port that it was sent to. MAC addresses are swapped, VLAN tags stay, options and
// extension headers go. Its numbers are exact, so that the sender takes it whatever its window is (RFC 9293 section
// 3.10.7.1, RFC 5961 section 3.2): a segment with ACK is answered with its own acknowledgement number as sequence number;
// one without, such as a SYN, with sequence number 0 and an acknowledgement of all that it occupies.
//
// It returns the new start and end. ok is false, and nothing is changed, when no RST may answer: to a RST, to what is no
// whole TCP segment. The caller has verified the segment's checksums, and that both addresses are hosts' (MayAnswer).
func BuildReset(buf []byte, start, end int, in *Info) (newStart, newEnd int, ok bool) {
	if !isSegment(in) || in.TCPFlags&TCPRst != 0 {
		return start, end, false
	}
	frame := buf[start:end]
	s := Spec{Tuple: in.Tuple.Reverse(), DF: true, TCPFlags: TCPRst}
	if in.TCPFlags&TCPAck != 0 {
		s.Seq = binary.BigEndian.Uint32(frame[in.L4+8:])
	} else {
		s.TCPFlags |= TCPAck
		s.Ack = binary.BigEndian.Uint32(frame[in.L4+4:]) + segmentLen(frame, in)
	}
	swapMACs(frame)
	return start, start + writeSegment(frame, in, &s), true
}

// PassReset turns a TCP segment that is no RST into the RST that its sender would have sent instead of it, in place: the
// same addresses, ports, numbers and TTL, without data and options. Its sequence number is the one that the receiver expects
// next if it has all that came before, so that the receiver takes it at once; otherwise it answers with an ACK of what it
// expects (RFC 5961 section 3.2), which BuildReset answers. in follows.
//
// It returns the new end. ok is false, and nothing is changed, for a RST and for what is no whole TCP segment. The caller
// has verified the segment's checksums.
func PassReset(buf []byte, start, end int, in *Info) (newEnd int, ok bool) {
	if !isSegment(in) || in.TCPFlags&TCPRst != 0 {
		return end, false
	}
	frame := buf[start:end]
	s := Spec{Tuple: in.Tuple, TTL: in.TTL, DF: true, TCPFlags: TCPRst | in.TCPFlags&TCPAck,
		Seq: binary.BigEndian.Uint32(frame[in.L4+4:])}
	if s.TCPFlags&TCPAck != 0 {
		s.Ack = binary.BigEndian.Uint32(frame[in.L4+8:])
	}
	newEnd = start + writeSegment(frame, in, &s)
	Parse(buf[start:newEnd], in)
	return newEnd, true
}

// isSegment reports whether in describes a whole TCP segment.
func isSegment(in *Info) bool {
	return in.Proto == ProtoTCP && in.HasPorts && in.Fragment == NotFragment
}

// segmentLen is how much of the sequence space a segment occupies: its data, SYN and FIN (RFC 9293 section 3.4).
func segmentLen(frame []byte, in *Info) uint32 {
	n := in.End - in.L4 - int(frame[in.L4+12]>>4)*4
	if in.TCPFlags&TCPSyn != 0 {
		n++
	}
	if in.TCPFlags&TCPFin != 0 {
		n++
	}
	return uint32(n)
}

// writeSegment writes a packet without data behind the link-layer header of frame, which holds a TCP segment, and returns
// the length of the frame. A frame that was long enough for Ethernet stays so.
func writeSegment(frame []byte, in *Info, s *Spec) int {
	header := IPv4Len
	if in.Family == 6 {
		header = IPv6Len
	}
	b := frame[in.L3 : in.L3+header+TCPLen]
	writeTransport(b[header:], s)
	if in.Family == 6 {
		writeIPv6(b, s)
	} else {
		writeIPv4(b, s)
	}
	out := Info{Tuple: s.Tuple, Family: in.Family, Proto: ProtoTCP, L4: header, End: len(b)}
	Complete(b, &out)
	end := in.L3 + len(b)
	padded := max(end, min(len(frame), minEthernet))
	clear(frame[end:padded])
	return padded
}

// minEthernet is the length of the shortest Ethernet frame, without its checksum.
const minEthernet = 60
