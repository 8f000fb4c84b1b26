package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sluice/conntrack"
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// pieces cuts a packet into fragments whose payloads have the given sizes, multiples of eight; the last one has the rest.
func pieces(f []byte, id uint32, sizes ...int) (out [][]byte) {
	var in packet.Info
	packet.Parse(f, &in)
	payload := f[in.L4:in.End]
	for at := 0; at < len(payload); {
		size := len(payload) - at
		if len(out) < len(sizes) {
			size = min(sizes[len(out)], size)
		}
		out = append(out, pieceOf(f[:in.L4], &in, id, payload[at:at+size], at, at+size < len(payload)))
		at += size
	}
	return out
}

// pieceOf builds the fragment that carries data at an offset.
func pieceOf(headers []byte, in *packet.Info, id uint32, data []byte, offset int, more bool) []byte {
	b := slices.Clone(headers)
	m := uint16(0)
	if more {
		m = 1
	}
	if in.Family == 6 {
		proto := b[in.L3+6]
		b[in.L3+6] = 44
		b = append(b, proto, 0)
		b = binary.BigEndian.AppendUint16(b, uint16(offset)|m)
		b = binary.BigEndian.AppendUint32(b, id)
		binary.BigEndian.PutUint16(b[in.L3+4:], uint16(8+len(data)))
		return append(b, data...)
	}
	h := b[in.L3:]
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)+len(data)))
	binary.BigEndian.PutUint16(h[4:], uint16(id))
	binary.BigEndian.PutUint16(h[6:], uint16(offset/8)|m<<13)
	h[10], h[11] = 0, 0
	binary.BigEndian.PutUint16(h[10:], ^packet.Sum(h, 0))
	return append(b, data...)
}

// join puts fragments together, whatever their order, and checks that they are one whole datagram with right checksums, which it
// returns with its number.
func join(t testing.TB, frames [][]byte) (whole []byte, in packet.Info, id uint32) {
	t.Helper()
	parts := map[int][]byte{}
	total := -1
	var head []byte
	for _, f := range frames {
		in := verify(t, f)
		h, ok := packet.ReadFragment(f, &in)
		if !ok {
			t.Fatalf("not a fragment: %x", f)
		}
		if id != 0 && h.ID != id {
			t.Fatalf("fragments of two datagrams: %d and %d", id, h.ID)
		}
		id = h.ID
		if _, twice := parts[h.Offset]; twice {
			t.Fatalf("two fragments at %d", h.Offset)
		}
		parts[h.Offset] = f[in.End-h.Size : in.End]
		if h.Offset == 0 {
			head = f[:in.End-h.Size]
		}
		if !h.More {
			total = h.End()
		}
	}
	if head == nil {
		t.Fatal("no first fragment")
	}
	whole = slices.Clone(head)
	packet.Parse(frames[0], &in)
	l3 := in.L3
	if in.Family == 6 {
		whole[l3+6] = whole[len(whole)-8]
		whole = whole[:len(whole)-8]
	}
	for at := 0; at < total; {
		part, ok := parts[at]
		if !ok {
			t.Fatalf("nothing at %d of %d", at, total)
		}
		whole, at = append(whole, part...), at+len(part)
	}
	if in.Family == 6 {
		binary.BigEndian.PutUint16(whole[l3+4:], uint16(len(whole)-l3-packet.IPv6Len))
	} else {
		h := whole[l3 : l3+int(whole[l3]&15)*4]
		binary.BigEndian.PutUint16(h[2:], uint16(len(whole)-l3))
		h[6], h[7], h[10], h[11] = 0, 0, 0, 0
		binary.BigEndian.PutUint16(h[10:], ^packet.Sum(h, 0))
	}
	return whole, verify(t, whole), id
}

// text is a payload in which no two places look alike.
func text(size int) func(*packet.Spec) {
	return func(s *packet.Spec) {
		s.Payload = make([]byte, size)
		rand.NewChaCha8([32]byte{byte(size), byte(size >> 8)}).Read(s.Payload)
	}
}

