package packet

import "encoding/binary"

// Segment is what of a TCP header says where a segment lies in its connection (RFC 9293 section 3.1).
type Segment struct {
	Seq, Ack      uint32
	Len           uint32 // sequence numbers that it takes: bytes of payload, and one each for SYN and FIN
	Window        uint16 // as in the header, not scaled
	Flags         uint8
	Scales        bool  // the window scale option is there; options are read on SYN only
	WScale        uint8 // its shift count, 0 to maxWScale; valid iff Scales
	SACKPermitted bool  // the SACK permitted option is there; as for Scales
}

// maxWScale is the largest shift count; a larger one counts as this (RFC 7323 section 2.3).
const maxWScale = 14

// TCP option kinds (IANA TCP option kind numbers).
const (
	tcpOptEnd    = 0
	tcpOptNop    = 1
	tcpOptWScale = 3 // length 3: shift count
	tcpOptSACK   = 4 // length 2
)

// End returns the first sequence number behind the segment.
func (s *Segment) End() uint32 { return s.Seq + s.Len }

// ReadSegment fills in s from the frame of which Parse made in. It is false when the frame does not have a whole segment:
// another protocol, or a fragment, which does not tell how long the segment is. It allocates nothing.
func ReadSegment(frame []byte, in *Info, s *Segment) bool {
	*s = Segment{}
	if in.Proto != ProtoTCP || !in.HasPorts || in.Fragment != NotFragment || in.End > len(frame) || in.L4 > in.End {
		return false
	}
	b := frame[in.L4:in.End]
	if len(b) < TCPLen {
		return false
	}
	header := int(b[12]>>4) * 4
	if header < TCPLen || header > len(b) {
		return false
	}
	s.Seq, s.Ack = binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	s.Flags, s.Window = b[13], binary.BigEndian.Uint16(b[14:])
	s.Len = uint32(len(b) - header)
	if s.Flags&TCPFin != 0 {
		s.Len++
	}
	if s.Flags&TCPSyn != 0 {
		s.Len++
		s.options(b[TCPLen:header])
	}
	return true
}

// options reads the options of a SYN. A list that is broken ends where it breaks, as it does for the receiver.
func (s *Segment) options(b []byte) {
	for len(b) > 0 {
		switch b[0] {
		case tcpOptEnd:
			return
		case tcpOptNop:
			b = b[1:]
			continue
		}
		if len(b) < 2 || b[1] < 2 || int(b[1]) > len(b) {
			return
		}
		switch {
		case b[0] == tcpOptWScale && b[1] == 3:
			s.Scales, s.WScale = true, min(b[2], maxWScale)
		case b[0] == tcpOptSACK && b[1] == 2:
			s.SACKPermitted = true
		}
		b = b[b[1]:]
	}
}
