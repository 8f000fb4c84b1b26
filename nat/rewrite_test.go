package nat_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"sluice/nat"
	"sluice/xdp/packet"
)

func addr(s string) packet.Addr { return packet.AddrFrom(netip.MustParseAddr(s)) }

func tuple(proto uint8, src string, sport uint16, dst string, dport uint16) packet.Tuple {
	return packet.Tuple{Src: addr(src), Dst: addr(dst), SrcPort: sport, DstPort: dport, Proto: proto}
}

func parse(t testing.TB, frame []byte) packet.Info {
	t.Helper()
	var in packet.Info
	if s := packet.Parse(frame, &in); s != packet.OK {
		t.Fatalf("parse: %v", s)
	}
	return in
}

// l4sum reads the transport checksum.
func l4sum(frame []byte, in packet.Info) uint16 {
	at := map[uint8]int{packet.ProtoTCP: 16, packet.ProtoUDP: 6, packet.ProtoICMP: 2, packet.ProtoICMPv6: 2}[in.Proto]
	return binary.BigEndian.Uint16(frame[in.L4+at:])
}

const (
	udp, tcp       = packet.ProtoUDP, packet.ProtoTCP
	c, v, b1, node = "192.0.2.10", "203.0.113.5", "10.0.0.7", "10.0.0.1"
	router         = "198.51.100.1"
	c6, v6, b6     = "2001:db8::10", "2001:db8:f::5", "fd00::7"
)

// TestVectors are packets whose checksums were computed elsewhere.
func TestVectors(t *testing.T) {
	for _, tc := range []struct {
		name     string
		spec     packet.Spec
		to       packet.Tuple
		in, out  uint16 // transport checksum
		ipIn, ip uint16 // IPv4 header checksum, 0 for not given
	}{
		{"udp odd payload", packet.Spec{Tuple: tuple(udp, c, 40000, v, 53), ID: 0x1234, DF: true, Payload: []byte("abc")},
			tuple(udp, c, 40000, b1, 5353), 0xa0ef, 0xbe3a, 0x2a8a, 0x5c89},
		{"udp reply", packet.Spec{Tuple: tuple(udp, b1, 5353, c, 40000), Payload: []byte("abc")},
			tuple(udp, v, 53, c, 40000), 0xbe3a, 0xa0ef, 0, 0},
		{"udp result zero", packet.Spec{Tuple: tuple(udp, c, 40000, v, 53), Payload: []byte{0x61, 0x62, 0x21, 0x39}},
			tuple(udp, c, 40000, b1, 5353), 0xe2b4, 0xffff, 0, 0},
		{"udp arrives as ffff", packet.Spec{Tuple: tuple(udp, c, 40000, v, 53), Payload: []byte{0x61, 0x62, 0x03, 0xee}},
			tuple(udp, c, 40000, b1, 5353), 0xffff, 0x1d4b, 0, 0},
		{"tcp syn", packet.Spec{Tuple: tuple(tcp, c, 40000, v, 80), Seq: 1, Window: 0xffff, TCPFlags: packet.TCPSyn},
			tuple(tcp, c, 40000, b1, 8080), 0x1541, 0x2800, 0, 0},
		{"tcp syn full nat", packet.Spec{Tuple: tuple(tcp, c, 40000, v, 80), Seq: 1, Window: 0xffff, TCPFlags: packet.TCPSyn},
			tuple(tcp, node, 61001, b1, 8080), 0x1541, 0x8e00, 0, 0},
		{"udp over ipv6", packet.Spec{Tuple: tuple(udp, c6, 40000, v6, 53), Payload: []byte("abc")},
			tuple(udp, c6, 40000, b6, 5353), 0x436a, 0x5f7b, 0, 0},
	} {
		for mode, name := range map[nat.ChecksumMode]string{nat.Auto: "auto", nat.Incremental: "incremental", nat.Full: "full"} {
			t.Run(tc.name+"/"+name, func(t *testing.T) {
				frame := packet.Build(make([]byte, 256), &tc.spec)
				in := parse(t, frame)
				if got := l4sum(frame, in); got != tc.in {
					t.Fatalf("checksum of the input is %04x, want %04x", got, tc.in)
				}
				if got := binary.BigEndian.Uint16(frame[in.L3+10:]); tc.ipIn != 0 && got != tc.ipIn {
					t.Fatalf("header checksum of the input is %04x, want %04x", got, tc.ipIn)
				}
				nat.Rewrite(frame, &in, &tc.to, mode)
				out := parse(t, frame)
				if out.Tuple != tc.to || in.Tuple != tc.to {
					t.Errorf("tuple is %v, want %v", out.Tuple, tc.to)
				}
				if got := l4sum(frame, out); got != tc.out {
					t.Errorf("checksum is %04x, want %04x", got, tc.out)
				}
				if got := binary.BigEndian.Uint16(frame[in.L3+10:]); tc.ip != 0 && got != tc.ip {
					t.Errorf("header checksum is %04x, want %04x", got, tc.ip)
				}
			})
		}
	}
}

