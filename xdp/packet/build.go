package packet

import "encoding/binary"

// Spec describes a packet for Build.
type Spec struct {
	SrcMAC, DstMAC [6]byte
	VLAN           uint16 // TCI of a tag, 0 for no tag
	Tuple          Tuple  // for ICMP the identifier is SrcPort
	TTL            uint8  // 0 means 64
	ID             uint16 // IPv4 identification
	DF             bool   // IPv4 don't fragment
	TCPFlags       uint8
	Seq, Ack       uint32 // of TCP; Seq is SCTP's verification tag
	Window         uint16
	ICMPType       uint8
	ICMPCode       uint8
	ICMPSeq        uint16
	Payload        []byte
}

// Build writes the packet with right checksums into buf and returns it. It panics when buf is too short: callers
// build packets of their own making, never of lengths from the wire.
func Build(buf []byte, s *Spec) []byte {
	l3 := writeEthernet(buf, s)
	header, l4len := IPv4Len, transportLen(s.Tuple.Proto)
	if !s.Tuple.Src.Is4() {
		header = IPv6Len
	}
	l4 := l3 + header
	end := l4 + l4len + len(s.Payload)
	b := buf[:end]
	copy(b[l4+l4len:], s.Payload)
	writeTransport(b[l4:], s)
	if header == IPv4Len {
		writeIPv4(b[l3:], s)
	} else {
		writeIPv6(b[l3:], s)
	}
	var in Info
	if Parse(b, &in) == OK {
		Complete(b, &in)
	}
	return b
}

func transportLen(proto uint8) int {
	switch proto {
	case ProtoTCP:
		return TCPLen
	case ProtoUDP:
		return UDPLen
	case ProtoSCTP:
		return SCTPLen
	case ProtoICMP, ProtoICMPv6:
		return ICMPLen
	}
	return 0
}

func writeEthernet(b []byte, s *Spec) int {
	copy(b[0:6], s.DstMAC[:])
	copy(b[6:12], s.SrcMAC[:])
	l3 := EthernetLen
	if s.VLAN != 0 {
		binary.BigEndian.PutUint16(b[12:], etherVLAN)
		binary.BigEndian.PutUint16(b[14:], s.VLAN)
		l3 += VLANLen
	}
	etherType := uint16(etherIPv4)
	if !s.Tuple.Src.Is4() {
		etherType = etherIPv6
	}
	binary.BigEndian.PutUint16(b[l3-2:], etherType)
	return l3
}

func writeTransport(b []byte, s *Spec) {
	clear(b[:transportLen(s.Tuple.Proto)])
	switch s.Tuple.Proto {
	case ProtoTCP:
		binary.BigEndian.PutUint16(b, s.Tuple.SrcPort)
		binary.BigEndian.PutUint16(b[2:], s.Tuple.DstPort)
		binary.BigEndian.PutUint32(b[4:], s.Seq)
		binary.BigEndian.PutUint32(b[8:], s.Ack)
		b[12], b[13] = TCPLen/4<<4, s.TCPFlags
		binary.BigEndian.PutUint16(b[14:], s.Window)
	case ProtoUDP:
		binary.BigEndian.PutUint16(b, s.Tuple.SrcPort)
		binary.BigEndian.PutUint16(b[2:], s.Tuple.DstPort)
		binary.BigEndian.PutUint16(b[4:], uint16(len(b)))
	case ProtoSCTP:
		binary.BigEndian.PutUint16(b, s.Tuple.SrcPort)
		binary.BigEndian.PutUint16(b[2:], s.Tuple.DstPort)
		binary.BigEndian.PutUint32(b[4:], s.Seq)
	case ProtoICMP, ProtoICMPv6:
		b[0], b[1] = s.ICMPType, s.ICMPCode
		binary.BigEndian.PutUint16(b[4:], s.Tuple.SrcPort)
		binary.BigEndian.PutUint16(b[6:], s.ICMPSeq)
	}
}

// ttl returns the TTL to write.
func (s *Spec) ttl() uint8 {
	if s.TTL == 0 {
		return 64
	}
	return s.TTL
}

func writeIPv4(b []byte, s *Spec) {
	clear(b[:IPv4Len])
	b[0], b[8], b[9] = 0x45, s.ttl(), s.Tuple.Proto
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)))
	binary.BigEndian.PutUint16(b[4:], s.ID)
	if s.DF {
		b[6] = 0x40
	}
	binary.BigEndian.PutUint32(b[12:], s.Tuple.Src.V4())
	binary.BigEndian.PutUint32(b[16:], s.Tuple.Dst.V4())
	binary.BigEndian.PutUint16(b[10:], ^Sum(b[:IPv4Len], 0))
}

func writeIPv6(b []byte, s *Spec) {
	clear(b[:IPv6Len])
	b[0], b[6], b[7] = 0x60, s.Tuple.Proto, s.ttl()
	binary.BigEndian.PutUint16(b[4:], uint16(len(b)-IPv6Len))
	putAddr(b[8:], s.Tuple.Src)
	putAddr(b[24:], s.Tuple.Dst)
}

// putAddr writes the sixteen bytes of an IPv6 address.
func putAddr(b []byte, a Addr) {
	binary.BigEndian.PutUint64(b, a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
}