// orders are all orders of three.
var orders = [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

// TestFragmentedDatagram sends a datagram of 3000 bytes in three fragments, in every order, to a service and back.
func TestFragmentedDatagram(t *testing.T) {
	for _, tc := range []struct {
		name string
		to   packet.Tuple
		snat bool
	}{
		{"source rewritten", tuple(udp, client, 40000, webVIP, 53), true},
		{"source kept", tuple(udp, podClient, 40000, webIP, 53), false},
		{"ipv6", tuple(udp, client6, 40000, webIP6, 53), true},
		{"tcp", tuple(tcp, client, 40000, webVIP, 80), true},
	} {
		for _, order := range orders {
			for batch := range 2 { // in one batch, or in one each
				t.Run(fmt.Sprint(tc.name, order, batch), func(t *testing.T) {
					b := newBed(t, testTopology())
					there := frame(tc.to, text(3000))
					_, back := b.runFragments(0, pieces(there, 7, 1440, 1440), order, batch == 0)
					got, in, id := join(t, back)
					if in.Tuple.DstPort != map[uint8]uint16{udp: 5353, tcp: 8080}[in.Proto] || (in.Tuple.Src != tc.to.Src) != tc.snat {
						t.Errorf("arrives as %v", in.Tuple)
					}
					if id == 7 {
						t.Error("the datagram kept its number, which another client may use too")
					}
					if n := len(there) - 3000; !bytes.Equal(got[len(got)-3000:], there[n:]) {
						t.Error("the payload has changed")
					}
					reply := frame(in.Tuple.Reverse(), text(3000), from(backMAC), flags(packet.TCPSyn|packet.TCPAck))
					front, _ := b.runFragments(1, pieces(reply, 9, 1440, 1440), order, batch == 0)
					if _, in, _ := join(t, front); in.Tuple != tc.to.Reverse() {
						t.Errorf("the reply arrives as %v, want %v", in.Tuple, tc.to.Reverse())
					}
					if b.p.Pending() != 0 {
						t.Errorf("%d still wait", b.p.Pending())
					}
				})
			}
		}
	}
}

// from sets the address of the interface that a frame is sent to.
func from(gatewayMAC [6]byte) func(*packet.Spec) {
	return func(s *packet.Spec) { s.SrcMAC, s.DstMAC = backendMAC, gatewayMAC }
}

// runFragments takes three fragments through the pipeline.
func (b *bed) runFragments(iface int, f [][]byte, order [3]int, atOnce bool) (front, back [][]byte) {
	b.t.Helper()
	ordered := [][]byte{f[order[0]], f[order[1]], f[order[2]]}
	if atOnce {
		return b.run(iface, ordered...)
	}
	for _, one := range ordered {
		x, y := b.run(iface, one)
		front, back = append(front, x...), append(back, y...)
		b.now += 10e6
	}
	return front, back
}

// TestFragmentsOverTwoWorkers has the first fragment come in by one worker and the others by another, before and after.
func TestFragmentsOverTwoWorkers(t *testing.T) {
	for _, order := range orders {
		a, b := newBed(t, testTopology()), newBed(t, testTopology())
		handle := a.flows.Register()
		t.Cleanup(handle.Close)
		b.p = NewPipeline(PipelineConfig{Port: b.port, Flows: handle, NextHops: b, Punter: b, Counters: &b.counters, PortSeed: 1,
			Fragments: a.p.Fragments})
		f := pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(3000)), 7, 1480, 1480)
		var sent [][]byte
		for _, i := range order {
			bed := b
			if i == 0 {
				bed = a
			}
			_, back := bed.run(0, f[i])
			sent = append(sent, back...)
		}
		a.now, b.now = a.now+retryHeld, b.now+retryHeld
		_, back := b.run(0)
		if _, in, _ := join(t, append(sent, back...)); in.Tuple.DstPort != 5353 {
			t.Errorf("%v: arrives as %v", order, in.Tuple)
		}
	}
}