func TestTTLVector(t *testing.T) {
	spec := packet.Spec{Tuple: tuple(udp, c, 40000, b1, 5353), ID: 0x1234, DF: true, Payload: []byte("abc")}
	frame := packet.Build(make([]byte, 256), &spec)
	in := parse(t, frame)
	packet.DecrementTTL(frame, &in)
	if got := binary.BigEndian.Uint16(frame[in.L3+10:]); got != 0x5d89 || frame[in.L3+8] != 63 {
		t.Errorf("header checksum %04x with TTL %d, want 5d89 with 63", got, frame[in.L3+8])
	}
}

// TestZerosOnly rewrites an echo reply that has nothing but zeros left: its checksum is ffff, the one case in which
// an update by difference would give the other zero, which does not verify.
func TestZerosOnly(t *testing.T) {
	for mode, name := range map[nat.ChecksumMode]string{nat.Auto: "auto", nat.Incremental: "incremental", nat.Full: "full"} {
		t.Run(name, func(t *testing.T) {
			spec := packet.Spec{Tuple: tuple(packet.ProtoICMP, b1, 7777, c, 7777), Payload: make([]byte, 56)}
			frame := packet.Build(make([]byte, 256), &spec)
			in := parse(t, frame)
			to := tuple(packet.ProtoICMP, v, 0, c, 0)
			nat.Rewrite(frame, &in, &to, mode)
			if got := l4sum(frame, in); got != 0xffff || !packet.VerifyL4(frame, &in) {
				t.Errorf("checksum %04x, want ffff", got)
			}
		})
	}
}

// TestTrailingBytes rewrites a UDP packet that ends before its IP packet does: the rest is not covered by the
// checksum.
func TestTrailingBytes(t *testing.T) {
	for mode, name := range map[nat.ChecksumMode]string{nat.Auto: "auto", nat.Incremental: "incremental", nat.Full: "full"} {
		t.Run(name, func(t *testing.T) {
			spec := packet.Spec{Tuple: tuple(udp, c6, 40000, v6, 53), Payload: []byte("abc")}
			frame := append(packet.Build(make([]byte, 256), &spec), 1, 2, 3, 4)
			frame[19] += 4 // the payload length
			in := parse(t, frame)
			to := tuple(udp, c6, 40000, b6, 5353)
			nat.Rewrite(frame, &in, &to, mode)
			if got := l4sum(frame, in); got != 0x5f7b {
				t.Errorf("checksum %04x, want 5f7b", got)
			}
		})
	}
}

func TestUDPZeroStaysZero(t *testing.T) {
	for mode, name := range map[nat.ChecksumMode]string{nat.Auto: "auto", nat.Incremental: "incremental", nat.Full: "full"} {
		t.Run(name, func(t *testing.T) {
			spec := packet.Spec{Tuple: tuple(udp, c, 40000, v, 53), Payload: []byte("abc")}
			frame := packet.Build(make([]byte, 256), &spec)
			in := parse(t, frame)
			frame[in.L4+6], frame[in.L4+7] = 0, 0
			to := tuple(udp, c, 40000, b1, 5353)
			nat.Rewrite(frame, &in, &to, mode)
			if l4sum(frame, in) != 0 || !packet.VerifyIP(frame, &in) {
				t.Errorf("checksum is %04x, want none", l4sum(frame, in))
			}
		})
	}
}

// randomPacket builds a valid packet of a random kind in the first part of buf, and returns the tuple it is to carry.
func randomPacket(r *rand.Rand, buf []byte) ([]byte, packet.Tuple) {
	spec, to := randomSpec(r, buf)
	return packet.Build(buf[:1500], &spec), to
}

// randomSpec describes a packet of a random kind, with payload from the end of buf, and the tuple it is to carry.
func randomSpec(r *rand.Rand, buf []byte) (packet.Spec, packet.Tuple) {
	six := r.IntN(2) == 1
	address := func() packet.Addr {
		if six {
			return packet.Addr{Hi: r.Uint64(), Lo: r.Uint64()}
		}
		return packet.Addr4(r.Uint32())
	}
	spec := packet.Spec{VLAN: uint16(r.IntN(2)) * 7, TTL: uint8(2 + r.IntN(250)), Seq: r.Uint32(), TCPFlags: packet.TCPAck}
	proto := []uint8{udp, tcp, packet.ProtoICMP}[r.IntN(3)]
	if proto == packet.ProtoICMP {
		spec.ICMPType = packet.ICMPEcho
		if six {
			proto, spec.ICMPType = packet.ProtoICMPv6, packet.ICMPv6Echo
		}
	}
	make2 := func() packet.Tuple {
		t := packet.Tuple{Src: address(), Dst: address(), SrcPort: uint16(r.Uint32()), DstPort: uint16(r.Uint32()), Proto: proto}
		if proto == packet.ProtoICMP || proto == packet.ProtoICMPv6 {
			t.DstPort = t.SrcPort
		}
		return t
	}
	spec.Tuple = make2()
	spec.Payload = buf[1600 : 1600+r.IntN(80)]
	for i := range spec.Payload {
		spec.Payload[i] = byte(r.Uint32())
	}
	return spec, make2()
}

