package engine

import (
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"sluice/xdp"
	"sluice/xdp/packet"
)

// FuzzPipeline feeds it frames from the wire, with a few flows there to hit. It must not panic, every frame must be
// somewhere, and what leaves has right checksums if the packet that caused it had.
func FuzzPipeline(f *testing.F) {
	router := packet.AddrFrom(netip.MustParseAddr(routerAddr))
	kept := tuple(udp, client, 40000, localVIP, 53)
	echo := func(s *packet.Spec) { s.ICMPType, s.Payload = packet.ICMPEcho, []byte("odd") }
	f.Add(frame(tuple(tcp, client, 40000, webVIP, 80)), uint8(0))
	f.Add(frame(tuple(udp, client6, 40000, webIP6, 53)), uint8(0))
	f.Add(frame(tuple(udp, client, 40000, webIP, 99)), uint8(0))
	f.Add(frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), echo), uint8(0))
	f.Add(frame(tuple(udp, back1, 5353, client, 40000), func(s *packet.Spec) { s.VLAN = 7 }), uint8(1))
	f.Add(frame(tuple(udp, back1, 5353, client, 40000), ttl(1)), uint8(1))
	f.Add(quoteError(router, frame(kept.Reverse()), 28, packet.TooBig, 1400), uint8(2))
	f.Add(quoteError(router, frame(tuple(udp, client, 40000, back1, 5353)), 1500, packet.TimeExceeded, 0), uint8(3))
	conn := tuple(tcp, podClient, 40000, webIP, 80)
	f.Add(frame(conn, flags(packet.TCPAck), payload(7)), uint8(4))
	f.Add(frame(tuple(tcp, back1, 8080, podClient, 40000), flags(packet.TCPAck)), uint8(5))
	f.Add(frame(tuple(tcp, client, 40000, idleIP, 80), func(s *packet.Spec) { s.VLAN = 7 }), uint8(4))
	plain := newBed(f, testTopology())
	plain.run(0, frame(kept), frame(conn))
	resets := resettingBed(f, conn)
	f.Fuzz(func(t *testing.T, data []byte, how uint8) {
		// how: the interface, whether to put the checksums right, and whether connections are reset
		b := plain
		if how&4 != 0 {
			b = resets
		}
		b.t, b.punted = t, nil
		if how&2 != 0 {
			data = repaired(data)
		}
		if err := b.port.Deliver(int(how&1), data); err != nil {
			return // longer than a frame
		}
		sound := isSound(data)
		frames := make([]xdp.Frame, 1)
		n := b.port.Receive(frames)
		b.now += 1e6
		b.p.Process(b.snap, b.now, frames[:n])
		if err := b.port.Flush(); err != nil {
			t.Fatal(err)
		}
		for _, out := range append(b.port.Sent(0), b.port.Sent(1)...) {
			if sound && !isSound(out) {
				t.Errorf("in  %x\nout %x", data, out)
			}
		}
		b.audit()
	})
}

// resettingBed is one that answers TCP with a RST wherever it can, and has a connection whose endpoint has left.
func resettingBed(f *testing.F, conn packet.Tuple) *bed {
	topo, next := resetting(testTopology()), resetting(moved())
	topo.Gateway.RejectWith, next.Gateway.RejectWith = rejectReset, rejectReset
	b := newBed(f, topo)
	b.run(0, frame(conn))
	b.reload(next)
	return b
}

// isSound reports whether a frame is a packet whose checksums are right, or are yet to be completed.
func isSound(frame []byte) bool {
	var in packet.Info
	return packet.Parse(frame, &in) == packet.OK && packet.VerifyIP(frame, &in) &&
		(packet.VerifyL4(frame, &in) || packet.IsPartial(frame, &in))
}

// repaired is a frame with right checksums, so that mutations get past those who check them.
func repaired(frame []byte) []byte {
	frame = slices.Clone(frame)
	var in packet.Info
	if packet.Parse(frame, &in) != packet.OK {
		return frame
	}
	if in.Family == 4 {
		h := frame[in.L3:in.L4]
		h[10], h[11] = 0, 0
		binary.BigEndian.PutUint16(h[10:], ^packet.Sum(h, 0))
	}
	packet.Complete(frame, &in)
	return frame
}
