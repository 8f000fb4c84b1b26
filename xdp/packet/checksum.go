package packet

import (
	"encoding/binary"
	"math/bits"
)

// Sum adds the 16-bit words of b, in network order, to a ones' complement sum and returns the sum folded to 16 bits. An odd
// last byte counts as the high half of a word (RFC 1071).
func Sum(b []byte, initial uint32) uint16 {
	// Eight bytes at a time with the carry brought round: ones' complement addition does not care about the word size.
	sum, carry := uint64(initial), uint64(0)
	for len(b) >= 8 {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
		b = b[8:]
	}
	sum, carry = bits.Add64(sum, tail(b), carry)
	sum += carry // cannot carry again: a sum that wrapped is smaller than 2^64-1
	return fold64(sum)
}

// tail returns up to seven bytes as the high bytes of an eight-byte word.
func tail(b []byte) uint64 {
	var t uint64
	for i, c := range b {
		t |= uint64(c) << (56 - 8*i)
	}
	return t
}

func fold64(s uint64) uint16 {
	s = s>>32 + s&0xffffffff
	s = s>>32 + s&0xffffffff
	return fold32(uint32(s))
}

func fold32(s uint32) uint16 {
	s = s>>16 + s&0xffff
	s = s>>16 + s&0xffff
	return uint16(s)
}

// Delta is the ones' complement difference between what a packet was and what it becomes, for updating checksums without
// reading the packet (RFC 1624). The zero value changes nothing.
type Delta uint64

// Port adds the change of a 16-bit field.
func (d Delta) Port(from, to uint16) Delta { return d + Delta(^from) + Delta(to) }

// Addr adds the change of an address. Both are of one family; the mapped form of IPv4 adds nothing of its own, since it is
// the same in both.
func (d Delta) Addr(from, to Addr) Delta {
	return d + Delta(sumWord(^from.Hi)) + Delta(sumWord(^from.Lo)) + Delta(sumWord(to.Hi)) + Delta(sumWord(to.Lo))
}

// sumWord adds the four 16-bit parts of a word.
func sumWord(w uint64) uint64 { return w>>48 + w>>32&0xffff + w>>16&0xffff + w&0xffff }

// Apply returns the checksum updated by d: HC' = ~(~HC + ~m + m') (RFC 1624 equation 3).
func (d Delta) Apply(check uint16) uint16 { return ^fold64(uint64(^check) + uint64(d)) }

// pseudo is the sum of the pseudo-header for the transport header and payload of in (RFC 9293 section 3.1, RFC 8200
// section 8.1), not folded.
func pseudo(in *Info) uint32 {
	t := &in.Tuple
	s := sumWord(t.Src.Hi) + sumWord(t.Dst.Hi)
	if in.Family == 4 {
		s += sumWord(uint64(t.Src.V4())) + sumWord(uint64(t.Dst.V4()))
	} else {
		s += sumWord(t.Src.Lo) + sumWord(t.Dst.Lo)
	}
	return uint32(s) + uint32(in.Proto) + uint32(in.End-in.L4)
}

// checksumAt returns where the transport checksum of a packet lies in the frame; ok is false when it has none that we know,
// or lies behind the end (in a quote that was cut off).
func checksumAt(in *Info) (at int, ok bool) {
	switch in.Proto {
	case ProtoTCP:
		at = in.L4 + 16
	case ProtoUDP:
		at = in.L4 + 6
	case ProtoICMP, ProtoICMPv6:
		at = in.L4 + 2
	default:
		return 0, false
	}
	return at, in.Fragment != LaterFragment && at+2 <= in.End
}

// covered is the initial sum of the transport checksum: the pseudo-header, but nothing for ICMP over IPv4.
func covered(in *Info) uint32 {
	if in.Proto == ProtoICMP {
		return 0
	}
	return pseudo(in)
}

// VerifyIP reports whether the IPv4 header checksum is right; IPv6 has none.
func VerifyIP(frame []byte, in *Info) bool {
	if in.Family != 4 {
		return true
	}
	return Sum(frame[in.L3:in.L3+int(frame[in.L3]&15)*4], 0) == 0xffff
}

// VerifyL4 reports whether the transport checksum of a whole packet is right. UDP over IPv4 may go without one
// (RFC 768); over IPv6 it may not (RFC 8200 section 8.1).
func VerifyL4(frame []byte, in *Info) bool {
	at, ok := checksumAt(in)
	if !ok {
		return true
	}
	if in.Proto == ProtoUDP && binary.BigEndian.Uint16(frame[at:]) == 0 {
		return in.Family == 4
	}
	return Sum(frame[in.L4:in.End], covered(in)) == 0xffff
}

// IsPartial reports whether the transport checksum holds the folded sum of the pseudo-header alone, which is what a sender
// leaves there when its network card is to complete it. A veth or virtio device hands such packets over as they are.
func IsPartial(frame []byte, in *Info) bool {
	if in.Proto != ProtoTCP && in.Proto != ProtoUDP && in.Proto != ProtoICMPv6 {
		return false
	}
	at, ok := checksumAt(in)
	return ok && binary.BigEndian.Uint16(frame[at:]) == fold32(pseudo(in))
}

// Complete writes the transport checksum in full.
func Complete(frame []byte, in *Info) {
	at, ok := checksumAt(in)
	if !ok {
		return
	}
	frame[at], frame[at+1] = 0, 0
	check := ^Sum(frame[in.L4:in.End], covered(in))
	if check == 0 && in.Proto == ProtoUDP {
		check = 0xffff // RFC 768: zero means that there is none
	}
	binary.BigEndian.PutUint16(frame[at:], check)
}

// DecrementTTL takes one off the TTL or hop limit, which must not be 0, and updates the IPv4 header checksum.
func DecrementTTL(frame []byte, in *Info) {
	in.TTL--
	if in.Family == 6 {
		frame[in.L3+7] = in.TTL
		return
	}
	h := frame[in.L3 : in.L3+IPv4Len]
	was := binary.BigEndian.Uint16(h[8:])
	h[8] = in.TTL
	check := Delta(0).Port(was, binary.BigEndian.Uint16(h[8:])).Apply(binary.BigEndian.Uint16(h[10:]))
	binary.BigEndian.PutUint16(h[10:], check)
}
