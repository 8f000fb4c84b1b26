package packet_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"sluice/xdp/packet"
)

// plainSum is RFC 1071 as it reads.
func plainSum(b []byte, initial uint32) uint16 {
	sum := uint64(initial)
	for i, c := range b {
		if i%2 == 0 {
			sum += uint64(c) << 8
		} else {
			sum += uint64(c)
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return uint16(sum)
}

func TestSum(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, 400)
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	for start := range 9 {
		for n := range 300 {
			b, initial := data[start:start+n], r.Uint32()
			if got, want := packet.Sum(b, initial), plainSum(b, initial); got != want {
				t.Fatalf("%d bytes from %d on, initial %08x: %04x, want %04x", n, start, initial, got, want)
			}
		}
	}
}

// TestSumCarries sums what makes the most carries, and what makes none.
func TestSumCarries(t *testing.T) {
	ones := bytes.Repeat([]byte{0xff}, 65536)
	for n := range 100 {
		if got, want := packet.Sum(ones[:n], 0xffffffff), plainSum(ones[:n], 0xffffffff); got != want {
			t.Errorf("%d bytes of ones: %04x, want %04x", n, got, want)
		}
		if got := packet.Sum(make([]byte, n), 0); got != 0 {
			t.Errorf("%d zeros: %04x", n, got)
		}
	}
	if got := packet.Sum(ones, 1); got != 1 {
		t.Errorf("64 KiB of ones and 1: %04x, want 0001", got)
	}
}

func TestDelta(t *testing.T) {
	for _, tc := range []struct {
		name     string
		check    uint16
		from, to uint16
		want     uint16
	}{
		{"nothing changes", 0x1234, 7, 7, 0x1234},
		{"one more", 0x1234, 7, 8, 0x1233},
		{"one less", 0x1234, 8, 7, 0x1235},
		{"result is zero", 0x0001, 7, 8, 0x0000},
		{"below zero comes round", 0x0000, 7, 8, 0xfffe},
		{"example of RFC 1624 section 4", 0xdd2f, 0x5555, 0x3285, 0x0000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := packet.Delta(0).Port(tc.from, tc.to).Apply(tc.check); got != tc.want {
				t.Errorf("%04x, want %04x", got, tc.want)
			}
		})
	}
	if got := packet.Delta(0).Apply(0xffff); got != 0xffff {
		t.Errorf("no change of ffff gives %04x", got)
	}
}

// TestDeltaOfAddresses compares the change of an address with a sum computed anew.
func TestDeltaOfAddresses(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	pick := func(six bool) packet.Addr {
		switch {
		case !six:
			return packet.Addr4(r.Uint32())
		case r.IntN(8) == 0:
			return packet.Addr{Hi: ^uint64(0), Lo: ^uint64(0)}
		}
		return packet.Addr{Hi: r.Uint64(), Lo: r.Uint64()}
	}
	for i := range 100_000 {
		from, to, rest := pick(i%2 == 0), pick(i%2 == 0), 1+r.Uint32N(0xffff)
		was, is := from.As16(), to.As16()
		check, want := ^packet.Sum(was[:], rest), ^packet.Sum(is[:], rest)
		if got := packet.Delta(0).Addr(from, to).Apply(check); got != want {
			t.Fatalf("%v to %v, %04x: %04x, want %04x", from, to, check, got, want)
		}
	}
}

// trailing is a UDP packet of 3 bytes of payload in an IP packet with four bytes more.
func trailing() []byte {
	frame := build(packet.Spec{Tuple: tuple4(udp), Payload: []byte("abc")})
	frame = append(frame, 1, 2, 3, 4)
	binary.BigEndian.PutUint16(frame[16:], 35)
	frame[24], frame[25] = 0, 0
	binary.BigEndian.PutUint16(frame[24:], ^packet.Sum(frame[14:34], 0))
	return frame
}

