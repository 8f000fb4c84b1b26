package punt

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"sluice/xdp/packet"
)

// TestHeaderSaysWhereTheChecksumIs leaves the sum of the pseudo-header in the checksum of each transport that a sender may leave
// to its network card, and has the kernel's part done by hand: summing up from the start and storing at the offset that
// the header gives must make the packet right.
func TestHeaderSaysWhereTheChecksumIs(t *testing.T) {
	v4, v6 := packet.AddrFrom(netip.MustParseAddr("198.18.0.1")), packet.AddrFrom(netip.MustParseAddr("2001:db8::1"))
	for _, tc := range []struct {
		name  string
		addr  packet.Addr
		proto uint8
	}{
		{"tcp", v4, packet.ProtoTCP}, {"udp", v4, packet.ProtoUDP},
		{"tcp over ipv6", v6, packet.ProtoTCP}, {"udp over ipv6", v6, packet.ProtoUDP}, {"icmpv6", v6, packet.ProtoICMPv6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := packet.Spec{Tuple: packet.Tuple{Src: tc.addr, Dst: tc.addr, SrcPort: 1, DstPort: 2, Proto: tc.proto},
				ICMPType: packet.ICMPv6Echo, Payload: []byte("payload")}
			frame := packet.Build(make([]byte, 256), &spec)
			var in packet.Info
			packet.Parse(frame, &in)
			at := in.L4 + map[uint8]int{packet.ProtoTCP: 16, packet.ProtoUDP: 6, packet.ProtoICMPv6: 2}[tc.proto]
			frame[at], frame[at+1] = pseudo(frame, in)
			p := &Punter{buf: make([]byte, headerLen+len(frame))}
			p.header(frame)
			if p.buf[0] != needsChecksum {
				t.Fatal("the kernel is not told to complete the checksum")
			}
			start, offset := binary.NativeEndian.Uint16(p.buf[6:]), binary.NativeEndian.Uint16(p.buf[8:])
			binary.BigEndian.PutUint16(frame[start+offset:], ^packet.Sum(frame[start:in.End], 0))
			if !packet.VerifyL4(frame, &in) {
				t.Errorf("wrong checksum with start %d, offset %d", start, offset)
			}
		})
	}
}

// TestHeaderCompletesSCTP: the kernel's header has no word for a checksum of 32 bits.
func TestHeaderCompletesSCTP(t *testing.T) {
	v4 := packet.AddrFrom(netip.MustParseAddr("198.18.0.1"))
	spec := packet.Spec{Tuple: packet.Tuple{Src: v4, Dst: v4, SrcPort: 1, DstPort: 2, Proto: packet.ProtoSCTP}, Payload: []byte("payload!")}
	for _, damaged := range []bool{false, true} {
		frame := packet.Build(make([]byte, 256), &spec)
		var in packet.Info
		packet.Parse(frame, &in)
		clear(frame[in.L4+8 : in.L4+12])
		if damaged {
			frame[in.L4+8] = 1
		}
		p := &Punter{buf: make([]byte, headerLen+len(frame))}
		p.header(frame)
		if p.buf[0] != 0 || packet.VerifyL4(frame, &in) == damaged {
			t.Errorf("damaged %v: flags %#x, checksum right: %v", damaged, p.buf[0], !damaged)
		}
	}
}

// pseudo returns the bytes of the folded sum of the pseudo-header.
func pseudo(frame []byte, in packet.Info) (byte, byte) {
	src, size := in.L3+12, 8
	if in.Family == 6 {
		src, size = in.L3+8, 32
	}
	s := packet.Sum(frame[src:src+size], uint32(in.Proto)+uint32(in.End-in.L4))
	return byte(s >> 8), byte(s)
}