// TestIncrementalEqualsFull rewrites a million random packets by difference and compares with computing anew.
func TestIncrementalEqualsFull(t *testing.T) {
	count := 1_000_000
	if testing.Short() {
		count = 50_000
	}
	r := rand.New(rand.NewPCG(1, 2))
	buf, copy1, copy2 := make([]byte, 2048), make([]byte, 1500), make([]byte, 1500)
	for i := range count {
		frame, to := randomPacket(r, buf)
		a, b := copy1[:copy(copy1, frame)], copy2[:copy(copy2, frame)]
		in := parse(t, a)
		inA, inB := in, in
		nat.Rewrite(a, &inA, &to, nat.Incremental)
		nat.Rewrite(b, &inB, &to, nat.Full)
		if !bytes.Equal(a, b) {
			t.Fatalf("packet %d, %v to %v:\nincremental %x\nfull        %x", i, in.Tuple, to, a, b)
		}
		if !packet.VerifyIP(a, &inA) || !packet.VerifyL4(a, &inA) {
			t.Fatalf("packet %d: a checksum is wrong: %x", i, a)
		}
	}
}

// TestPartialChecksumIsCompleted leaves the pseudo-header sum in the checksum, as a sender with offload does.
func TestPartialChecksumIsCompleted(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	buf := make([]byte, 2048)
	for range 20_000 {
		frame, to := randomPacket(r, buf)
		in := parse(t, frame)
		if in.Proto == packet.ProtoICMP {
			continue
		}
		makePartial(frame, &in)
		if !packet.IsPartial(frame, &in) {
			t.Fatalf("not taken for partial: %x", frame)
		}
		nat.Rewrite(frame, &in, &to, nat.Auto)
		if !packet.VerifyL4(frame, &in) || !packet.VerifyIP(frame, &in) {
			t.Fatalf("wrong checksum: %x", frame)
		}
	}
}

// makePartial writes the folded sum of the pseudo-header where the checksum goes.
func makePartial(frame []byte, in *packet.Info) {
	header := make([]byte, 40)
	src, dst := in.Tuple.Src.As16(), in.Tuple.Dst.As16()
	if in.Family == 4 {
		copy(header, src[12:])
		copy(header[4:], dst[12:])
	} else {
		copy(header, src[:])
		copy(header[16:], dst[:])
	}
	binary.BigEndian.PutUint16(header[34:], uint16(in.End-in.L4))
	header[39] = in.Proto
	at := in.L4 + map[uint8]int{tcp: 16, udp: 6, packet.ProtoICMPv6: 2}[in.Proto]
	binary.BigEndian.PutUint16(frame[at:], packet.Sum(header, 0))
}

func TestRewriteDoesNotAllocate(t *testing.T) {
	spec := packet.Spec{Tuple: tuple(tcp, c, 40000, v, 80), Payload: []byte("abc")}
	frame := packet.Build(make([]byte, 256), &spec)
	in := parse(t, frame)
	there, back := tuple(tcp, node, 61001, b1, 8080), tuple(tcp, c, 40000, v, 80)
	if n := testing.AllocsPerRun(100, func() {
		nat.Rewrite(frame, &in, &there, nat.Auto)
		nat.Rewrite(frame, &in, &back, nat.Auto)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRewrite(b *testing.B) {
	for name, mode := range map[string]nat.ChecksumMode{"auto": nat.Auto, "full": nat.Full} {
		b.Run("checksum="+name, func(b *testing.B) {
			spec := packet.Spec{Tuple: tuple(udp, c, 40000, v, 80), Payload: make([]byte, 18)}
			frame := packet.Build(make([]byte, 256), &spec)
			in := parse(b, frame)
			there, back := tuple(udp, c, 40000, b1, 8080), tuple(udp, c, 40000, v, 80)
			b.ReportAllocs()
			for b.Loop() {
				nat.Rewrite(frame, &in, &there, mode)
				nat.Rewrite(frame, &in, &back, mode)
			}
		})
	}
}
