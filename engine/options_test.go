package engine

import (
	"bytes"
	"encoding/binary"
	"testing"

	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// withOptions puts IPv4 options into a packet.
func withOptions(f []byte, options ...byte) []byte {
	var in packet.Info
	packet.Parse(f, &in)
	b := bytes.Join([][]byte{f[:in.L4], options, f[in.L4:]}, nil)
	h := b[in.L3:]
	h[0] += byte(len(options) / 4)
	binary.BigEndian.PutUint16(h[2:], binary.BigEndian.Uint16(h[2:])+uint16(len(options)))
	h[10], h[11] = 0, 0
	binary.BigEndian.PutUint16(h[10:], ^packet.Sum(h[:packet.IPv4Len+len(options)], 0))
	return b
}

// withExtensions puts IPv6 extension headers into a packet; each is of the given kind, and its bytes begin with the place for what
// follows.
func withExtensions(f []byte, kinds []byte, headers ...[]byte) []byte {
	var in packet.Info
	packet.Parse(f, &in)
	b := bytes.Join([][]byte{f[:in.L4], bytes.Join(headers, nil), f[in.L4:]}, nil)
	at, next := in.L3+6, in.L4
	for i, k := range kinds {
		b[at], at = k, next
		next += len(headers[i])
	}
	b[at] = in.Proto
	binary.BigEndian.PutUint16(b[in.L3+4:], uint16(len(b)-in.L3-packet.IPv6Len))
	return b
}

// TestIPOptions keeps options and extension headers that do not matter to a translation, and refuses those that do.
func TestIPOptions(t *testing.T) {
	udp4, tcp4 := frame(tuple(udp, client, 40000, webVIP, 53)), frame(tuple(tcp, client, 40000, webVIP, 80))
	udp6, tcp6 := frame(tuple(udp, client6, 40000, webIP6, 53)), frame(tuple(tcp, client6, 40000, webIP6, 80))
	const hopByHop, destination, routing, auth, esp, none = 0, 60, 43, 51, 50, 59
	padding := []byte{0, 0, 1, 4, 0, 0, 0, 0}
	usedUp, left, type0 := []byte{0, 0, 4, 0, 0, 0, 0, 0}, []byte{0, 0, 4, 1, 0, 0, 0, 0}, []byte{0, 0, 0, 1, 0, 0, 0, 0}
	var nine [][]byte
	for range 9 {
		nine = append(nine, padding)
	}
	for _, tc := range []struct {
		name string
		f    []byte
		why  reason.Reason // LoadBalancer and ClusterIP: forwarded, options and all
	}{
		{"record route", withOptions(udp4, 7, 7, 4, 0, 0, 0, 0, 1), reason.LoadBalancer},
		{"timestamp", withOptions(tcp4, 68, 8, 5, 0, 0, 0, 0, 0), reason.LoadBalancer},
		{"router alert and no operation", withOptions(tcp4, 1, 148, 4, 0, 0, 1, 1, 0), reason.LoadBalancer},
		{"end, and garbage behind it", withOptions(udp4, 0, 131, 200, 9), reason.LoadBalancer},
		{"the longest", withOptions(udp4, append([]byte{7, 39, 4}, make([]byte, 37)...)...), reason.LoadBalancer},
		{"loose source route", withOptions(udp4, 131, 7, 4, 198, 51, 100, 1, 0), reason.SourceRouted},
		{"strict source route", withOptions(tcp4, 1, 137, 7, 4, 198, 51, 100, 1), reason.SourceRouted},
		{"source route behind another option", withOptions(tcp4, 148, 4, 0, 0, 131, 3, 4, 0), reason.SourceRouted},
		{"option of length 0", withOptions(udp4, 7, 0, 0, 0), reason.Malformed},
		{"option longer than the header", withOptions(udp4, 7, 5, 0, 0), reason.Malformed},
		{"option without a length", withOptions(udp4, 1, 1, 1, 7), reason.Malformed},

		{"hop by hop", withExtensions(udp6, []byte{hopByHop}, padding), reason.ClusterIP},
		{"destination options", withExtensions(tcp6, []byte{destination}, padding), reason.ClusterIP},
		{"routing header that is used up", withExtensions(tcp6, []byte{routing}, usedUp), reason.ClusterIP},
		{"chain", withExtensions(udp6, []byte{hopByHop, destination, routing, destination}, padding, padding, usedUp, padding), reason.ClusterIP},
		{"segments left", withExtensions(udp6, []byte{routing}, left), reason.SourceRouted},
		{"type 0", withExtensions(tcp6, []byte{destination, routing}, padding, type0), reason.SourceRouted},
		{"authentication", withExtensions(udp6, []byte{auth}, append([]byte{0, 4, 0, 0, 0, 0, 1, 0}, make([]byte, 16)...)), reason.UnsupportedProtocol},
		{"encrypted", withExtensions(udp6, []byte{esp}, make([]byte, 16)), reason.UnsupportedProtocol},
		{"nothing", withExtensions(udp6, []byte{none}, make([]byte, 8)), reason.UnsupportedProtocol},
		{"unknown", withExtensions(udp6, []byte{253}, make([]byte, 8)), reason.UnsupportedProtocol},
		{"nine headers", withExtensions(udp6, bytes.Repeat([]byte{destination}, 9), nine...), reason.TooManyHeaders},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			var was packet.Info
			packet.Parse(tc.f, &was)
			front, back := b.run(0, tc.f)
			if got := b.counters.Packets(tc.why); got != 1 {
				t.Fatalf("not counted as %v; %d sent on, %d back", tc.why, len(back), len(front))
			}
			if tc.why != reason.LoadBalancer && tc.why != reason.ClusterIP {
				if len(front)+len(back)+len(b.punted) != 0 {
					t.Errorf("%d sent on, %d back, %d punted", len(back), len(front), len(b.punted))
				}
				return
			}
			in := one(t, back)
			header := map[uint8]int{4: packet.IPv4Len, 6: packet.IPv6Len}[in.Family]
			if got, want := back[0][in.L3+header:in.L4], tc.f[was.L3+header:was.L4]; !bytes.Equal(got, want) {
				t.Errorf("options %x, want %x", got, want)
			}
			if in.Tuple.DstPort != 8080 && in.Tuple.DstPort != 5353 {
				t.Errorf("arrives as %v", in.Tuple)
			}
		})
	}
	// What is not ours stays the kernel's, odd or not.
	b := newBed(t, testTopology())
	others := [][]byte{
		withOptions(frame(tuple(udp, client, 40000, gateway, 9999)), 131, 7, 4, 198, 51, 100, 1, 0),
		withExtensions(frame(tuple(udp, client6, 40000, gateway6, 9999)), bytes.Repeat([]byte{destination}, 9), nine...),
		withExtensions(frame(tuple(udp, client6, 40000, gateway6, 9999)), []byte{routing}, left),
	}
	for i, f := range others {
		if b.run(0, f); len(b.punted) != i+1 || !bytes.Equal(b.punted[i], f) {
			t.Errorf("%d: %d punted", i, len(b.punted))
		}
	}
}
