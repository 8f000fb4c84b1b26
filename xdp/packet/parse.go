package packet

import "encoding/binary"

// EtherTypes (IEEE 802 numbers).
const (
	etherIPv4 = 0x0800
	etherIPv6 = 0x86dd
	etherVLAN = 0x8100 // 802.1Q
	etherQinQ = 0x88a8 // 802.1ad
)

// Header lengths in bytes.
const (
	EthernetLen = 14
	VLANLen     = 4
	IPv4Len     = 20 // without options
	IPv6Len     = 40
	TCPLen      = 20 // without options
	UDPLen      = 8
	ICMPLen     = 8 // ICMP and ICMPv6, as far as every message of theirs has it
)

// maxVLANs and maxExtensions bound what a parse walks through.
const (
	maxVLANs      = 2
	maxExtensions = 8
)

// TCP flags (RFC 9293 section 3.1).
const (
	TCPFin = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
)

// Status says what Parse made of a frame. The zero value is the safe one.
type Status uint8

const (
	// Malformed: lengths or versions contradict each other. The Info is of no use.
	Malformed Status = iota
	// OK: an IP packet. Tuple has ports only when Info.HasPorts.
	OK
	// NotIP: ARP, LLDP and the like.
	NotIP
)

// Fragment says which part of a datagram a packet carries.
type Fragment uint8

const (
	NotFragment   Fragment = iota
	FirstFragment          // has the transport header, and more fragments follow
	LaterFragment          // has no transport header
)

// Info is where things are in a frame. Offsets count from the first byte of the Ethernet header.
type Info struct {
	Tuple     Tuple    // addresses, protocol, and ports when HasPorts
	L3        int      // IP header
	L4        int      // first byte behind the IP header and its extension headers
	End       int      // first byte behind the IP packet; what follows is padding of the link layer
	VLANs     int      // tags, 0 to 2
	VLAN      uint16   // TCI of the outer tag; valid iff VLANs > 0
	Family    uint8    // 4 or 6
	Proto     uint8    // transport protocol behind extension headers
	TTL       uint8    // or hop limit
	TOS       uint8    // or traffic class
	DF        bool     // IPv4: must not be fragmented; true for every IPv6 packet
	Options   bool     // IPv4 options or IPv6 extension headers are there
	Fragment  Fragment // which part of a datagram
	HasPorts  bool     // TCP, UDP, SCTP, or ICMP echo: Tuple has ports (for echo the identifier, twice)
	TCPFlags  uint8    // valid iff Proto is TCP and HasPorts
	ICMPType  uint8    // valid iff IsICMP
	ICMPCode  uint8    // valid iff IsICMP
	ICMPError bool     // an ICMP or ICMPv6 error message, which quotes a packet
}

// Parse fills in from an Ethernet frame. It resets in first and allocates nothing.
func Parse(frame []byte, in *Info) Status {
	*in = Info{}
	if len(frame) < EthernetLen {
		return Malformed
	}
	etherType := binary.BigEndian.Uint16(frame[12:])
	l3 := EthernetLen
	for etherType == etherVLAN || etherType == etherQinQ {
		if in.VLANs == maxVLANs {
			return NotIP
		}
		if len(frame) < l3+VLANLen {
			return Malformed
		}
		if in.VLANs == 0 {
			in.VLAN = binary.BigEndian.Uint16(frame[l3:])
		}
		etherType = binary.BigEndian.Uint16(frame[l3+2:])
		in.VLANs++
		l3 += VLANLen
	}
	in.L3 = l3
	switch etherType {
	case etherIPv4:
		return parseIPv4(frame, in, whole)
	case etherIPv6:
		return parseIPv6(frame, in, whole)
	}
	return NotIP
}

// extent says how much of a packet must be there: a packet off the wire whole, a quoted one only its first bytes.
type extent bool

const (
	whole  extent = false
	quoted extent = true
)