func TestVerifyL4(t *testing.T) {
	flip := func(frame []byte) []byte {
		frame[len(frame)-1] ^= 1
		return frame
	}
	tcpSegment := packet.Spec{Tuple: tuple4(tcp), Payload: []byte("abc")}
	for _, tc := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"udp", udp4(), true},
		{"udp damaged", flip(udp4()), false},
		{"udp without", put(udp4(), 40, 0, 0), true},
		{"udp over ipv6", udp6(), true},
		{"udp over ipv6 damaged", flip(udp6()), false},
		{"udp over ipv6 without", put(udp6(), 60, 0, 0), false},
		{"udp shorter than ip", trailing(), true},
		{"udp shorter than ip, damaged", put(trailing(), 44, 0xff), false},
		{"damage in the padding", flip(append(udp4(), 0, 0)), true},
		{"tcp", build(tcpSegment), true},
		{"tcp damaged", flip(build(tcpSegment)), false},
		{"icmp", icmp(8, 0), true},
		{"icmp damaged", flip(icmp(8, 0)), false},
		{"icmpv6", icmpv6(128, 0), true},
		{"icmpv6 damaged", flip(icmpv6(128, 0)), false},
		{"fragment cannot be told", put(flip(udp4()), 20, 0x20), true},
		{"gre has none here", put(udp4(), 23, 47), true},
		{"icmp over ipv6 has none here", ipv6(icmp4, 8, 0, 1, 2, 0, 0, 0, 0), true},
		{"icmpv6 over ipv4 has none here", put(udp4(), 23, 58), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			if got := packet.VerifyL4(tc.frame, &in); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestVerifyIP(t *testing.T) {
	options := join(udp4()[:34], []byte{1, 1, 1, 0}, udp4()[34:])
	put(options, 14, 0x46, 0, 0, 35, 0, 0, 0, 0, 64, udp, 0, 0)
	binary.BigEndian.PutUint16(options[24:], ^plainSum(options[14:38], 0))
	for _, tc := range []struct {
		name  string
		frame []byte
		want  bool
	}{
		{"right", udp4(), true},
		{"wrong", put(udp4(), 22, 63), false},
		{"options", options, true},
		{"wrong option", put(append([]byte(nil), options...), 36, 0), false},
		{"ipv6 has none", udp6(), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			if got := packet.VerifyIP(tc.frame, &in); got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// leavePartial writes the sum of the pseudo-header where the checksum goes, by the layout in RFC 768 and RFC 8200.
func leavePartial(frame []byte, in *packet.Info, length int) {
	var header []byte
	src, dst := in.Tuple.Src.As16(), in.Tuple.Dst.As16()
	if in.Family == 4 {
		header = join(src[12:], dst[12:], []byte{0, in.Proto, byte(length >> 8), byte(length)})
	} else {
		header = join(src[:], dst[:], []byte{0, 0, byte(length >> 8), byte(length), 0, 0, 0, in.Proto})
	}
	at := map[uint8]int{tcp: 16, udp: 6, icmp4: 2, icmp6: 2}[in.Proto]
	binary.BigEndian.PutUint16(frame[in.L4+at:], plainSum(header, 0))
}

func TestPartial(t *testing.T) {
	for _, tc := range []struct {
		name  string
		frame []byte
	}{
		{"udp", udp4()},
		{"udp in padding", append(udp4(), 1, 2, 3)},
		{"udp shorter than ip", trailing()},
		{"tcp", tcp4()},
		{"tcp in a tag", build(packet.Spec{VLAN: 7, Tuple: tuple4(tcp), Payload: []byte("abcde")})},
		{"udp over ipv6", udp6()},
		{"tcp over ipv6", build(packet.Spec{Tuple: tuple6(tcp), Payload: []byte("abcde")})},
		{"icmpv6", icmpv6(128, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			if packet.IsPartial(tc.frame, &in) {
				t.Fatal("a whole checksum is taken for a partial one")
			}
			want := l4sum(tc.frame, &in)
			length := in.End - in.L4
			if in.Proto == udp {
				length = int(binary.BigEndian.Uint16(tc.frame[in.L4+4:]))
			}
			leavePartial(tc.frame, &in, length)
			if !packet.IsPartial(tc.frame, &in) || packet.VerifyL4(tc.frame, &in) {
				t.Fatal("a partial checksum is not taken for one")
			}
			packet.Complete(tc.frame, &in)
			if got := l4sum(tc.frame, &in); got != want {
				t.Errorf("completed to %04x, want %04x", got, want)
			}
		})
	}
}

// TestNeverPartial has what no sender leaves to a network card.
func TestNeverPartial(t *testing.T) {
	fragment := put(udp4(), 20, 0x20)
	in := parse(t, fragment)
	leavePartial(fragment, &in, 11)
	echo := icmp(8, 0)
	echoIn := parse(t, echo)
	leavePartial(echo, &echoIn, 8)
	for _, tc := range []struct {
		name  string
		frame []byte
	}{
		{"fragment", fragment},
		{"icmp over ipv4", echo},
		{"gre", put(udp4(), 23, 47)},
		{"udp without checksum", put(udp4(), 40, 0, 0)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := parse(t, tc.frame)
			if packet.IsPartial(tc.frame, &in) {
				t.Error("taken for partial")
			}
		})
	}
	before := append([]byte(nil), fragment...)
	packet.Complete(fragment, &in)
	if !bytes.Equal(fragment, before) {
		t.Error("the checksum of a fragment was computed from a part of the datagram")
	}
}

// TestCompleteZero has payload for which the sum of a UDP packet comes to zero, which must not be written.
func TestCompleteZero(t *testing.T) {
	for _, frame := range [][]byte{
		build(packet.Spec{Tuple: tuple4(udp), Payload: []byte{0, 0}}),
		build(packet.Spec{Tuple: tuple6(udp), Payload: []byte{0, 0}}),
	} {
		in := parse(t, frame)
		copy(frame[in.L4+8:], frame[in.L4+6:in.L4+8]) // what was missing to ones
		packet.Complete(frame, &in)
		if got := l4sum(frame, &in); got != 0xffff || !packet.VerifyL4(frame, &in) {
			t.Errorf("IPv%d: checksum %04x, want ffff", in.Family, got)
		}
	}
}

func TestDecrementTTL(t *testing.T) {
	for ttl := 1; ttl < 256; ttl++ {
		for _, tu := range []packet.Tuple{tuple4(udp), tuple6(udp)} {
			frame := build(packet.Spec{Tuple: tu, TTL: uint8(ttl), ID: uint16(ttl * 77)})
			in := parse(t, frame)
			packet.DecrementTTL(frame, &in)
			if out := checkSums(t, frame); int(out.TTL) != ttl-1 || in != out {
				t.Fatalf("TTL %d became %d, in the Info %d", ttl, out.TTL, in.TTL)
			}
		}
	}
}
