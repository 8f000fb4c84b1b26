package packet_test

import (
	"net/netip"
	"testing"

	"sluice/xdp/packet"
)

func addr(s string) packet.Addr { return packet.AddrFrom(netip.MustParseAddr(s)) }

func tuple(proto uint8, src string, sport uint16, dst string, dport uint16) packet.Tuple {
	return packet.Tuple{Src: addr(src), Dst: addr(dst), SrcPort: sport, DstPort: dport, Proto: proto}
}

// kinds are frames of 60 bytes or little more, as flows of small packets send them.
func kinds() []struct {
	name  string
	frame []byte
} {
	build := func(s packet.Spec) []byte { return packet.Build(make([]byte, 256), &s) }
	const c, v, c6, v6 = "192.0.2.10", "203.0.113.5", "2001:db8::10", "2001:db8:f::5"
	return []struct {
		name  string
		frame []byte
	}{
		{"udp4", build(packet.Spec{Tuple: tuple(packet.ProtoUDP, c, 40000, v, 53), Payload: make([]byte, 18)})},
		{"tcp4", build(packet.Spec{Tuple: tuple(packet.ProtoTCP, c, 40000, v, 80), Payload: make([]byte, 6)})},
		{"udp6", build(packet.Spec{Tuple: tuple(packet.ProtoUDP, c6, 40000, v6, 53)})},
		{"tcp6", build(packet.Spec{Tuple: tuple(packet.ProtoTCP, c6, 40000, v6, 80)})},
		{"udp4 in vlan", build(packet.Spec{VLAN: 7, Tuple: tuple(packet.ProtoUDP, c, 40000, v, 53), Payload: make([]byte, 18)})},
		{"echo4", build(packet.Spec{Tuple: tuple(packet.ProtoICMP, c, 7777, v, 7777), ICMPType: packet.ICMPEcho})},
	}
}

func BenchmarkParse(b *testing.B) {
	for _, k := range kinds() {
		b.Run("kind="+k.name, func(b *testing.B) {
			var in packet.Info
			b.ReportAllocs()
			for b.Loop() {
				packet.Parse(k.frame, &in)
			}
		})
	}
}

func BenchmarkSum(b *testing.B) {
	for _, size := range []struct {
		name string
		n    int
	}{{"20", 20}, {"64", 64}, {"577", 577}, {"1460", 1460}} {
		b.Run("bytes="+size.name, func(b *testing.B) {
			data := make([]byte, size.n)
			b.SetBytes(int64(size.n))
			for b.Loop() {
				packet.Sum(data, 0)
			}
		})
	}
}