func parseIPv4(frame []byte, in *Info, how extent) Status {
	b := frame[in.L3:]
	if len(b) < IPv4Len || b[0]>>4 != 4 {
		return Malformed
	}
	headerLen, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if headerLen < IPv4Len || len(b) < headerLen || total < headerLen {
		return Malformed
	}
	if total > len(b) {
		if how == whole {
			return Malformed
		}
		total = len(b)
	}
	in.Family, in.TOS, in.TTL, in.Proto = 4, b[1], b[8], b[9]
	in.Options = headerLen > IPv4Len
	in.L4, in.End = in.L3+headerLen, in.L3+total
	in.Tuple.Src = Addr4(binary.BigEndian.Uint32(b[12:]))
	in.Tuple.Dst = Addr4(binary.BigEndian.Uint32(b[16:]))
	frag := binary.BigEndian.Uint16(b[6:])
	in.DF = frag&0x4000 != 0
	in.setFragment(frag&0x1fff, frag&0x2000 != 0)
	return parseL4(frame, in, how)
}

// setFragment classifies by the offset and the more-fragments flag.
func (in *Info) setFragment(offset uint16, more bool) {
	switch {
	case offset != 0:
		in.Fragment = LaterFragment
	case more:
		in.Fragment = FirstFragment
	}
}

func parseIPv6(frame []byte, in *Info, how extent) Status {
	b := frame[in.L3:]
	if len(b) < IPv6Len || b[0]>>4 != 6 {
		return Malformed
	}
	total := IPv6Len + int(binary.BigEndian.Uint16(b[4:]))
	if total > len(b) {
		if how == whole {
			return Malformed
		}
		total = len(b)
	}
	in.Family, in.DF = 6, true
	in.TOS = b[0]<<4 | b[1]>>4
	in.Proto, in.TTL = b[6], b[7]
	in.Tuple.Src = Addr{binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
	in.Tuple.Dst = Addr{binary.BigEndian.Uint64(b[24:]), binary.BigEndian.Uint64(b[32:])}
	if in.Tuple.Src.Is4() || in.Tuple.Dst.Is4() {
		// No packet has an IPv4-mapped address (RFC 4291 section 2.5.5.2 has them for nodes to hold IPv4 addresses
		// in, as Addr does): a forged one would pass for a packet of an IPv4 flow.
		return Malformed
	}
	in.L4, in.End = in.L3+IPv6Len, in.L3+total
	if isExtension(in.Proto) {
		if s := skipExtensions(frame, in); s != OK {
			return s
		}
	}
	return parseL4(frame, in, how)
}

// parseL4 reads ports, flags and types. The transport header must be there, but for the later part of a quoted one.
func parseL4(frame []byte, in *Info, how extent) Status {
	in.Tuple.Proto = in.Proto
	if in.Fragment == LaterFragment {
		return OK
	}
	b := frame[in.L4:in.End]
	switch in.Proto {
	case ProtoTCP:
		return parseTCP(b, in, how)
	case ProtoUDP:
		return parseUDP(b, in, how)
	case ProtoSCTP:
		return parseSCTP(b, in, how)
	case ProtoICMP, ProtoICMPv6:
		if in.Proto == icmpProto(in.Family) {
			return parseICMP(b, in)
		}
	}
	return OK
}

// ports takes the two ports that TCP, UDP and SCTP start with.
func (in *Info) ports(b []byte) {
	in.Tuple.SrcPort, in.Tuple.DstPort = binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	in.HasPorts = true
}

func parseTCP(b []byte, in *Info, how extent) Status {
	if how == quoted {
		// An ICMP error need not quote more than 8 bytes (RFC 792).
		if len(b) < 8 {
			return Malformed
		}
		in.ports(b)
		return OK
	}
	if len(b) < TCPLen {
		return Malformed
	}
	if size := int(b[12]>>4) * 4; size < TCPLen || size > len(b) {
		return Malformed
	}
	in.ports(b)
	in.TCPFlags = b[13]
	return OK
}

func parseUDP(b []byte, in *Info, how extent) Status {
	if len(b) < UDPLen {
		return Malformed
	}
	size := int(binary.BigEndian.Uint16(b[4:]))
	if size < UDPLen || how == whole && in.Fragment == NotFragment && size > len(b) {
		return Malformed
	}
	in.ports(b)
	return OK
}
