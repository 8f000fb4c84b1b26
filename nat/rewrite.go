package nat

import (
	"encoding/binary"

	"sluice/xdp/packet"
)

// ChecksumMode says how transport checksums are brought up to date.
type ChecksumMode uint8

const (
	// Auto updates by difference, and completes in full where the packet came with the pseudo-header sum only. One
	// valid packet in 65536 looks like that by chance; completing it gives what it had. A packet that looks like that
	// and was damaged on its way leaves with a checksum that hides the damage, as it would behind a network card that
	// completes.
	Auto ChecksumMode = iota
	// Incremental always updates by difference (RFC 1624).
	Incremental
	// Full always computes the checksum anew.
	Full
)

// Rewrite changes addresses and ports of the packet in place, so that it carries to instead of in.Tuple, of the same
// family and protocol. For ICMP echo the identifier becomes to.SrcPort. in.Tuple follows. The packet has ports
// (Info.HasPorts): it is whole, or a first fragment. SCTP is whole, and the caller has verified its checksum, which cannot be
// updated by difference: a damaged packet must not come to look sound.
func Rewrite(frame []byte, in *packet.Info, to *packet.Tuple, mode ChecksumMode) {
	// The checksum of a fragment covers what is in others too, and no sender leaves it to its network card.
	anew := in.Fragment == packet.NotFragment && (mode == Full || mode == Auto && packet.IsPartial(frame, in))
	addrs := addrDelta(&in.Tuple, to)
	writeAddrs(frame, in.L3, in.Family, to, addrs)
	l4 := frame[in.L4:in.End]
	delta := portDelta(&in.Tuple, to, in.Proto)
	writePorts(l4, in.Proto, to)
	if in.Proto != packet.ProtoICMP {
		delta += addrs // the pseudo-header; ICMP over IPv4 has none
	}
	moved := in.Tuple.SrcPort != to.SrcPort || in.Tuple.DstPort != to.DstPort
	in.Tuple = *to
	if in.Proto == packet.ProtoSCTP {
		if moved || mode != Incremental && packet.LacksSCTPSum(frame, in) {
			packet.Complete(frame, in)
		}
		return
	}
	if anew && !(in.Proto == packet.ProtoUDP && noChecksum(l4)) {
		packet.Complete(frame, in)
		return
	}
	updateL4(l4, in.Proto, delta)
	if in.Proto == packet.ProtoICMP && l4[2]|l4[3] == 0 {
		packet.Complete(frame, in) // an echo reply of zeros only is where a difference gives the wrong zero
	}
}

// RewriteAddrs changes the addresses of a fragment without ports in place. in.Tuple follows.
func RewriteAddrs(frame []byte, in *packet.Info, src, dst packet.Addr) {
	to := packet.Tuple{Src: src, Dst: dst, Proto: in.Proto}
	writeAddrs(frame, in.L3, in.Family, &to, addrDelta(&in.Tuple, &to))
	in.Tuple = to
}

// noChecksum reports whether a UDP header says that there is no checksum (RFC 768).
func noChecksum(udp []byte) bool { return udp[6]|udp[7] == 0 }

// addrDelta is the change of both addresses.
func addrDelta(from, to *packet.Tuple) packet.Delta {
	return packet.Delta(0).Addr(from.Src, to.Src).Addr(from.Dst, to.Dst)
}

// portDelta is the change of both ports, or of the one identifier.
func portDelta(from, to *packet.Tuple, proto uint8) packet.Delta {
	d := packet.Delta(0).Port(from.SrcPort, to.SrcPort)
	if proto == packet.ProtoTCP || proto == packet.ProtoUDP {
		d = d.Port(from.DstPort, to.DstPort)
	}
	return d
}

// writeAddrs writes both addresses into the IP header at l3, and updates the IPv4 header checksum.
func writeAddrs(frame []byte, l3 int, family uint8, to *packet.Tuple, d packet.Delta) {
	if family == 4 {
		h := frame[l3 : l3+packet.IPv4Len]
		binary.BigEndian.PutUint32(h[12:], to.Src.V4())
		binary.BigEndian.PutUint32(h[16:], to.Dst.V4())
		binary.BigEndian.PutUint16(h[10:], d.Apply(binary.BigEndian.Uint16(h[10:])))
		return
	}
	h := frame[l3 : l3+packet.IPv6Len]
	binary.BigEndian.PutUint64(h[8:], to.Src.Hi)
	binary.BigEndian.PutUint64(h[16:], to.Src.Lo)
	binary.BigEndian.PutUint64(h[24:], to.Dst.Hi)
	binary.BigEndian.PutUint64(h[32:], to.Dst.Lo)
}

// writePorts writes the ports, or the identifier of an echo, into the transport header.
func writePorts(l4 []byte, proto uint8, to *packet.Tuple) {
	switch proto {
	case packet.ProtoTCP, packet.ProtoUDP, packet.ProtoSCTP:
		binary.BigEndian.PutUint16(l4, to.SrcPort)
		binary.BigEndian.PutUint16(l4[2:], to.DstPort)
	case packet.ProtoICMP, packet.ProtoICMPv6:
		binary.BigEndian.PutUint16(l4[4:], to.SrcPort)
	}
}

// updateL4 applies the change to the transport checksum, if it is there: a quoted packet may end before it.
func updateL4(l4 []byte, proto uint8, d packet.Delta) {
	at := 0
	switch proto {
	case packet.ProtoTCP:
		at = 16
	case packet.ProtoUDP:
		at = 6
	case packet.ProtoICMP, packet.ProtoICMPv6:
		at = 2
	default:
		return
	}
	if len(l4) < at+2 || proto == packet.ProtoUDP && noChecksum(l4) {
		return
	}
	check := d.Apply(binary.BigEndian.Uint16(l4[at:]))
	if check == 0 && proto == packet.ProtoUDP {
		check = 0xffff // RFC 768: zero would say that there is none
	}
	binary.BigEndian.PutUint16(l4[at:], check)
}