// TestFragmentOverlap refuses what contradicts itself: no part of it comes through that was not sent before that was seen.
func TestFragmentOverlap(t *testing.T) {
	whole := frame(tuple(udp, client, 40000, webVIP, 53), text(3000))
	var in packet.Info
	packet.Parse(whole, &in)
	good := pieces(whole, 7, 1480, 1480)
	piece := func(offset, size int, more bool) []byte {
		return pieceOf(whole[:in.L4], &in, 7, make([]byte, size), offset, more)
	}
	for _, tc := range []struct {
		name    string
		frames  [][]byte
		sent    int
		refused int
	}{
		{"the first again", [][]byte{good[0], good[0], good[1]}, 2, 1},
		{"a later one again", [][]byte{good[0], good[1], good[1], good[2]}, 3, 1},
		{"into the first", [][]byte{good[0], piece(1472, 16, true), good[1]}, 1, 2},
		{"the ports again", [][]byte{good[0], pieceOf(whole[:in.L4], &in, 7, whole[in.L4:in.L4+8], 0, true), good[1]}, 2, 1},
		{"inside another", [][]byte{good[0], good[1], piece(1600, 8, true)}, 2, 1},
		{"behind the end", [][]byte{good[0], good[2], piece(3200, 8, true)}, 2, 1},
		{"two ends", [][]byte{good[0], good[2], piece(3200, 8, false)}, 2, 1},
		{"an end within what has come", [][]byte{good[0], good[1], piece(1480, 8, false), good[2]}, 2, 2},
		{"waiting ones overlap", [][]byte{good[1], piece(1600, 8, true), good[0]}, 2, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			sent := 0
			for _, f := range tc.frames {
				_, back := b.run(0, f)
				sent += len(back)
			}
			if n := b.counters.Packets(reason.FragmentOverlap); sent != tc.sent || n != uint64(tc.refused) || b.p.Pending() != 0 {
				t.Errorf("%d sent, %d refused, %d wait; want %d and %d", sent, n, b.p.Pending(), tc.sent, tc.refused)
			}
		})
	}
}

// TestFragmentNumberIsUsedAgain: a datagram that is complete leaves its number to the next one.
func TestFragmentNumberIsUsedAgain(t *testing.T) {
	b := newBed(t, testTopology())
	ids := map[uint32]bool{}
	for range 3 {
		_, back := b.run(0, pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(3000)), 7, 1480, 1480)...)
		_, _, id := join(t, back)
		ids[id] = true
	}
	if len(ids) != 3 {
		t.Errorf("%d numbers for three datagrams", len(ids))
	}
}

// TestFragmentNumbers do not repeat within the 65536 that IPv4 has, and differ from start to start.
func TestFragmentNumbers(t *testing.T) {
	s, other := NewFragments(0x123456789abcdef), NewFragments(0xfedcba987654321)
	low, same := map[uint16]bool{}, 0
	for range 1 << 16 {
		id := s.newID()
		low[uint16(id)] = true
		if id == other.newID() {
			same++
		}
	}
	if len(low) != 1<<16 || same > 16 {
		t.Errorf("%d of 65536 numbers, %d the same in two stores", len(low), same)
	}
}

// TestFragmentWaitsInVain: of a service's it is dropped, of anybody else's it is the kernel's, unchanged.
func TestFragmentWaitsInVain(t *testing.T) {
	b := newBed(t, testTopology())
	ours := pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(3000)), 7, 1480)[1]
	others := pieces(frame(tuple(udp, client, 40000, gateway, 9999), text(3000)), 8, 1480)[1]
	b.run(0, ours, others)
	b.now += maxHeldTime - 1
	b.run(0)
	if b.p.Pending() != 2 {
		t.Fatalf("%d wait, want 2", b.p.Pending())
	}
	b.now += 1 + retryHeld
	front, back := b.run(0)
	if len(front)+len(back) != 0 || b.counters.Packets(reason.FragmentTimeout) != 1 || b.p.Pending() != 0 {
		t.Errorf("%d sent, %d timed out, %d wait", len(front)+len(back), b.counters.Packets(reason.FragmentTimeout), b.p.Pending())
	}
	if len(b.punted) != 1 || !bytes.Equal(b.punted[0], others) {
		t.Errorf("punted %x", b.punted)
	}
}

