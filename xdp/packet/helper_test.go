package packet_test

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"sluice/xdp/packet"
)

// Addresses of the tests.
const (
	client4, service4 = "192.0.2.10", "203.0.113.5"
	client6, service6 = "2001:db8::10", "2001:db8:f::5"
	router4, router6  = "198.51.100.1", "2001:db8:ff::1"
)

var (
	macA = [6]byte{2, 0, 0, 0, 0, 0xa}
	macB = [6]byte{2, 0, 0, 0, 0, 0xb}
)

func addr(s string) packet.Addr { return packet.AddrFrom(netip.MustParseAddr(s)) }

func tuple(proto uint8, src string, sport uint16, dst string, dport uint16) packet.Tuple {
	return packet.Tuple{Src: addr(src), Dst: addr(dst), SrcPort: sport, DstPort: dport, Proto: proto}
}

// tuple4 is a flow from the client to the service over IPv4, tuple6 over IPv6. An ICMP flow has the identifier twice.
func tuple4(proto uint8) packet.Tuple {
	if proto == packet.ProtoICMP {
		return tuple(proto, client4, 7777, service4, 7777)
	}
	return tuple(proto, client4, 40000, service4, 53)
}

func tuple6(proto uint8) packet.Tuple {
	if proto == packet.ProtoICMPv6 {
		return tuple(proto, client6, 7777, service6, 7777)
	}
	return tuple(proto, client6, 40000, service6, 53)
}

// build makes a frame in a buffer of its own, from A to B.
func build(s packet.Spec) []byte {
	s.SrcMAC, s.DstMAC = macA, macB
	return packet.Build(make([]byte, 2048), &s)
}

func parse(t testing.TB, frame []byte) packet.Info {
	t.Helper()
	var in packet.Info
	if s := packet.Parse(frame, &in); s != packet.OK {
		t.Fatalf("parsing %x: status %d, want OK", frame, s)
	}
	return in
}

// ipv6 makes a frame of the IPv6 packet whose first next header is next, with body behind the fixed header.
func ipv6(next uint8, body ...byte) []byte {
	frame := build(packet.Spec{Tuple: tuple6(next), Payload: body})
	frame = frame[:packet.EthernetLen+packet.IPv6Len]
	frame = append(frame, body...)
	binary.BigEndian.PutUint16(frame[18:], uint16(len(body)))
	return frame
}

// join concatenates parts of a packet.
func join(parts ...[]byte) []byte {
	var all []byte
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// udpHeader is a UDP header without payload and checksum, from port 40000 to 53.
func udpHeader() []byte { return []byte{0x9c, 0x40, 0, 53, 0, 8, 0, 0} }

// put returns frame with bytes written over it at an offset.
func put(frame []byte, at int, b ...byte) []byte {
	copy(frame[at:], b)
	return frame
}

// checkSums fails the test unless both checksums of a frame are right.
func checkSums(t testing.TB, frame []byte) packet.Info {
	t.Helper()
	in := parse(t, frame)
	if !packet.VerifyIP(frame, &in) {
		t.Errorf("the header checksum is wrong: %x", frame[in.L3:])
	}
	if !packet.VerifyL4(frame, &in) {
		t.Errorf("the transport checksum is wrong: %x", frame[in.L3:])
	}
	return in
}

// l4sum reads the transport checksum.
func l4sum(frame []byte, in *packet.Info) uint16 {
	at := map[uint8]int{packet.ProtoTCP: 16, packet.ProtoUDP: 6, packet.ProtoICMP: 2, packet.ProtoICMPv6: 2}[in.Proto]
	return binary.BigEndian.Uint16(frame[in.L4+at:])
}
