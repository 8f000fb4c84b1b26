package packet_test

import (
	"bytes"
	"testing"

	"sluice/xdp/packet"
)

// TestAnswerUDP answers with payloads that are shorter and longer than the question, over both families and a VLAN: what comes
// out is what Build makes of the answer.
func TestAnswerUDP(t *testing.T) {
	for _, ends := range [][2]string{{client4, service4}, {client6, service6}} {
		for _, vlan := range []uint16{0, 100} {
			for _, size := range []int{0, 1, 12, 40, 1232} {
				q := packet.Spec{SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}, DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, VLAN: vlan, TTL: 9, ID: 77,
					Tuple:   packet.Tuple{Src: addr(ends[0]), Dst: addr(ends[1]), SrcPort: 4000, DstPort: 53, Proto: packet.ProtoUDP},
					Payload: bytes.Repeat([]byte{0xee}, 40)}
				buf := make([]byte, 1400)
				var in packet.Info
				if packet.Parse(packet.Build(buf, &q), &in) != packet.OK {
					t.Fatal("not a datagram")
				}
				payload := bytes.Repeat([]byte{7}, size)
				n := packet.AnswerUDP(buf, &in, payload)
				want := packet.Spec{SrcMAC: q.DstMAC, DstMAC: q.SrcMAC, VLAN: vlan, Tuple: q.Tuple.Reverse(), DF: true, Payload: payload}
				w := packet.Build(make([]byte, 1400), &want)
				for len(w) < 60 {
					w = append(w, 0)
				}
				if !bytes.Equal(buf[:n], w) {
					t.Errorf("%v vlan %d, %d bytes:\n%x\nwant\n%x", ends, vlan, size, buf[:n], w)
				}
				if in.Tuple != want.Tuple || in.TTL != 64 || !packet.VerifyL4(buf[:n], &in) || !packet.VerifyIP(buf[:n], &in) {
					t.Errorf("left behind: %+v", in)
				}
			}
		}
	}
}

func TestUDPRoom(t *testing.T) {
	in4 := packet.Info{L3: 14, L4: 34}
	in6 := packet.Info{L3: 18, L4: 58}
	for _, tc := range []struct {
		size, start, mtu, want int
		in                     *packet.Info
	}{
		{2048, 256, 1500, 1472, &in4},
		{2048, 256, 1280, 1232, &in6},
		{1024, 256, 1500, 1024 - 256 - 34 - 8, &in4},
		{64, 60, 1500, 64 - 60 - 42, &in4},
	} {
		if got := packet.UDPRoom(tc.size, tc.start, tc.mtu, tc.in); got != tc.want {
			t.Errorf("%d, %d, %d: %d, want %d", tc.size, tc.start, tc.mtu, got, tc.want)
		}
	}
}
