package packet

import (
	"encoding/binary"
	"math/bits"
)

// Sum adds the 16-bit words of b, in network order, to a ones' complement sum and returns the sum folded to 16 bits.
// An odd last byte counts as the high half of a word (RFC 1071).
func Sum(b []byte, initial uint32) uint16 {
	return fold64(uint64(initial) + uint64(bits.ReverseBytes16(fold64(sumBytes(b)))))
}

// sumBytes adds b as little-endian words of eight bytes with the carry brought round. Ones' complement addition does
// not care about the size of a word, and about the order of its bytes only in that the sum comes out swapped (RFC
// 1071 section 2).
func sumBytes(b []byte) uint64 {
	var sum, carry uint64
	for len(b) >= 32 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[8:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[16:]), carry)
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b[24:]), carry)
		b = b[32:]
	}
	for len(b) >= 8 {
		sum, carry = bits.Add64(sum, binary.LittleEndian.Uint64(b), carry)
		b = b[8:]
	}
	sum, carry = bits.Add64(sum, tail(b), carry)
	return sum + carry // which does not wrap again: the tail is less than 2^56
}

// tail returns up to seven bytes as the low bytes of an eight-byte word.
func tail(b []byte) uint64 {
	var t uint64
	for i, c := range b {
		t |= uint64(c) << (8 * i)
	}
	return t
}

// fold64 folds a sum to 16 bits with the carries brought round. The upper half of a number added to itself with its
// halves swapped is just that: the sum of the halves, and the carry of the lower half added. Only 0 gives 0.
func fold64(s uint64) uint16 {
	half := uint32((s + bits.RotateLeft64(s, 32)) >> 32)
	return uint16((half + bits.RotateLeft32(half, 16)) >> 16)
}

// Delta is the ones' complement difference between what a packet was and what it becomes, for updating checksums
// without reading the packet (RFC 1624). The zero value changes nothing.
type Delta uint64

// Port adds the change of a 16-bit field.
func (d Delta) Port(from, to uint16) Delta { return d + Delta(^from) + Delta(to) }

// Addr adds the change of an address. Both are of one family; the mapped form of IPv4 adds nothing of its own, since
// it is the same in both.
func (d Delta) Addr(from, to Addr) Delta {
	return d + Delta(halves(^from.Hi)+halves(^from.Lo)+halves(to.Hi)+halves(to.Lo))
}

// halves adds the two 32-bit halves of a word: enough room to add billions of them before the sum is folded.
func halves(w uint64) uint64 { return w>>32 + w&0xffffffff }

// Apply returns the checksum updated by d: HC' = ~(~HC + ~m + m') (RFC 1624 equation 3). That never gives 0xffff,
// which is right for all but one packet: one of zeros only.
func (d Delta) Apply(check uint16) uint16 { return ^fold64(uint64(^check) + uint64(d)) }

// pseudo is the sum of the pseudo-header for a transport header and payload of a length (RFC 9293 section 3.1, RFC
// 8200 section 8.1).
func pseudo(in *Info, length int) uint16 {
	t := &in.Tuple
	s := uint64(in.Proto) + uint64(length)
	if in.Family == 4 {
		s += uint64(t.Src.V4()) + uint64(t.Dst.V4())
	} else {
		s += halves(t.Src.Hi) + halves(t.Src.Lo) + halves(t.Dst.Hi) + halves(t.Dst.Lo)
	}
	return fold64(s)
}

// checksumAt returns where the transport checksum of a packet lies in the frame; ok is false when it has none that we
// know, when it covers more than this frame (a fragment), or lies behind the end (in a quote that was cut off).
func checksumAt(in *Info) (at int, ok bool) {
	switch in.Proto {
	case ProtoTCP:
		at = in.L4 + 16
	case ProtoUDP:
		at = in.L4 + 6
	case icmpProto(in.Family):
		at = in.L4 + 2
	default:
		return 0, false
	}
	return at, in.Fragment == NotFragment && at+2 <= in.End
}

// covered returns how many bytes from L4 on the transport checksum covers. UDP has a length of its own, behind which
// an IP packet may go on. The UDP header must lie within the packet.
func covered(frame []byte, in *Info) int {
	n := in.End - in.L4
	if in.Proto == ProtoUDP {
		n = min(n, int(binary.BigEndian.Uint16(frame[in.L4+4:])))
	}
	return n
}

// sumL4 is the sum of all that the transport checksum covers, which for ICMP over IPv4 is no pseudo-header.
func sumL4(frame []byte, in *Info) uint16 {
	n := covered(frame, in)
	initial := uint32(0)
	if in.Proto != ProtoICMP {
		initial = uint32(pseudo(in, n))
	}
	return Sum(frame[in.L4:in.L4+n], initial)
}

// VerifyIP reports whether the IPv4 header checksum is right; IPv6 has none.
func VerifyIP(frame []byte, in *Info) bool {
	if in.Family != 4 {
		return true
	}
	return Sum(frame[in.L3:in.L3+int(frame[in.L3]&15)*4], 0) == 0xffff
}

// VerifyL4 reports whether the transport checksum of a whole packet is right; of a fragment, or of a protocol that is
// not known here, it is taken to be. UDP over IPv4 may go without one (RFC 768); over IPv6 it may not (RFC 8200
// section 8.1).
func VerifyL4(frame []byte, in *Info) bool {
	if isWholeSCTP(in) {
		return verifySCTP(frame, in)
	}
	at, ok := checksumAt(in)
	if !ok {
		return true
	}
	if in.Proto == ProtoUDP && binary.BigEndian.Uint16(frame[at:]) == 0 {
		return in.Family == 4
	}
	return sumL4(frame, in) == 0xffff
}

// IsPartial reports whether the transport checksum holds the folded sum of the pseudo-header alone, which is what a
// sender leaves there when its network card is to complete it. A veth or virtio device hands such packets over as
// they are. One in 65536 of other packets looks the same.
func IsPartial(frame []byte, in *Info) bool {
	at, ok := checksumAt(in)
	return ok && in.Proto != ProtoICMP && binary.BigEndian.Uint16(frame[at:]) == pseudo(in, covered(frame, in))
}

// Complete writes the transport checksum in full. It leaves fragments as they are.
func Complete(frame []byte, in *Info) {
	if isWholeSCTP(in) {
		completeSCTP(frame, in)
		return
	}
	at, ok := checksumAt(in)
	if !ok {
		return
	}
	frame[at], frame[at+1] = 0, 0
	check := ^sumL4(frame, in)
	if check == 0 && in.Proto == ProtoUDP {
		check = 0xffff // RFC 768: zero means that there is none
	}
	binary.BigEndian.PutUint16(frame[at:], check)
}

// DecrementTTL takes one off the TTL or hop limit, which must not be 0, and updates the IPv4 header checksum. in
// follows.
func DecrementTTL(frame []byte, in *Info) { setTTL(frame, in, in.TTL-1) }

// setTTL writes a TTL or hop limit, and updates the IPv4 header checksum.
func setTTL(frame []byte, in *Info, ttl uint8) {
	in.TTL = ttl
	if in.Family == 6 {
		frame[in.L3+7] = ttl
		return
	}
	h := frame[in.L3 : in.L3+IPv4Len]
	was := binary.BigEndian.Uint16(h[8:])
	h[8] = ttl
	check := Delta(0).Port(was, binary.BigEndian.Uint16(h[8:])).Apply(binary.BigEndian.Uint16(h[10:]))
	binary.BigEndian.PutUint16(h[10:], check)
}
