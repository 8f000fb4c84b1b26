package packet_test

import (
	"testing"

	"sluice/xdp/packet"
)

const udp, tcp, icmp4, icmp6 = packet.ProtoUDP, packet.ProtoTCP, packet.ProtoICMP, packet.ProtoICMPv6

// udp4 is an IPv4 UDP frame with three bytes of payload.
func udp4() []byte { return build(packet.Spec{Tuple: tuple4(udp), Payload: []byte("abc")}) }

func tcp4() []byte {
	return build(packet.Spec{Tuple: tuple4(tcp), TCPFlags: packet.TCPSyn | packet.TCPAck, DF: true, TTL: 3})
}

func udp6() []byte { return build(packet.Spec{Tuple: tuple6(udp), Payload: []byte("abc")}) }

func icmp(t, code uint8) []byte {
	return build(packet.Spec{Tuple: tuple4(icmp4), ICMPType: t, ICMPCode: code})
}

func icmpv6(t, code uint8) []byte {
	return build(packet.Spec{Tuple: tuple6(icmp6), ICMPType: t, ICMPCode: code})
}

// info4 is what parsing a plain IPv4 frame without payload gives.
func info4(proto uint8, l4len int) packet.Info {
	return packet.Info{Tuple: tuple4(proto), L3: 14, L4: 34, End: 34 + l4len, Family: 4, Proto: proto, TTL: 64, HasPorts: true}
}

func info6(proto uint8, l4len int) packet.Info {
	return packet.Info{Tuple: tuple6(proto), L3: 14, L4: 54, End: 54 + l4len, Family: 6, Proto: proto, TTL: 64, DF: true,
		HasPorts: true}
}

// with returns in as change leaves it.
func with(in packet.Info, change func(*packet.Info)) packet.Info {
	change(&in)
	return in
}

// portless takes the ports away.
func portless(in *packet.Info) { in.HasPorts, in.Tuple.SrcPort, in.Tuple.DstPort = false, 0, 0 }

func TestParse(t *testing.T) {
	qinq := join(udp4()[:12], []byte{0x88, 0xa8, 0x20, 7}, []byte{0x81, 0x00, 0, 9}, udp4()[12:])
	options := join(udp4()[:34], []byte{1, 1, 1, 0}, udp4()[34:])
	put(options, 14, 0x46, 0x10, 0, 35)
	icmpInfo := func(typ, code uint8) packet.Info {
		return with(info4(icmp4, 8), func(in *packet.Info) { in.ICMPType, in.ICMPCode = typ, code })
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		want  packet.Info
	}{
		{"udp", udp4(), info4(udp, 11)},
		{"padding is not of the packet", append(udp4(), make([]byte, 15)...), info4(udp, 11)},
		{"tcp", tcp4(), with(info4(tcp, 20), func(in *packet.Info) {
			in.TTL, in.DF, in.TCPFlags = 3, true, packet.TCPSyn|packet.TCPAck
		})},
		{"one tag", build(packet.Spec{VLAN: 0x6007, Tuple: tuple4(udp)}), with(info4(udp, 8), func(in *packet.Info) {
			in.VLANs, in.VLAN, in.L3, in.L4, in.End = 1, 0x6007, 18, 38, 46
		})},
		{"two tags", qinq, with(info4(udp, 11), func(in *packet.Info) {
			in.VLANs, in.VLAN, in.L3, in.L4, in.End = 2, 0x2007, 22, 42, 53
		})},
		{"options", options, with(info4(udp, 11), func(in *packet.Info) {
			in.Options, in.TOS, in.L4, in.End = true, 0x10, 38, 49
		})},
		{"first fragment", put(udp4(), 20, 0x20, 0), with(info4(udp, 11), func(in *packet.Info) {
			in.Fragment = packet.FirstFragment
		})},
		{"first fragment, datagram is longer", put(put(udp4(), 20, 0x20, 0), 38, 0xff, 0xff),
			with(info4(udp, 11), func(in *packet.Info) { in.Fragment = packet.FirstFragment })},
		{"later fragment", put(udp4(), 20, 0x20, 1), with(info4(udp, 11), func(in *packet.Info) {
			in.Fragment = packet.LaterFragment
			portless(in)
		})},
		{"echo", icmp(8, 0), icmpInfo(8, 0)},
		{"echo reply", icmp(0, 0), icmpInfo(0, 0)},
		{"timestamp", icmp(13, 0), with(icmpInfo(13, 0), portless)},
		{"redirect is no error to translate", icmp(5, 1), with(icmpInfo(5, 1), portless)},
		{"unreachable", icmp(3, 4), with(icmpInfo(3, 4), func(in *packet.Info) {
			in.ICMPError = true
			portless(in)
		})},
		{"gre", put(udp4(), 23, 47), with(info4(udp, 11), func(in *packet.Info) {
			in.Proto, in.Tuple.Proto = 47, 47
			portless(in)
		})},
		{"icmpv6 over ipv4", put(udp4(), 23, 58), with(info4(udp, 11), func(in *packet.Info) {
			in.Proto, in.Tuple.Proto = 58, 58
			portless(in)
		})},
		{"nothing behind the header", put(udp4(), 16, 0, 20, 0, 0, 0, 0, 64, 99), with(info4(udp, 0), func(in *packet.Info) {
			in.Proto, in.Tuple.Proto = 99, 99
			portless(in)
		})},
		{"ipv6 udp", udp6(), info6(udp, 11)},
		{"ipv6 traffic class", put(udp6(), 14, 0x6a, 0xb1), with(info6(udp, 11), func(in *packet.Info) { in.TOS = 0xab })},
		{"ipv6 echo", icmpv6(128, 0), with(info6(icmp6, 8), func(in *packet.Info) { in.ICMPType = 128 })},
		{"ipv6 too big", icmpv6(2, 0), with(info6(icmp6, 8), func(in *packet.Info) {
			in.ICMPType, in.ICMPError = 2, true
			portless(in)
		})},
		{"ipv6 neighbour solicitation", icmpv6(135, 0), with(info6(icmp6, 8), func(in *packet.Info) {
			in.ICMPType = 135
			portless(in)
		})},
		{"icmp over ipv6", ipv6(icmp4, 8, 0, 0, 0, 0, 0, 0, 0), with(info6(icmp4, 8), portless)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := parse(t, tc.frame); got != tc.want {
				t.Errorf("got\n%+v\nwant\n%+v", got, tc.want)
			}
		})
	}
}

