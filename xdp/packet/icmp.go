package packet

import "encoding/binary"

// How much of the packet an ICMP error quotes. RFC 1812 section 4.3.2.3: as much as fits into 576 bytes; RFC 4443
// section 2.4: as much as fits into the minimum MTU of 1280.
const (
	maxICMPv4Error = 576
	maxICMPv6Error = 1280
)

// Error is an ICMP error in the terms of either family.
type Error uint8

const (
	PortUnreachable Error = iota // type 3 code 3; ICMPv6 type 1 code 4
	HostUnreachable              // type 3 code 1; ICMPv6 type 1 code 3
	TimeExceeded                 // type 11 code 0; ICMPv6 type 3 code 0
	TooBig                       // type 3 code 4 with the MTU; ICMPv6 type 2 with the MTU
)

// typeCode returns the type and code of e in a family.
func (e Error) typeCode(family uint8) (t, code uint8) {
	if family == 4 {
		switch e {
		case HostUnreachable:
			return ICMPUnreachable, 1
		case TimeExceeded:
			return ICMPTimeExceeded, 0
		case TooBig:
			return ICMPUnreachable, 4
		}
		return ICMPUnreachable, 3
	}
	switch e {
	case HostUnreachable:
		return ICMPv6Unreachable, 3
	case TimeExceeded:
		return ICMPv6TimeExceeded, 0
	case TooBig:
		return ICMPv6TooBig, 0
	}
	return ICMPv6Unreachable, 4
}

// MayAnswer reports whether an ICMP error may be sent about the packet: not about an ICMP error, a later fragment,
// nor what was sent to or from an address that is not one host's, on either layer (RFC 1122 section 3.2.2, RFC 4443
// section 2.4). A broadcast address of a subnet cannot be told here.
func MayAnswer(frame []byte, in *Info) bool {
	if in.IsICMP() && isSilent(in.Family, in.ICMPType) || in.Fragment == LaterFragment || frame[0]&1 != 0 {
		return false
	}
	return IsHost(in.Tuple.Src) && IsHost(in.Tuple.Dst)
}

// isSilent reports whether no error may be sent about an ICMP type: the errors, among them those that are never
// translated (source quench, redirects), and the types of ICMPv6 that are set aside for errors yet unknown.
func isSilent(family, t uint8) bool {
	if family == 4 {
		return isICMPError(family, t) || t == ICMPSourceQuench || t == ICMPRedirect
	}
	return t < ICMPv6Echo || t == ICMPv6Redirect
}

// IsHost reports whether an address can be one host's: neither unspecified, loopback, multicast, nor IPv4 class E and
// broadcast.
func IsHost(a Addr) bool {
	if a.Is4() {
		first := a.V4() >> 24
		return first != 0 && first != 127 && first < 224
	}
	return a.Hi>>56 != 0xff && a != Addr{} && a != Addr{0, 1}
}

// IsLinkLocal6 reports whether an address is an IPv6 one that no router may pass on (RFC 4291 section 2.5.6).
func IsLinkLocal6(a Addr) bool { return a.Hi>>54 == 0xfe80>>6 }

// BuildError turns the packet buf[start:end], which in describes, into an ICMP error about itself, from src to its
// sender, in place: it needs up to 48 bytes in front of start. MAC addresses are swapped, VLAN tags stay. mtu is for
// TooBig. It returns the new start and end; ok is false when there is no room in front.
func BuildError(buf []byte, start, end int, in *Info, e Error, src Addr, mtu uint16) (newStart, newEnd int, ok bool) {
	header, limit := IPv4Len+ICMPLen, maxICMPv4Error
	if in.Family == 6 {
		header, limit = IPv6Len+ICMPLen, maxICMPv6Error
	}
	if start < header {
		return start, end, false
	}
	quoted := min(in.End-in.L3, limit-header)
	link := in.L3 // bytes of Ethernet header and tags
	newStart = start - header
	copy(buf[newStart:], buf[start:start+link])
	swapMACs(buf[newStart:])
	newEnd = newStart + link + header + quoted
	s := Spec{Tuple: Tuple{Src: src, Dst: in.Tuple.Src, Proto: icmpProto(in.Family)}}
	s.ICMPType, s.ICMPCode = e.typeCode(in.Family)
	b := buf[newStart+link : newEnd]
	writeTransport(b[header-ICMPLen:], &s)
	if in.Family == 4 {
		binary.BigEndian.PutUint16(b[header-2:], mtuFor(e, mtu))
		writeIPv4(b, &s)
	} else {
		binary.BigEndian.PutUint32(b[header-4:], uint32(mtuFor(e, mtu)))
		writeIPv6(b, &s)
	}
	out := Info{Tuple: s.Tuple, Family: in.Family, Proto: s.Tuple.Proto, L4: header - ICMPLen, End: len(b)}
	Complete(b, &out)
	return newStart, newEnd, true
}

// mtuFor is the MTU field of an error: zero in all but TooBig.
func mtuFor(e Error, mtu uint16) uint16 {
	if e == TooBig {
		return mtu
	}
	return 0
}

func swapMACs(frame []byte) { swap(frame, frame[6:], 6) }

// swap exchanges the first n bytes, 16 at most, of a and b, which do not overlap there.
func swap(a, b []byte, n int) {
	var was [16]byte
	copy(was[:n], a)
	copy(a[:n], b)
	copy(b[:n], was[:n])
}

// EchoReply turns an echo request, which is no fragment, into its reply, in place: addresses swapped on both layers,
// type changed, TTL 64. in follows.
func EchoReply(frame []byte, in *Info) {
	swapMACs(frame)
	if in.Family == 4 {
		swap(frame[in.L3+12:], frame[in.L3+16:], 4)
	} else {
		swap(frame[in.L3+8:], frame[in.L3+24:], 16)
	}
	in.Tuple = in.Tuple.Reverse()
	setTTL(frame, in, 64)

	h := frame[in.L4 : in.L4+ICMPLen]
	was := binary.BigEndian.Uint16(h)
	in.ICMPType = ICMPEchoReply
	if in.Family == 6 {
		in.ICMPType = ICMPv6EchoReply
	}
	h[0] = in.ICMPType
	check := Delta(0).Port(was, binary.BigEndian.Uint16(h)).Apply(binary.BigEndian.Uint16(h[2:]))
	binary.BigEndian.PutUint16(h[2:], check)
	if check == 0 {
		Complete(frame, in) // a reply of zeros only is where a difference gives the wrong zero
	}
}