// TestFragmentsOfOthers are the kernel's, byte for byte: of the gateway's own connections, of a backend's.
func TestFragmentsOfOthers(t *testing.T) {
	for _, tu := range []packet.Tuple{tuple(udp, client, 40000, gateway, 9999), tuple(udp, back1, 1234, client, 5678)} {
		b := newBed(t, testTopology())
		f := pieces(frame(tu, text(3000)), 7, 1480, 1480)
		b.run(0, f[2], f[0], f[1])
		if want := [][]byte{f[0], f[2], f[1]}; !slices.EqualFunc(b.punted, want, bytes.Equal) {
			t.Errorf("%v: punted %d fragments, not these", tu, len(b.punted))
		}
	}
}

// TestFragmentsOfOthersAgain: copies, and numbers that are used again after a loss, are for the kernel to judge.
func TestFragmentsOfOthersAgain(t *testing.T) {
	b := newBed(t, testTopology())
	lost := pieces(frame(tuple(udp, client, 40000, gateway, 9999), text(3000)), 7, 1480, 1480)[:2]
	next := pieces(frame(tuple(udp, client, 40000, gateway, 9999), text(2000)), 7, 1480)
	sent := append(append(slices.Clone(lost), lost...), next...)
	for _, f := range sent {
		b.run(0, f)
	}
	if !slices.EqualFunc(b.punted, sent, bytes.Equal) {
		t.Errorf("punted %d fragments of %d", len(b.punted), len(sent))
	}
	// The number may go on to a service's datagram, which is translated.
	ours := tuple(udp, client, 40000, webVIP, 53)
	b.run(0, pieces(frame(ours, text(3000)), 8, 1480, 1480)[0])
	if _, back := b.run(0, pieces(frame(ours, text(3000)), 7, 1480, 1480)...); len(back) != 3 {
		t.Errorf("%d sent, want 3", len(back))
	}
}

// TestDamagedFragment: what has a wrong header checksum is dropped, and is not taken for a part of a datagram.
func TestDamagedFragment(t *testing.T) {
	for i := range 2 {
		b := newBed(t, testTopology())
		good := pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(3000)), 7, 1480, 1480)
		bad := slices.Clone(good[i])
		bad[14+7] ^= 4 // 32 bytes from where it belongs
		var sent [][]byte
		for _, f := range [][]byte{good[0], bad, good[1], good[2]} {
			_, back := b.run(0, f)
			sent = append(sent, back...)
		}
		join(t, sent)
		if n := b.counters.Packets(reason.BadChecksum); n != 1 || len(sent) != 3 {
			t.Errorf("%d dropped, %d sent", n, len(sent))
		}
	}
}

// TestFragmentsOfWhatIsRefused follow the first one.
func TestFragmentsOfWhatIsRefused(t *testing.T) {
	b := newBed(t, testTopology())
	f := pieces(frame(tuple(udp, client, 40000, webIP, 99), text(3000)), 7, 1480, 1480)
	front, back := b.run(0, f...)
	if got := one(t, front); got.ICMPType != 3 || len(back) != 0 || b.counters.Packets(reason.Fragment) != 2 {
		t.Errorf("answered by type %d, %d sent on, %d dropped", got.ICMPType, len(back), b.counters.Packets(reason.Fragment))
	}
}

// TestTwoClientsOneNumber: behind one source address, at one endpoint, their datagrams must not be put together.
func TestTwoClientsOneNumber(t *testing.T) {
	b := newBed(t, testTopology())
	ids := map[uint32]bool{}
	for i := range 2 {
		tu := tuple(udp, client, uint16(40000+i), webVIP, 53)
		_, back := b.run(0, pieces(frame(tu, text(2000)), 7, 1480)...)
		_, _, id := join(t, back)
		ids[id] = true
	}
	if len(ids) != 2 {
		t.Error("two datagrams with one number")
	}
}

