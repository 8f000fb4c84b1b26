package packet_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"sluice/xdp/packet"
)

// headroom is what BuildError has in front of the frame in these tests.
const headroom = 64

// inBuffer puts a frame behind headroom.
func inBuffer(frame []byte) (buf []byte, start, end int) {
	buf = append(make([]byte, headroom), frame...)
	return buf, headroom, len(buf)
}

// buildError makes an error about frame, and checks what every error has.
func buildError(t *testing.T, frame []byte, e packet.Error, src packet.Addr, mtu uint16) ([]byte, packet.Info, packet.Info) {
	t.Helper()
	in := parse(t, frame)
	buf, start, end := inBuffer(frame)
	start, end, ok := packet.BuildError(buf, start, end, &in, e, src, mtu)
	if !ok {
		t.Fatal("no error was built")
	}
	answer := buf[start:end]
	out := checkSums(t, answer)
	var quote packet.Info
	if s := packet.ParseQuote(answer, &out, &quote); s != packet.OK {
		t.Fatalf("parsing the quote: status %d", s)
	}
	if !bytes.Equal(answer[:6], frame[6:12]) || !bytes.Equal(answer[6:12], frame[:6]) {
		t.Errorf("the MAC addresses %x are not those of %x swapped", answer[:12], frame[:12])
	}
	if !bytes.Equal(answer[12:out.L3], frame[12:in.L3]) {
		t.Errorf("the tags %x are not those of %x", answer[12:out.L3], frame[12:in.L3])
	}
	if want := (packet.Tuple{Src: src, Dst: in.Tuple.Src, Proto: out.Proto}); out.Tuple != want || !out.ICMPError {
		t.Errorf("it is %v (an error: %v), want %v", out.Tuple, out.ICMPError, want)
	}
	if quote.Tuple != in.Tuple || out.TTL != 64 || out.Options {
		t.Errorf("TTL %d, it quotes %v, want %v", out.TTL, quote.Tuple, in.Tuple)
	}
	if n := out.End - quote.L3; !bytes.Equal(answer[quote.L3:out.End], frame[in.L3:in.L3+n]) {
		t.Errorf("the quote is not the packet: %x", answer[quote.L3:out.End])
	}
	return answer, out, quote
}

func TestBuildError(t *testing.T) {
	big := make([]byte, 1400)
	qinq := join(udp4()[:12], []byte{0x88, 0xa8, 0x20, 7}, []byte{0x81, 0x00, 0, 9}, udp4()[12:])
	router := map[uint8]packet.Addr{4: addr(router4), 6: addr(router6)}
	for _, tc := range []struct {
		name      string
		frame     []byte
		e         packet.Error
		typ, code uint8
		mtu       uint32 // the second word of the ICMP header
		size      int    // of the IP packet
	}{
		{"port", udp4(), packet.PortUnreachable, 3, 3, 0, 20 + 8 + 31},
		{"host", udp4(), packet.HostUnreachable, 3, 1, 0, 20 + 8 + 31},
		{"time", udp4(), packet.TimeExceeded, 11, 0, 0, 20 + 8 + 31},
		{"too big", udp4(), packet.TooBig, 3, 4, 1400, 20 + 8 + 31},
		{"padding is not quoted", append(udp4(), make([]byte, 15)...), packet.PortUnreachable, 3, 3, 0, 20 + 8 + 31},
		{"at most 576 bytes", build(packet.Spec{Tuple: tuple4(tcp), Payload: big}), packet.TooBig, 3, 4, 1400, 576},
		{"tags", qinq, packet.PortUnreachable, 3, 3, 0, 20 + 8 + 31},
		{"about an echo", icmp(8, 0), packet.TimeExceeded, 11, 0, 0, 20 + 8 + 28},
		{"ipv6 port", udp6(), packet.PortUnreachable, 1, 4, 0, 40 + 8 + 51},
		{"ipv6 host", udp6(), packet.HostUnreachable, 1, 3, 0, 40 + 8 + 51},
		{"ipv6 time", udp6(), packet.TimeExceeded, 3, 0, 0, 40 + 8 + 51},
		{"ipv6 too big", udp6(), packet.TooBig, 2, 0, 1400, 40 + 8 + 51},
		{"ipv6, at most 1280 bytes", build(packet.Spec{Tuple: tuple6(tcp), Payload: big}), packet.TooBig, 2, 0, 1400, 1280},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			answer, out, _ := buildError(t, tc.frame, tc.e, router[in.Family], 1400)
			if out.ICMPType != tc.typ || out.ICMPCode != tc.code {
				t.Errorf("type %d code %d, want %d and %d", out.ICMPType, out.ICMPCode, tc.typ, tc.code)
			}
			if got := binary.BigEndian.Uint32(answer[out.L4+4:]); got != tc.mtu {
				t.Errorf("MTU %d, want %d", got, tc.mtu)
			}
			if got := out.End - out.L3; got != tc.size || out.End != len(answer) {
				t.Errorf("packet of %d bytes in a frame of %d, want %d", got, len(answer), tc.size)
			}
		})
	}
}

// TestBuildErrorVectors has checksums that were computed elsewhere: port unreachable about a packet of 31 bytes.
func TestBuildErrorVectors(t *testing.T) {
	for _, tc := range []struct {
		name   string
		quoted int
		want   uint16
	}{
		{"28 bytes quoted", 28, 0xbf8c},
		{"all quoted", 31, 0xfb29},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frame := build(packet.Spec{Tuple: tuple4(udp), ID: 0x1234, DF: true, Payload: []byte("abc")})
			in := parse(t, frame)
			in.End = in.L3 + tc.quoted
			buf, start, end := inBuffer(frame)
			start, end, _ = packet.BuildError(buf, start, end, &in, packet.PortUnreachable, in.Tuple.Dst, 0)
			out := checkSums(t, buf[start:end])
			if got := l4sum(buf[start:], &out); got != tc.want {
				t.Errorf("checksum %04x, want %04x", got, tc.want)
			}
		})
	}
}