// Extension headers of eight bytes; the first is the number of what follows.
func hopByHop(next uint8) []byte { return []byte{next, 0, 1, 4, 0, 0, 0, 0} }

func routing(next, left uint8) []byte { return []byte{next, 0, 4, left, 0, 0, 0, 0} }

func fragment(next uint8, offsetAndMore uint16) []byte {
	return []byte{next, 0, byte(offsetAndMore >> 8), byte(offsetAndMore), 0, 0, 0, 1}
}

// auth is an authentication header with 12 bytes of check value: 24 bytes, which it counts as four words beyond two.
func auth(next uint8) []byte { return append([]byte{next, 4, 0, 0, 0, 0, 1, 0}, make([]byte, 16)...) }

func TestParseExtensionHeaders(t *testing.T) {
	const hbh, dst, rt, frag, ah = 0, 60, 43, 44, 51
	chain := func(n int) []byte {
		var b []byte
		for range n - 1 {
			b = append(b, hopByHop(dst)...)
		}
		return join(b, hopByHop(udp), udpHeader())
	}
	long := append([]byte{udp, 2, 1, 20}, make([]byte, 20)...)
	for _, tc := range []struct {
		name   string
		frame  []byte
		status packet.Status
		l4     int // behind the IPv6 header
		proto  uint8
		ports  bool
		frag   packet.Fragment
	}{
		{"hop by hop", ipv6(hbh, join(hopByHop(udp), udpHeader())...), packet.OK, 8, udp, true, packet.NotFragment},
		{"24 bytes of options", ipv6(dst, join(long, udpHeader())...), packet.OK, 24, udp, true, packet.NotFragment},
		{"all kinds", ipv6(hbh, join(hopByHop(dst), hopByHop(rt), routing(frag, 0), fragment(udp, 0), udpHeader())...),
			packet.OK, 32, udp, true, packet.NotFragment},
		{"authentication", ipv6(ah, join(auth(udp), udpHeader())...), packet.OK, 0, ah, false, packet.NotFragment},
		{"authentication behind others", ipv6(dst, join(hopByHop(ah), auth(udp), udpHeader())...), packet.OK, 8, ah, false, packet.NotFragment},
		{"fragment of one", ipv6(frag, join(fragment(udp, 0), udpHeader())...), packet.OK, 8, udp, true, packet.NotFragment},
		{"first fragment", ipv6(frag, join(fragment(udp, 1), udpHeader())...), packet.OK, 8, udp, true, packet.FirstFragment},
		{"later fragment", ipv6(frag, join(fragment(udp, 8), udpHeader())...), packet.OK, 8, udp, false, packet.LaterFragment},
		{"later fragment looks like a header", ipv6(frag, join(fragment(dst, 8), hopByHop(udp), udpHeader())...),
			packet.OK, 8, dst, false, packet.LaterFragment},
		{"eight headers", ipv6(dst, chain(8)...), packet.OK, 64, udp, true, packet.NotFragment},
		{"nine headers", ipv6(dst, chain(9)...), packet.OK, 64, dst, false, packet.NotFragment},
		{"no next header", ipv6(hbh, hopByHop(59)...), packet.OK, 8, 59, false, packet.NotFragment},
		{"encrypted", ipv6(50, udpHeader()...), packet.OK, 0, 50, false, packet.NotFragment},
		{"segments left", ipv6(rt, join(routing(udp, 1), udpHeader())...), packet.OK, 0, rt, false, packet.NotFragment},
		{"header is cut off", ipv6(hbh, hopByHop(udp)[:7]...), packet.Malformed, 0, 0, false, 0},
		{"length beyond the end", ipv6(hbh, put(hopByHop(udp), 1, 1)...), packet.Malformed, 0, 0, false, 0},
		{"nothing behind the chain", ipv6(hbh, hopByHop(udp)...), packet.Malformed, 0, 0, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var in packet.Info
			if s := packet.Parse(tc.frame, &in); s != tc.status {
				t.Fatalf("status %d, want %d", s, tc.status)
			}
			if tc.status != packet.OK {
				return
			}
			if in.L4 != 54+tc.l4 || in.Proto != tc.proto || in.HasPorts != tc.ports || in.Fragment != tc.frag {
				t.Errorf("got %+v", in)
			}
			if want := (packet.Tuple{Src: addr(client6), Dst: addr(service6), Proto: tc.proto}); !tc.ports && in.Tuple != want {
				t.Errorf("tuple %v, want no ports", in.Tuple)
			}
			if in.TooManyHeaders() != (tc.name == "nine headers") {
				t.Errorf("too many headers: %v", in.TooManyHeaders())
			}
			if in.Options != (tc.l4 > 0 || tc.proto == rt) {
				t.Errorf("options: %v", in.Options)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		frame []byte
		want  packet.Status
	}{
		{"empty", nil, packet.Malformed},
		{"13 bytes", udp4()[:13], packet.Malformed},
		{"arp", put(udp4(), 12, 0x08, 0x06), packet.NotIP},
		{"802.3 length", put(udp4(), 12, 0x00, 0x26), packet.NotIP},
		{"three tags", join(udp4()[:12], []byte{0x81, 0, 0, 1, 0x81, 0, 0, 2, 0x81, 0, 0, 3}, udp4()[12:]), packet.NotIP},
		{"tag is cut off", put(udp4(), 12, 0x81, 0x00)[:17], packet.Malformed},
		{"ipv4 header is cut off", udp4()[:33], packet.Malformed},
		{"version 6 in an ipv4 frame", put(udp4(), 14, 0x65), packet.Malformed},
		{"header length 16", put(udp4(), 14, 0x44), packet.Malformed},
		{"header beyond the frame", put(udp4(), 14, 0x4f)[:60-26], packet.Malformed},
		{"header beyond the packet", put(udp4(), 14, 0x48), packet.Malformed},
		{"total length below the header", put(udp4(), 16, 0, 19), packet.Malformed},
		{"total length beyond the frame", put(udp4(), 16, 0, 32), packet.Malformed},
		{"udp header is cut off", put(udp4(), 16, 0, 27), packet.Malformed},
		{"udp length below its header", put(udp4(), 38, 0, 7), packet.Malformed},
		{"udp length beyond the packet", put(udp4(), 38, 0, 12), packet.Malformed},
		{"udp length beyond the packet, in the padding", append(put(udp4(), 38, 0, 12), 0), packet.Malformed},
		{"tcp header is cut off", put(tcp4(), 16, 0, 39), packet.Malformed},
		{"tcp offset below 20", put(tcp4(), 46, 0x40), packet.Malformed},
		{"tcp offset beyond the packet", put(tcp4(), 46, 0x60), packet.Malformed},
		{"icmp header is cut off", put(icmp(8, 0), 16, 0, 27), packet.Malformed},
		{"tiny first fragment", put(put(tcp4(), 20, 0x20, 0), 16, 0, 36), packet.Malformed},
		{"ipv6 header is cut off", udp6()[:53], packet.Malformed},
		{"version 4 in an ipv6 frame", put(udp6(), 14, 0x40), packet.Malformed},
		{"payload length beyond the frame", put(udp6(), 18, 0, 12), packet.Malformed},
		{"ipv6 udp length beyond the packet", put(udp6(), 58, 0, 12), packet.Malformed},
		{"ipv4-mapped source", put(udp6(), 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 10), packet.Malformed},
		{"ipv4-mapped destination", put(udp6(), 38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 203, 0, 113, 5), packet.Malformed},
		{"jumbogram", put(udp6(), 18, 0, 0), packet.Malformed},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tcp4()) // what is left in the Info of an earlier packet must go
			if s := packet.Parse(tc.frame, &in); s != tc.want {
				t.Errorf("status %d, want %d", s, tc.want)
			}
			if in.HasPorts || in.TCPFlags != 0 || in.DF && in.Family == 0 || in.ICMPError {
				t.Errorf("the Info is not reset: %+v", in)
			}
		})
	}
}

// TestParseCutOff takes a byte after the other from the end of a frame: none of what is left is a whole packet.
func TestParseCutOff(t *testing.T) {
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) {
			for n := range len(k.frame) {
				var in packet.Info
				if s := packet.Parse(k.frame[:n:n], &in); s != packet.Malformed {
					t.Errorf("the first %d of %d bytes: status %d", n, len(k.frame), s)
				}
			}
		})
	}
}
