package packet_test

import (
	"fmt"
	"testing"

	"sluice/xdp/packet"
)

type kind struct {
	name  string
	frame []byte
}

// kinds are frames of 60 bytes or little more, as flows of small packets send them.
func kinds() []kind {
	return []kind{
		{"udp4", build(packet.Spec{Tuple: tuple4(udp), Payload: make([]byte, 18)})},
		{"tcp4", build(packet.Spec{Tuple: tuple4(tcp), Payload: make([]byte, 6)})},
		{"udp6", build(packet.Spec{Tuple: tuple6(udp)})},
		{"tcp6", build(packet.Spec{Tuple: tuple6(tcp)})},
		{"vlan", build(packet.Spec{VLAN: 7, Tuple: tuple4(udp), Payload: make([]byte, 14)})},
		{"echo4", build(packet.Spec{Tuple: tuple4(icmp4), ICMPType: packet.ICMPEcho})},
		{"hopbyhop", ipv6(0, join(hopByHop(udp), udpHeader())...)},
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
	for _, size := range []int{20, 64, 577, 1460} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			data := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				packet.Sum(data, 0)
			}
		})
	}
}

// TestNothingAllocates covers what runs for a packet: parsing, sums, and the building of answers.
func TestNothingAllocates(t *testing.T) {
	buf := make([]byte, 2048)
	spec := packet.Spec{Tuple: tuple4(udp), Payload: []byte("abc")}
	echo := packet.Spec{Tuple: tuple6(icmp6), ICMPType: packet.ICMPv6Echo}
	var in, quote packet.Info
	sound := true
	n := testing.AllocsPerRun(100, func() {
		frame := packet.Build(buf[128:], &spec)
		packet.Parse(frame, &in)
		packet.DecrementTTL(frame, &in)
		sound = sound && packet.VerifyL4(frame, &in) && packet.VerifyIP(frame, &in) && !packet.IsPartial(frame, &in) &&
			packet.MayAnswer(frame, &in)
		start, end, ok := packet.BuildError(buf, 128, 128+len(frame), &in, packet.TooBig, in.Tuple.Dst, 1400)
		sound = sound && ok && packet.Parse(buf[start:end], &in) == packet.OK &&
			packet.ParseQuote(buf[start:end], &in, &quote) == packet.OK

		frame = packet.Build(buf, &echo)
		packet.Parse(frame, &in)
		packet.EchoReply(frame, &in)
		packet.Complete(frame, &in)
	})
	if n != 0 || !sound {
		t.Errorf("%v allocations; all went well: %v", n, sound)
	}
}