// TestFragmentBounds: what waits is bounded, for each datagram and in all, and no frame is lost.
func TestFragmentBounds(t *testing.T) {
	whole := frame(tuple(udp, client, 40000, webVIP, 53), text(0))
	var in packet.Info
	packet.Parse(whole, &in)
	b := newBed(t, testTopology())
	for i := range maxHeldPerDatagram + 2 {
		b.run(0, pieceOf(whole[:in.L4], &in, 7, make([]byte, 8), 16*(i+1), true))
	}
	if n := b.counters.Packets(reason.FragmentStoreFull); n != 2 || b.p.Pending() != maxHeldPerDatagram {
		t.Errorf("%d refused, %d wait", n, b.p.Pending())
	}
	// All of a datagram with too many gaps is refused once the first one is there.
	_, back := b.run(0, pieceOf(whole[:in.L4], &in, 7, whole[in.L4:in.End], 0, true))
	if n := b.counters.Packets(reason.FragmentStoreFull); len(back) != fragmentRanges || n != 2+1 {
		t.Errorf("%d sent, %d refused", len(back), n)
	}
	// When there is no room the oldest give way: the first one of the newest still finds it waiting.
	const over = 10
	for i := range maxHeld + over {
		b.run(0, pieceOf(whole[:in.L4], &in, uint32(100+i), make([]byte, 8), 16, true))
	}
	if n := b.counters.Packets(reason.FragmentStoreFull); n != 3+evictedAtOnce || b.p.Pending() != maxHeld+over-evictedAtOnce {
		t.Errorf("%d refused, %d wait", n, b.p.Pending())
	}
	for id, sent := range map[int]int{100: 1, 100 + maxHeld + over - 1: 2} {
		if _, back := b.run(0, pieceOf(whole[:in.L4], &in, uint32(id), whole[in.L4:in.End], 0, true)); len(back) != sent {
			t.Errorf("%d: %d sent, want %d", id, len(back), sent)
		}
	}
	b.now += maxHeldTime
	b.p.Tick(b.snap, b.now)
	b.audit()
	if b.p.Pending() != 0 {
		t.Errorf("%d wait", b.p.Pending())
	}
}

// TestFragmentStorm sends random datagrams in random fragments and order, with copies, over two workers' worth of batches: what is
// complete arrives right, and no frame is lost.
func TestFragmentStorm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 300 {
		b := newBed(t, testTopology())
		var all [][]byte
		for d := range 1 + r.IntN(8) {
			var sizes []int
			for range r.IntN(6) {
				sizes = append(sizes, 8*(3+r.IntN(170)))
			}
			tu := []packet.Tuple{tuple(udp, client, uint16(40000+d), webVIP, 53), tuple(udp, client6, uint16(40000+d), webIP6, 53)}[r.IntN(2)]
			f := pieces(frame(tu, text(100+r.IntN(6000))), uint32(d+1), append(sizes, 1400, 1400, 1400, 1400, 1400)...)
			if len(f) < 2 {
				continue
			}
			all = append(all, f...)
		}
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		byID := map[uint32][][]byte{}
		for len(all) > 0 {
			n := 1 + r.IntN(min(len(all), 20))
			_, back := b.run(0, all[:n]...)
			for _, f := range back {
				var in packet.Info
				packet.Parse(f, &in)
				h, ok := packet.ReadFragment(f, &in)
				if !ok {
					t.Fatal("not a fragment")
				}
				byID[h.ID] = append(byID[h.ID], f)
			}
			all = all[n:]
		}
		for _, frames := range byID {
			join(t, frames)
		}
		if b.p.Pending() != 0 || b.counters.Packets(reason.FragmentOverlap) != 0 {
			t.Fatalf("round %d: %d wait, %d overlap", round, b.p.Pending(), b.counters.Packets(reason.FragmentOverlap))
		}
	}
}

// TestFragmentsDoNotAllocate, neither in order nor waiting, nor when they are cut once more.
func TestFragmentsDoNotAllocate(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 1000 })
	b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 64, Interfaces: b.port.Interfaces(), Discard: true})
	b.p.Port = b.port
	f := pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(3000)), 7, 1480, 1480)
	frames := make([]xdp.Frame, 3)
	datagram := func() {
		b.now += 1e7
		if err := b.port.Deliver(0, f[2], f[0], f[1]); err != nil {
			t.Fatal(err)
		}
		b.p.Process(b.snap, b.now, frames[:b.port.Receive(frames)])
		if err := b.port.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(300, datagram); n != 0 {
		t.Errorf("%v allocations a datagram", n)
	}
	if n := b.counters.Packets(reason.FragmentFollowed); n < 600 {
		t.Errorf("%d fragments followed: not what was to be measured", n)
	}
}

