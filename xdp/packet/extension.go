package packet

import "encoding/binary"

// IPv6 extension headers (IANA protocol numbers; RFC 8200 section 4). AH (RFC 4302) is none of them here: it vouches for the
// addresses, so that nothing behind it can be translated.
const (
	extHopByHop    = 0
	extRouting     = 43
	extFragment    = 44
	extDestination = 60
)

func isExtension(proto uint8) bool {
	switch proto {
	case extHopByHop, extRouting, extFragment, extDestination:
		return true
	}
	return false
}

// skipExtensions walks the chain of extension headers and leaves L4 and Proto at what follows it. It stops at a
// routing header with segments left: such a packet is on its way to another address than the one it shows, and its
// checksum is made for that one, so it is of no flow (RFC 8200 sections 4.4 and 8.1). It also stops after maxExtensions
// headers, and Proto is then the next one's: see TooManyHeaders.
func skipExtensions(frame []byte, in *Info) Status {
	in.Options = true
	for range maxExtensions {
		if !isExtension(in.Proto) || in.Fragment == LaterFragment {
			return OK
		}
		if in.L4+8 > in.End {
			return Malformed
		}
		b := frame[in.L4:in.End]
		size := 8 + int(b[1])*8
		if in.Proto == extFragment {
			size = 8
			field := binary.BigEndian.Uint16(b[2:])
			in.setFragment(field>>3, field&1 != 0)
		}
		if size > len(b) {
			return Malformed
		}
		if in.Proto == extRouting && b[3] != 0 {
			return OK
		}
		in.Proto = b[0]
		in.L4 += size
	}
	return OK
}

// TooManyHeaders reports whether an IPv6 packet has more extension headers than are followed, so that its transport is not known.
// RFC 8504 section 5.3 lets a host discard what is beyond a limit of 8.
func (in *Info) TooManyHeaders() bool {
	return in.Family == 6 && in.Fragment != LaterFragment && in.Proto != extRouting && isExtension(in.Proto)
}
