package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// tagged puts VLAN tags into a frame, the outer one first.
func tagged(f []byte, tags ...[2]uint16) []byte {
	b := bytes.Clone(f[:12])
	for _, tag := range tags {
		b = binary.BigEndian.AppendUint16(b, tag[0])
		b = binary.BigEndian.AppendUint16(b, tag[1])
	}
	return append(b, f[12:]...)
}

// TestTags: however many tags a frame comes with, it leaves with those of its way out; an answer goes back with its own.
func TestTags(t *testing.T) {
	const dot1Q, dot1AD = 0x8100, 0x88a8
	tags := map[string][][2]uint16{
		"none": nil, "802.1Q": {{dot1Q, 5}}, "802.1ad": {{dot1AD, 6}}, "QinQ": {{dot1AD, 6}, {dot1Q, 5}},
		"two of 802.1Q, with priorities": {{dot1Q, 6 | 3<<13}, {dot1Q, 5 | 7<<13}},
	}
	for name, in := range tags {
		for _, out := range []uint16{0, 7} {
			for _, tu := range []packet.Tuple{tuple(udp, client, 40000, webVIP, 53), tuple(udp, client6, 40000, webIP6, 53)} {
				t.Run(fmt.Sprint(name, " to VLAN ", out, " ", tu.Dst), func(t *testing.T) {
					b := newBed(t, testTopology())
					b.hops = hops(2, func(h *fib.NextHop) { h.VLAN = out })
					_, back := b.run(0, tagged(frame(tu), in...))
					got := one(t, back)
					if got.Tuple.DstPort != 5353 || got.VLAN != out || got.VLANs != min(int(out), 1) {
						t.Errorf("leaves as %v with %d tags, VLAN %d", got.Tuple, got.VLANs, got.VLAN)
					}
					refused := tu
					refused.DstPort = 99
					front, _ := b.run(0, tagged(frame(refused), in...))
					if answer := one(t, front); answer.VLANs != len(in) || len(in) > 0 && answer.VLAN != in[0][1] {
						t.Errorf("answered with %d tags, VLAN %d", answer.VLANs, answer.VLAN)
					}
				})
			}
		}
	}
	b := newBed(t, testTopology())
	three := tagged(frame(tuple(udp, client, 40000, webVIP, 53)), [2]uint16{dot1AD, 1}, [2]uint16{dot1Q, 2}, [2]uint16{dot1Q, 3})
	if b.run(0, three); len(b.punted) != 1 || b.counters.Packets(reason.NotOurs) != 1 {
		t.Errorf("three tags: %d punted", len(b.punted))
	}
}