// TestSplit cuts what is too large for its way out and may be cut; together it is what it was.
func TestSplit(t *testing.T) {
	may := func(s *packet.Spec) { s.DF = false }
	for _, tc := range []struct {
		mtu, size, pieces int
	}{{1400, 1372, 1}, {1400, 1373, 2}, {1400, 1472, 2}, {576, 1472, 3}, {212, 1472, 8}} {
		t.Run(fmt.Sprint(tc.mtu, "/", tc.size), func(t *testing.T) {
			b := newBed(t, testTopology())
			b.hops = hops(2, func(h *fib.NextHop) { h.MTU = tc.mtu })
			f := frame(tuple(udp, client, 40000, webVIP, 53), text(tc.size), may)
			front, back := b.run(0, f)
			if len(back) != tc.pieces || len(front) != 0 {
				t.Fatalf("%d pieces, %d answers", len(back), len(front))
			}
			for _, p := range back {
				if in := verify(t, p); in.End-in.L3 > tc.mtu {
					t.Errorf("a piece of %d bytes", in.End-in.L3)
				}
			}
			if tc.pieces == 1 {
				return
			}
			whole, in, _ := join(t, back)
			if in.Tuple.DstPort != 5353 || !bytes.Equal(whole[len(whole)-tc.size:], f[len(f)-tc.size:]) {
				t.Errorf("arrives as %v", in.Tuple)
			}
		})
	}
	t.Run("too many pieces", func(t *testing.T) {
		b := newBed(t, testTopology())
		b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 100 })
		front, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53), text(1472), may))
		if len(front)+len(back) != 0 || b.counters.Packets(reason.TooBig) != 1 {
			t.Errorf("%d sent", len(front)+len(back))
		}
	})
}

// TestSplitFragments cuts fragments once more.
func TestSplitFragments(t *testing.T) {
	for _, order := range orders {
		b := newBed(t, testTopology())
		b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 1000 })
		_, back := b.runFragments(0, pieces(frame(tuple(udp, client, 40000, webVIP, 53), text(4000)), 7, 1480, 1480), order, true)
		if len(back) != 6 {
			t.Fatalf("%d fragments, want 6", len(back))
		}
		if _, in, _ := join(t, back); in.Tuple.DstPort != 5353 {
			t.Errorf("arrives as %v", in.Tuple)
		}
	}
}

// TestSplitWithoutFrames drops the whole packet and gives back what it took.
func TestSplitWithoutFrames(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 576 })
	if err := b.port.Deliver(0, frame(tuple(udp, client, 40000, webVIP, 53), text(1472), func(s *packet.Spec) { s.DF = false })); err != nil {
		t.Fatal(err)
	}
	frames := make([]xdp.Frame, 1)
	n := b.port.Receive(frames)
	var taken []xdp.Frame
	for f, ok := b.port.Alloc(); ok; f, ok = b.port.Alloc() {
		taken = append(taken, f)
	}
	b.port.Release(taken[:1]) // two more are needed
	b.p.Process(b.snap, b.now, frames[:n])
	b.port.Release(taken[1:])
	if back := b.port.Sent(1); len(back) != 0 || b.counters.Packets(reason.TxFull) != 1 {
		t.Errorf("%d sent", len(back))
	}
	b.audit()
}

// TestFragmentedSegmentUnchecksItsFlow: how much a segment carries is not known from its first fragment.
func TestFragmentedSegmentUnchecksItsFlow(t *testing.T) {
	b := newBed(t, testTopology())
	tu := tuple(tcp, client, 40000, webVIP, 80)
	handshake(b, tu)
	seg := frame(tu, text(3000), flags(packet.TCPAck), numbers(2, 2))
	_, back := b.run(0, pieces(seg, 7, 1480, 1480)...)
	join(t, back)
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	if f, _, ok := b.p.Flows.Lookup(&tu); !ok || !f.Unchecked() || f.State() != conntrack.Established {
		t.Error("the flow is gone, or its window is still checked")
	}
}
