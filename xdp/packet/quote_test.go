package packet_test

import (
	"testing"

	"sluice/xdp/packet"
)

// about makes a frame of an ICMP error of a type whose quote is given.
func about(t uint8, quote []byte) []byte {
	if quote[0]>>4 == 6 {
		return build(packet.Spec{Tuple: tuple(icmp6, router6, 0, client6, 0), ICMPType: t, Payload: quote})
	}
	return build(packet.Spec{Tuple: tuple(icmp4, router4, 0, client4, 0), ICMPType: t, Payload: quote})
}

func TestParseQuote(t *testing.T) {
	udpQ, tcpQ, udp6Q := udp4()[14:], tcp4()[14:], udp6()[14:]
	echoQ, echo6Q := icmp(8, 0)[14:], icmpv6(128, 0)[14:]
	chained := ipv6(0, join(hopByHop(udp), udpHeader())...)[14:]
	none4, none6 := packet.Tuple{Src: addr(client4), Dst: addr(service4)}, packet.Tuple{Src: addr(client6), Dst: addr(service6)}
	proto := func(tu packet.Tuple, p uint8) packet.Tuple {
		tu.Proto = p
		return tu
	}
	copied := func(b []byte) []byte { return append([]byte(nil), b...) }
	for _, tc := range []struct {
		name  string
		typ   uint8
		quote []byte
		want  packet.Status
		tuple packet.Tuple
		l4    int // within the quote
	}{
		{"udp", 3, udpQ, packet.OK, tuple4(udp), 20},
		{"time exceeded", 11, udpQ, packet.OK, tuple4(udp), 20},
		{"parameter problem", 12, udpQ, packet.OK, tuple4(udp), 20},
		{"28 bytes of udp", 3, udpQ[:28], packet.OK, tuple4(udp), 20},
		{"28 bytes of tcp", 3, tcpQ[:28], packet.OK, tuple4(tcp), 20},
		{"28 bytes of an echo", 3, echoQ[:28], packet.OK, tuple4(icmp4), 20},
		{"27 bytes", 3, udpQ[:27], packet.Malformed, packet.Tuple{}, 0},
		{"27 bytes of tcp", 3, tcpQ[:27], packet.Malformed, packet.Tuple{}, 0},
		{"19 bytes", 3, udpQ[:19], packet.Malformed, packet.Tuple{}, 0},
		{"much was cut off", 3, put(copied(tcpQ), 2, 0x05, 0xdc), packet.OK, tuple4(tcp), 20},
		{"ipv6 in an ipv4 error", 3, put(copied(udpQ), 0, 0x65), packet.Malformed, packet.Tuple{}, 0},
		{"bad header length", 3, put(copied(udpQ), 0, 0x44), packet.Malformed, packet.Tuple{}, 0},
		{"header length beyond the quote", 3, put(copied(udpQ), 0, 0x4f), packet.Malformed, packet.Tuple{}, 0},
		{"an error about an error", 3, icmp(11, 0)[14:], packet.Malformed, packet.Tuple{}, 0},
		{"first fragment", 3, put(copied(udpQ), 6, 0x20, 0), packet.OK, tuple4(udp), 20},
		{"later fragment", 3, put(copied(udpQ), 6, 0x20, 1), packet.OK, proto(none4, udp), 20},
		{"gre", 3, put(copied(udpQ), 9, 47), packet.OK, proto(none4, 47), 20},
		{"ip in ip", 3, put(copied(udpQ), 9, 4), packet.OK, proto(none4, 4), 20},
		{"not an error", 8, udpQ, packet.Malformed, packet.Tuple{}, 0},
		{"redirect", 5, udpQ, packet.Malformed, packet.Tuple{}, 0},
		{"ipv6 unreachable", 1, udp6Q, packet.OK, tuple6(udp), 40},
		{"ipv6 too big", 2, udp6Q, packet.OK, tuple6(udp), 40},
		{"ipv6 time exceeded", 3, udp6Q, packet.OK, tuple6(udp), 40},
		{"ipv6 parameter problem", 4, udp6Q[:48], packet.OK, tuple6(udp), 40},
		{"ipv6 echo", 1, echo6Q, packet.OK, tuple6(icmp6), 40},
		{"ipv6 error about an error", 1, icmpv6(2, 0)[14:], packet.Malformed, packet.Tuple{}, 0},
		{"ipv6 extension header", 1, chained, packet.OK, tuple6(udp), 48},
		{"ipv6 extension header is cut off", 1, chained[:47], packet.Malformed, packet.Tuple{}, 0},
		{"ipv6 no next header", 1, put(copied(udp6Q), 6, 59), packet.OK, proto(none6, 59), 40},
		{"ipv6 47 bytes", 1, udp6Q[:47], packet.Malformed, packet.Tuple{}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frame := about(tc.typ, tc.quote)
			in := parse(t, frame)
			quote := packet.Info{HasPorts: true, TCPFlags: 0xff} // of an earlier packet
			if s := packet.ParseQuote(frame, &in, &quote); s != tc.want {
				t.Fatalf("status %d, want %d", s, tc.want)
			}
			if tc.want != packet.OK {
				return
			}
			l3 := in.L4 + packet.ICMPLen
			if quote.Tuple != tc.tuple || quote.L3 != l3 || quote.L4 != l3+tc.l4 || quote.End != l3+len(tc.quote) {
				t.Errorf("got %+v", quote)
			}
			if quote.HasPorts != (tc.tuple.SrcPort != 0) || quote.TCPFlags != 0 {
				t.Errorf("ports: %v, flags %x", quote.HasPorts, quote.TCPFlags)
			}
		})
	}
}

// TestParseQuoteOfNothing has errors that end with their header, or in padding.
func TestParseQuoteOfNothing(t *testing.T) {
	frame := append(icmp(3, 0), udp4()[14:]...)
	in := parse(t, frame)
	var quote packet.Info
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.Malformed {
		t.Errorf("status %d, want Malformed", s)
	}
}

// TestParseQuoteOfAnyProtocol quotes every protocol, cut off everywhere. Only what we know has ports, and only when
// there are eight bytes of it.
func TestParseQuoteOfAnyProtocol(t *testing.T) {
	known := map[uint8]bool{udp: true, tcp: true, packet.ProtoSCTP: true, icmp4: true}
	for p := range 256 {
		for n := 20; n <= 48; n++ {
			inner := put(udp4(), 34, 8, 0, 0, 0, 0, 9, 0, 9) // as ICMP it is an echo
			inner = append(inner, make([]byte, 32)...)[14 : 14+n]
			inner[9] = byte(p)
			frame := about(3, inner)
			in := parse(t, frame)
			var quote packet.Info
			s := packet.ParseQuote(frame, &in, &quote)
			if want := known[byte(p)] && n >= 28; quote.HasPorts != want || (s == packet.OK) != (want || !known[byte(p)]) {
				t.Errorf("protocol %d, %d bytes: status %d, ports: %v", p, n, s, quote.HasPorts)
			}
		}
	}
}
