package packet

// UDPPayload returns what a whole UDP datagram carries, which may end before the packet does.
func UDPPayload(frame []byte, in *Info) []byte {
	return frame[in.L4+UDPLen : in.L4+covered(frame, in)]
}

// UDPRoom returns how many bytes of payload an answer to the UDP datagram may have in a buffer of size bytes, in which the frame
// starts at start, and over a link of an MTU. It may be negative.
func UDPRoom(size, start, mtu int, in *Info) int {
	return min(size-start-in.L4, mtu-(in.L4-in.L3)) - UDPLen
}

// AnswerUDP turns a UDP datagram that begins at buf[0], and is neither a fragment nor has options or extension headers, into its
// answer with a payload, in place: both ends are exchanged on all layers, VLAN tags stay, TTL 64, and no router may cut it (RFC
// 9715 section 3.1). buf has room for it: see UDPRoom. It returns the new length of the frame. in follows.
func AnswerUDP(buf []byte, in *Info, payload []byte) int {
	swapMACs(buf)
	in.Tuple = in.Tuple.Reverse()
	s := Spec{Tuple: in.Tuple, DF: true}
	at := in.L4 + UDPLen
	in.End = at + copy(buf[at:], payload)
	b := buf[:in.End]
	writeTransport(b[in.L4:], &s)
	if in.Family == 4 {
		writeIPv4(b[in.L3:], &s)
	} else {
		writeIPv6(b[in.L3:], &s)
	}
	in.TTL = s.ttl()
	Complete(b, in)
	end := max(in.End, minFrame)
	clear(buf[in.End:end])
	return end
}

// minFrame is the length of the shortest Ethernet frame, without its checksum.
const minFrame = 60
