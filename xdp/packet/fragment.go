package packet

import "encoding/binary"

// FragmentHeader is what a fragment says of its place in its datagram (RFC 791 section 3.1, RFC 8200 section 4.5).
type FragmentHeader struct {
	ID     uint32 // of the datagram: 16 bits for IPv4, 32 for IPv6
	Offset int    // of its first byte in the datagram, in bytes, a multiple of 8
	Size   int    // bytes of the datagram that it carries
	More   bool   // it is not the last one
	at     int    // offset in the frame of the fragment fields: IPv4 header, or IPv6 fragment header
}

// End returns the offset behind the last byte that the fragment carries.
func (h *FragmentHeader) End() int { return h.Offset + h.Size }

// maxDatagram is the length of the longest datagram that can be put together: for IPv4 with its header, for IPv6 with the extension
// headers in front of the fragment header, which is what their length fields count (RFC 791 section 3.1, RFC 8200 section 3).
const maxDatagram = 65535

// ReadFragment reads where a fragment that Parse has taken lies in its datagram. ok is false when there cannot be such a
// fragment: one that is empty, ends beyond the longest datagram, or is not the last and not a multiple of eight bytes long.
func ReadFragment(frame []byte, in *Info) (h FragmentHeader, ok bool) {
	if in.Family == 4 {
		b := frame[in.L3:]
		field := binary.BigEndian.Uint16(b[6:])
		h = FragmentHeader{ID: uint32(binary.BigEndian.Uint16(b[4:])), Offset: int(field&0x1fff) * 8, More: field&0x2000 != 0,
			at: in.L3, Size: in.End - in.L3 - int(b[0]&15)*4}
	} else if h, ok = readFragment6(frame, in); !ok {
		return h, false
	}
	return h, h.Size > 0 && headersOf(in, &h)+h.End() <= maxDatagram && (!h.More || h.Size%8 == 0)
}

// headersOf returns how many bytes of headers count for the length of the datagram that a fragment is of.
func headersOf(in *Info, h *FragmentHeader) int {
	if in.Family == 4 {
		return in.End - in.L3 - h.Size
	}
	return h.at - in.L3 - IPv6Len
}

// readFragment6 finds the fragment header, in front of which others may lie.
func readFragment6(frame []byte, in *Info) (h FragmentHeader, ok bool) {
	next, at := frame[in.L3+6], in.L3+IPv6Len
	for range maxExtensions {
		if at+8 > in.End {
			return h, false
		}
		b := frame[at:in.End]
		switch next {
		case extFragment:
			field := binary.BigEndian.Uint16(b[2:])
			return FragmentHeader{ID: binary.BigEndian.Uint32(b[4:]), Offset: int(field &^ 7), More: field&1 != 0, at: at,
				Size: len(b) - 8}, true
		case extHopByHop, extRouting, extDestination:
			next, at = b[0], at+8+int(b[1])*8
		default:
			return h, false
		}
	}
	return h, false
}

// SetFragmentID gives the fragment another datagram's number, of which IPv4 takes the lower half, and updates the IPv4 header
// checksum. h, which ReadFragment has read from the same frame, follows.
func SetFragmentID(frame []byte, in *Info, h *FragmentHeader, id uint32) {
	if in.Family == 6 {
		binary.BigEndian.PutUint32(frame[h.at+4:], id)
		h.ID = id
		return
	}
	setID4(frame[h.at:], uint16(id))
	h.ID = id & 0xffff
}

// SetIPv4ID gives an IPv4 packet that is no fragment another identification, and updates the header checksum.
func SetIPv4ID(frame []byte, in *Info, id uint16) { setID4(frame[in.L3:], id) }

// setID4 writes the identification of an IPv4 header.
func setID4(b []byte, id uint16) {
	check := Delta(0).Port(binary.BigEndian.Uint16(b[4:]), id).Apply(binary.BigEndian.Uint16(b[10:]))
	binary.BigEndian.PutUint16(b[4:], id)
	binary.BigEndian.PutUint16(b[10:], check)
}

// PiecesOf returns how many packets of at most mtu bytes an IPv4 packet has to be cut into, and how many bytes of its payload
// each but the last carries; n is 0 when that is not possible: the packet is not IPv4, must not be fragmented, or the MTU has
// no room for eight bytes of payload.
func PiecesOf(in *Info, mtu int) (n, each int) {
	header, payload := in.L4-in.L3, in.End-in.L4
	if in.Family != 4 || in.DF {
		return 0, 0
	}
	if each = (mtu - header) &^ 7; each < 8 {
		return 0, 0
	}
	return (payload + each - 1) / each, each
}

// CopyPiece builds in dst, from its first byte, piece number i of the IPv4 packet in frame as PiecesOf cuts it, link header
// included, and returns its length; 0 when dst has not the room. Options that only the first fragment is to have (RFC 791
// section 3.1, the copied flag) are replaced by no-operation options in the others. Piece 0 is for CutFirst.
func CopyPiece(dst, frame []byte, in *Info, i, each int) int {
	from, to := in.L4+i*each, min(in.L4+(i+1)*each, in.End)
	size := in.L4 + to - from
	if from >= to || size > len(dst) {
		return 0
	}
	copy(dst, frame[:in.L4])
	copy(dst[in.L4:], frame[from:to])
	clearUncopied(dst[in.L3+IPv4Len : in.L4])
	setPiece(dst[in.L3:], in.L4-in.L3, to-from, i*each, to < in.End)
	return size
}

// CutFirst shortens the IPv4 packet in frame to its first piece. in follows.
func CutFirst(frame []byte, in *Info, each int) {
	setPiece(frame[in.L3:], in.L4-in.L3, each, 0, true)
	in.End = in.L4 + each
}

// setPiece makes an IPv4 header, a copy of that of the packet that is cut, the header of a piece: offset counts from the
// packet's own first byte, which may itself be in the middle of a datagram.
func setPiece(ip []byte, header, payload, offset int, more bool) {
	field := binary.BigEndian.Uint16(ip[6:]) + uint16(offset/8)
	if more {
		field |= 0x2000
	}
	binary.BigEndian.PutUint16(ip[2:], uint16(header+payload))
	binary.BigEndian.PutUint16(ip[6:], field)
	ip[10], ip[11] = 0, 0
	binary.BigEndian.PutUint16(ip[10:], ^Sum(ip[:header], 0))
}

// IPv4 options (RFC 791 section 3.1).
const (
	optEnd    = 0
	optNop    = 1
	optCopied = 0x80
)

// clearUncopied replaces options without the copied flag by no-operations. One that is cut short is left with what follows.
func clearUncopied(options []byte) {
	for i := 0; i < len(options) && options[i] != optEnd; {
		if options[i] == optNop {
			i++
			continue
		}
		if i+1 >= len(options) || options[i+1] < 2 || i+int(options[i+1]) > len(options) {
			return
		}
		size := int(options[i+1])
		if options[i]&optCopied == 0 {
			for j := range size {
				options[i+j] = optNop
			}
		}
		i += size
	}
}