// TestBuildVector is the reset for a SYN to a service without endpoints, with a checksum that was computed elsewhere.
func TestBuildVector(t *testing.T) {
	frame := build(packet.Spec{Tuple: tuple(tcp, service4, 80, client4, 40000), Ack: 2, TCPFlags: packet.TCPRst | packet.TCPAck})
	in := checkSums(t, frame)
	if got := l4sum(frame, &in); got != 0x152e {
		t.Errorf("checksum %04x, want 152e", got)
	}
}

func TestBuildErrorNeedsRoom(t *testing.T) {
	for _, tc := range []struct {
		name  string
		frame []byte
		need  int
	}{{"ipv4", udp4(), 28}, {"ipv6", udp6(), 48}} {
		t.Run(tc.name, func(t *testing.T) {
			for _, room := range []int{0, tc.need - 1, tc.need} {
				in := parse(t, tc.frame)
				buf := append(make([]byte, room), tc.frame...)
				start, end, ok := packet.BuildError(buf, room, len(buf), &in, packet.PortUnreachable, in.Tuple.Dst, 0)
				if ok != (room == tc.need) {
					t.Errorf("with %d bytes in front: %v", room, ok)
				}
				if !ok && (start != room || end != len(buf) || !bytes.Equal(buf[room:], tc.frame)) {
					t.Errorf("with %d bytes in front the frame was changed", room)
				}
			}
		})
	}
}

func TestMayAnswer(t *testing.T) {
	from := func(src, dst string) []byte { return build(packet.Spec{Tuple: tuple(udp, src, 40000, dst, 53)}) }
	for _, tc := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"udp", udp4(), true},
		{"tcp", tcp4(), true},
		{"udp over ipv6", udp6(), true},
		{"echo", icmp(8, 0), true},
		{"echo reply", icmp(0, 0), true},
		{"ipv6 echo", icmpv6(128, 0), true},
		{"first fragment", put(udp4(), 20, 0x20), true},
		{"later fragment", put(udp4(), 20, 0x20, 1), false},
		{"later fragment that looks like an error", put(icmp(3, 0), 20, 0x20, 1), false},
		{"unreachable", icmp(3, 1), false},
		{"source quench", icmp(4, 0), false},
		{"redirect", icmp(5, 0), false},
		{"time exceeded", icmp(11, 0), false},
		{"parameter problem", icmp(12, 0), false},
		{"ipv6 unreachable", icmpv6(1, 0), false},
		{"ipv6 too big", icmpv6(2, 0), false},
		{"ipv6 error that is not known", icmpv6(100, 0), false},
		{"ipv6 redirect", icmpv6(137, 0), false},
		{"link-layer broadcast", put(udp4(), 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff), false},
		{"link-layer multicast", put(udp4(), 0, 0x01, 0x00, 0x5e), false},
		{"to multicast", from(client4, "224.0.0.251"), false},
		{"to broadcast", from(client4, "255.255.255.255"), false},
		{"from nobody", from("0.0.0.0", service4), false},
		{"from loopback", from("127.0.0.1", service4), false},
		{"from multicast", from("239.1.1.1", service4), false},
		{"from class E", from("240.0.0.1", service4), false},
		{"to ipv6 multicast", from(client6, "ff02::fb"), false},
		{"from no ipv6 address", from("::", service6), false},
		{"from ipv6 loopback", from("::1", service6), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			if got := packet.MayAnswer(tc.frame, &in); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestEchoReply(t *testing.T) {
	request4 := packet.Spec{Tuple: tuple4(icmp4), ICMPType: packet.ICMPEcho, ICMPSeq: 3, TTL: 9, ID: 5, Payload: []byte("ping!")}
	request6 := packet.Spec{Tuple: tuple6(icmp6), ICMPType: packet.ICMPv6Echo, ICMPSeq: 3, TTL: 9, Payload: []byte("ping!")}
	zero := packet.Spec{Tuple: tuple(icmp4, client4, 0, service4, 0), ICMPType: packet.ICMPEcho, Payload: make([]byte, 56)}
	tagged, top := request6, request4
	tagged.VLAN = 0x3007
	top.TTL = 255
	for _, tc := range []struct {
		name  string
		spec  packet.Spec
		reply uint8
	}{
		{"ipv4", request4, packet.ICMPEchoReply},
		{"ipv6", request6, packet.ICMPv6EchoReply},
		{"tagged", tagged, packet.ICMPv6EchoReply},
		{"TTL 255", top, packet.ICMPEchoReply},
		{"zeros only", zero, packet.ICMPEchoReply},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frame := build(tc.spec)
			in := parse(t, frame)
			packet.EchoReply(frame, &in)

			want := tc.spec
			want.SrcMAC, want.DstMAC, want.TTL, want.ICMPType = macB, macA, 64, tc.reply
			want.Tuple = tc.spec.Tuple.Reverse()
			if reply := packet.Build(make([]byte, 256), &want); !bytes.Equal(frame, reply) {
				t.Errorf("got  %x\nwant %x", frame, reply)
			}
			if out := checkSums(t, frame); out != in {
				t.Errorf("the Info did not follow: %+v, want %+v", in, out)
			}
		})
	}
}
