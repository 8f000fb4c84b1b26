package packet_test

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"sluice/xdp/packet"
)

// resetTuple is a connection from a client to a service address.
func resetTuple(src, dst string) packet.Tuple {
	return packet.Tuple{Src: packet.AddrFrom(netip.MustParseAddr(src)), Dst: packet.AddrFrom(netip.MustParseAddr(dst)),
		SrcPort: 40000, DstPort: 80, Proto: packet.ProtoTCP}
}

// TestBuildResetVector is a SYN without options and the RST|ACK that answers it, to the last bit of its checksum.
func TestBuildResetVector(t *testing.T) {
	buf := make([]byte, 2000)
	syn := packet.Build(buf, &packet.Spec{SrcMAC: [6]byte{1}, DstMAC: [6]byte{2}, Tuple: resetTuple("192.0.2.10", "203.0.113.5"), ID: 1234,
		DF: true, TCPFlags: packet.TCPSyn, Seq: 1, Window: 0xffff})
	var in packet.Info
	if packet.Parse(syn, &in) != packet.OK || binary.BigEndian.Uint16(syn[in.L4+16:]) != 0x1541 {
		t.Fatalf("the SYN is another: %x", syn)
	}
	start, end, ok := packet.BuildReset(buf, 0, len(syn), &in)
	if !ok || start != 0 || end != 54 {
		t.Fatalf("%d to %d, %v", start, end, ok)
	}
	want := []byte{
		1, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8, 0,
		0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0x3c, 0xc0, 203, 0, 113, 5, 192, 0, 2, 10,
		0, 80, 0x9c, 0x40, 0, 0, 0, 0, 0, 0, 0, 2, 0x50, 0x14, 0, 0, 0x15, 0x2e, 0, 0,
	}
	if !bytes.Equal(buf[:end], want) {
		t.Errorf("got  %x\nwant %x", buf[:end], want)
	}
}

// TestBuildReset covers what a RST answers and how it is numbered.
func TestBuildReset(t *testing.T) {
	for _, tc := range []struct {
		name      string
		flags     uint8
		data      int
		flagsWant uint8 // 0: no answer
		seq, ack  uint32
	}{
		{"syn", packet.TCPSyn, 0, packet.TCPRst | packet.TCPAck, 0, 1001},
		{"syn with data", packet.TCPSyn, 10, packet.TCPRst | packet.TCPAck, 0, 1011},
		{"data without ack", packet.TCPPsh, 10, packet.TCPRst | packet.TCPAck, 0, 1010},
		{"fin without ack", packet.TCPFin, 3, packet.TCPRst | packet.TCPAck, 0, 1004},
		{"ack", packet.TCPAck, 0, packet.TCPRst, 7000, 0},
		{"data", packet.TCPAck | packet.TCPPsh, 500, packet.TCPRst, 7000, 0},
		{"syn and ack", packet.TCPSyn | packet.TCPAck, 0, packet.TCPRst, 7000, 0},
		{"fin", packet.TCPAck | packet.TCPFin, 0, packet.TCPRst, 7000, 0},
		{"rst", packet.TCPRst, 0, 0, 0, 0},
		{"rst and ack", packet.TCPRst | packet.TCPAck, 0, 0, 0, 0},
	} {
		for _, family := range []struct{ name, src, dst string }{
			{"v4", "192.0.2.10", "203.0.113.5"}, {"v6", "2001:db8::1", "2001:db8::2"},
		} {
			t.Run(tc.name+" "+family.name, func(t *testing.T) {
				const start = 128
				tu := resetTuple(family.src, family.dst)
				buf := make([]byte, 2000)
				f := packet.Build(buf[start:], &packet.Spec{VLAN: 7, Tuple: tu, TCPFlags: tc.flags, Seq: 1000, Ack: 7000,
					Payload: make([]byte, tc.data)})
				before := bytes.Clone(buf)
				var in, out packet.Info
				packet.Parse(f, &in)
				s, e, ok := packet.BuildReset(buf, start, start+len(f), &in)
				if !ok || tc.flagsWant == 0 {
					if ok != (tc.flagsWant != 0) || s != start || e != start+len(f) || !bytes.Equal(buf, before) {
						t.Fatalf("ok %v, %d to %d, changed %v", ok, s, e, !bytes.Equal(buf, before))
					}
					return
				}
				r := buf[s:e]
				if packet.Parse(r, &out) != packet.OK || !packet.VerifyIP(r, &out) || !packet.VerifyL4(r, &out) {
					t.Fatalf("wrong packet %x", r)
				}
				seq, ack := binary.BigEndian.Uint32(r[out.L4+4:]), binary.BigEndian.Uint32(r[out.L4+8:])
				if out.Tuple != tu.Reverse() || out.TCPFlags != tc.flagsWant || seq != tc.seq || ack != tc.ack || out.VLAN != 7 {
					t.Errorf("%v flags %#x seq %d ack %d VLAN %d", out.Tuple, out.TCPFlags, seq, ack, out.VLAN)
				}
				if out.End-out.L4 != packet.TCPLen || r[out.L4+14]|r[out.L4+15] != 0 {
					t.Error("data, options or a window are left")
				}
			})
		}
	}
}

// TestBuildResetTakesOptionsOff answers segments whose headers are longer than the least, and keeps the minimal frame.
func TestBuildResetTakesOptionsOff(t *testing.T) {
	tu := resetTuple("192.0.2.10", "203.0.113.5")
	buf := make([]byte, 200)
	f := packet.Build(buf, &packet.Spec{Tuple: tu, TCPFlags: packet.TCPSyn, Seq: 1000, Payload: bytes.Repeat([]byte{1}, 20)})
	f[14+20+12] = 10 << 4 // the payload becomes options: 20 bytes of NOP
	var in, out packet.Info
	packet.Parse(f, &in)
	_, end, ok := packet.BuildReset(buf, 0, len(f), &in)
	if !ok || packet.Parse(buf[:end], &out) != packet.OK || end != 60 {
		t.Fatalf("ok %v, end %d", ok, end)
	}
	if got := binary.BigEndian.Uint32(buf[out.L4+8:]); got != 1001 {
		t.Errorf("acknowledges %d, want 1001: options are no data", got)
	}
	if !bytes.Equal(buf[54:60], make([]byte, 6)) {
		t.Errorf("padding %x", buf[54:60])
	}
}

// TestPassReset keeps the numbers and the TTL of the segment.
func TestPassReset(t *testing.T) {
	for _, tc := range []struct {
		flags, want uint8
		ack         uint32
	}{{packet.TCPAck | packet.TCPPsh, packet.TCPRst | packet.TCPAck, 7000}, {packet.TCPSyn, packet.TCPRst, 0}, {packet.TCPRst, 0, 0}} {
		tu := resetTuple("2001:db8::1", "2001:db8::2")
		buf := make([]byte, 2000)
		f := packet.Build(buf, &packet.Spec{Tuple: tu, TTL: 9, TCPFlags: tc.flags, Seq: 1000, Ack: 7000, Payload: make([]byte, 100)})
		var in packet.Info
		packet.Parse(f, &in)
		end, ok := packet.PassReset(buf, 0, len(f), &in)
		if ok != (tc.want != 0) {
			t.Fatalf("flags %#x: %v", tc.flags, ok)
		}
		if !ok {
			continue
		}
		r := buf[:end]
		if in.Tuple != tu || in.TTL != 9 || in.TCPFlags != tc.want || in.End != in.L4+packet.TCPLen || !packet.VerifyL4(r, &in) {
			t.Errorf("flags %#x: %+v", tc.flags, in)
		}
		if binary.BigEndian.Uint32(r[in.L4+4:]) != 1000 || binary.BigEndian.Uint32(r[in.L4+8:]) != tc.ack {
			t.Errorf("flags %#x: numbers %x", tc.flags, r[in.L4+4:in.L4+12])
		}
	}
}

// FuzzBuildReset answers whatever parses: the answer parses, has right checksums, and stays inside the buffer.
func FuzzBuildReset(f *testing.F) {
	tu := resetTuple("192.0.2.10", "203.0.113.5")
	f.Add(packet.Build(make([]byte, 200), &packet.Spec{Tuple: tu, TCPFlags: packet.TCPSyn}))
	f.Add(packet.Build(make([]byte, 200), &packet.Spec{Tuple: resetTuple("2001:db8::1", "2001:db8::2"), VLAN: 3,
		TCPFlags: packet.TCPAck, Payload: []byte("abc")}))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var in, out packet.Info
		if packet.Parse(frame, &in) != packet.OK {
			return
		}
		onward, passed := bytes.Clone(frame), in
		start, end, ok := packet.BuildReset(frame, 0, len(frame), &in)
		newEnd, ok2 := packet.PassReset(onward, 0, len(onward), &passed)
		if ok != ok2 {
			t.Fatalf("one way %v, the other %v", ok, ok2)
		}
		if !ok {
			return
		}
		for _, r := range [][]byte{frame[start:end], onward[:newEnd]} {
			if packet.Parse(r, &out) != packet.OK || !packet.VerifyIP(r, &out) || !packet.VerifyL4(r, &out) || out.TCPFlags&packet.TCPRst == 0 {
				t.Fatalf("wrong packet %x", r)
			}
		}
	})
}
