package nat_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"sluice/nat"
	"sluice/xdp/packet"
)

// TestQuoteVector is a fragmentation-needed error from a router to the service address, about a packet of 1500 bytes
// that the service sent to a client, of which it quotes 28. The checksums were computed elsewhere.
func TestQuoteVector(t *testing.T) {
	frame, err := hex.DecodeString("020000000002020000000001" + "0800" +
		"45000038000040004001" + "0000" + "c6336401" + "cb007105" + // from the router to V
		"0304" + "570b" + "00000578" +
		"450005dc424240003c06" + "f8c9" + "cb007105" + "c000020a" + "00509c40" + "000003e8") // V:80 > C:40000
	if err != nil {
		t.Fatal(err)
	}
	var quote packet.Info
	in := parse(t, frame)
	binary.BigEndian.PutUint16(frame[24:], ^packet.Sum(frame[14:34], 0))
	if packet.ParseQuote(frame, &in, &quote) != packet.OK || !packet.VerifyL4(frame, &in) {
		t.Fatalf("the input is wrong: %+v", quote)
	}
	inner := tuple(tcp, b1, 8080, c, 40000)
	nat.RewriteQuote(frame, &in, &quote, &inner, addr(router), addr(b1))

	out := parse(t, frame)
	if out.Tuple.Src != addr(router) || out.Tuple.Dst != addr(b1) || !packet.VerifyIP(frame, &out) || out.Tuple != in.Tuple {
		t.Errorf("the error is %v: %x", out.Tuple, frame)
	}
	var got packet.Info
	if s := packet.ParseQuote(frame, &out, &got); s != packet.OK || got.Tuple != inner || quote.Tuple != inner {
		t.Errorf("it quotes %v (status %d), want %v", got.Tuple, s, inner)
	}
	if sum := binary.BigEndian.Uint16(frame[36:]); sum != 0x37cb {
		t.Errorf("checksum %04x, want 37cb", sum)
	}
	if sum := binary.BigEndian.Uint16(frame[52:]); sum != 0x2ac9 {
		t.Errorf("quoted header checksum %04x, want 2ac9", sum)
	}
}

// errorAbout builds the error that src sends about the packet of spec, quoting length bytes of it at most.
func errorAbout(t testing.TB, buf []byte, spec *packet.Spec, length int, e packet.Error, src packet.Addr) []byte {
	t.Helper()
	const room = 64
	in := parse(t, packet.Build(buf[room:], spec))
	in.End = min(in.End, in.L3+length)
	start, end, ok := packet.BuildError(buf, room, room+in.End, &in, e, src, 1400)
	if !ok {
		t.Fatal("no error was built")
	}
	return buf[start:end]
}

// checkQuote translates the error that sits at from about the packet of spec, so that it comes from to about a packet
// of the tuple inner. What it is to look like needs no translation to tell: it is the error about the other packet.
func checkQuote(t testing.TB, spec packet.Spec, inner packet.Tuple, length int, e packet.Error, from, to packet.Addr) {
	t.Helper()
	frame := errorAbout(t, make([]byte, 2048), &spec, length, e, from)
	was := spec.Tuple
	spec.Tuple = inner
	want := errorAbout(t, make([]byte, 2048), &spec, length, e, to)
	var quote packet.Info
	in := parse(t, frame)
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK || quote.Tuple != was {
		t.Fatalf("status %d, quotes %v, want %v", s, quote.Tuple, was)
	}
	nat.RewriteQuote(frame, &in, &quote, &inner, to, inner.Src)
	if !bytes.Equal(frame, want) {
		t.Fatalf("%v to %v, %d bytes:\ngot  %x\nwant %x", was, inner, length, frame, want)
	}
	if quote.Tuple != inner || in.Tuple.Src != to || in.Tuple.Dst != inner.Src {
		t.Fatalf("the Infos did not follow: %v quoting %v", in.Tuple, quote.Tuple)
	}
}

func TestRewriteQuote(t *testing.T) {
	const icmp4, icmp6 = packet.ProtoICMP, packet.ProtoICMPv6
	const router6, node6 = "2001:db8:ff::1", "2001:db8:f::1"
	odd, big := []byte("odd"), make([]byte, 1400)
	plain := func(tu packet.Tuple, payload []byte) packet.Spec {
		return packet.Spec{Tuple: tu, ID: 7, Payload: payload}
	}
	echo := func(tu packet.Tuple, typ uint8) packet.Spec {
		return packet.Spec{Tuple: tu, ICMPType: typ, ICMPSeq: 3, Payload: odd}
	}
	for _, tc := range []struct {
		name   string
		spec   packet.Spec // the packet that the error is about
		inner  packet.Tuple
		length int
		e      packet.Error
		from   string // where the error comes from, before and after
		to     string
	}{
		{"too big, from the client's side", plain(tuple(tcp, v, 80, c, 40000), big), tuple(tcp, b1, 8080, c, 40000),
			28, packet.TooBig, router, router},
		{"too big, from the backend's side", plain(tuple(tcp, node, 61001, b1, 8080), big), tuple(tcp, c, 40000, v, 80),
			28, packet.TooBig, router, router},
		{"port unreachable, from the backend", plain(tuple(udp, c, 40000, b1, 5353), odd), tuple(udp, c, 40000, v, 53),
			1500, packet.PortUnreachable, b1, v},
		{"tcp in full", plain(tuple(tcp, v, 80, c, 40000), odd), tuple(tcp, b1, 8080, c, 40000), 1500, packet.TooBig, router, router},
		{"tcp, cut before the checksum", plain(tuple(tcp, v, 80, c, 40000), odd), tuple(tcp, b1, 8080, c, 40000),
			36, packet.TooBig, router, router},
		{"tcp, cut behind the checksum", plain(tuple(tcp, v, 80, c, 40000), odd), tuple(tcp, b1, 8080, c, 40000),
			38, packet.TooBig, router, router},
		{"548 bytes of 1428", plain(tuple(udp, v, 53, c, 40000), big), tuple(udp, b1, 5353, c, 40000),
			1500, packet.TooBig, router, router},
		{"time exceeded about an echo", echo(tuple(icmp4, node, 61001, b1, 61001), 8), tuple(icmp4, c, 7777, b1, 7777),
			1500, packet.TimeExceeded, router, router},
		{"28 bytes of an echo", echo(tuple(icmp4, node, 61001, b1, 61001), 8), tuple(icmp4, c, 7777, b1, 7777),
			28, packet.TimeExceeded, router, router},
		{"about an echo reply", echo(tuple(icmp4, b1, 7777, c, 7777), 0), tuple(icmp4, v, 1, c, 1),
			1500, packet.TimeExceeded, router, router},
		{"in a tag", packet.Spec{VLAN: 9, Tuple: tuple(udp, c, 40000, b1, 5353), Payload: odd}, tuple(udp, c, 40000, v, 53),
			1500, packet.HostUnreachable, router, router},
		{"nothing changes", plain(tuple(udp, c, 40000, b1, 53), odd), tuple(udp, c, 40000, b1, 53), 28, packet.TooBig, router, router},
		{"ipv6 too big", plain(tuple(tcp, v6, 80, c6, 40000), big), tuple(tcp, b6, 8080, c6, 40000),
			1500, packet.TooBig, router6, router6},
		{"ipv6, 48 bytes", plain(tuple(tcp, v6, 80, c6, 40000), big), tuple(tcp, b6, 8080, c6, 40000),
			48, packet.TooBig, router6, router6},
		{"ipv6 port unreachable", plain(tuple(udp, node6, 61001, b6, 5353), odd), tuple(udp, c6, 40000, v6, 53),
			1500, packet.PortUnreachable, b6, v6},
		{"ipv6 time exceeded about an echo", echo(tuple(icmp6, node6, 61001, b6, 61001), 128), tuple(icmp6, c6, 7777, b6, 7777),
			1500, packet.TimeExceeded, router6, router6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			checkQuote(t, tc.spec, tc.inner, tc.length, tc.e, addr(tc.from), addr(tc.to))
		})
	}
}

// TestRewriteQuoteLeavesNoChecksum quotes a UDP packet without a checksum.
func TestRewriteQuoteLeavesNoChecksum(t *testing.T) {
	spec := packet.Spec{Tuple: tuple(udp, v, 53, c, 40000), Payload: []byte("abc")}
	frame := errorAbout(t, make([]byte, 2048), &spec, 1500, packet.TooBig, addr(router))
	in := parse(t, frame)
	var quote packet.Info
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK {
		t.Fatalf("status %d", s)
	}
	frame[quote.L4+6], frame[quote.L4+7] = 0, 0
	inner := tuple(udp, b1, 5353, c, 40000)
	nat.RewriteQuote(frame, &in, &quote, &inner, addr(router), addr(b1))
	if sum := l4sum(frame, quote); sum != 0 {
		t.Errorf("quoted checksum %04x, want none", sum)
	}
	if !packet.VerifyL4(frame, &in) || !packet.VerifyIP(frame, &in) || !packet.VerifyIP(frame, &quote) {
		t.Errorf("a checksum is wrong: %x", frame)
	}
}

// TestRewriteQuoteCutWithinChecksum quotes one byte of a TCP checksum, which is left as it is.
func TestRewriteQuoteCutWithinChecksum(t *testing.T) {
	spec := packet.Spec{Tuple: tuple(tcp, v, 80, c, 40000)}
	frame := errorAbout(t, make([]byte, 2048), &spec, 37, packet.TooBig, addr(router))
	in := parse(t, frame)
	var quote packet.Info
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK {
		t.Fatalf("status %d", s)
	}
	last, inner := frame[len(frame)-1], tuple(tcp, b1, 8080, c, 40000)
	nat.RewriteQuote(frame, &in, &quote, &inner, addr(router), addr(b1))
	if frame[len(frame)-1] != last || !packet.VerifyL4(frame, &in) || !packet.VerifyIP(frame, &quote) {
		t.Errorf("the last byte went from %02x to %02x: %x", last, frame[len(frame)-1], frame)
	}
}

// TestRewriteQuoteOfAnything translates errors about random packets, cut off anywhere, and compares all bytes.
func TestRewriteQuoteOfAnything(t *testing.T) {
	count := 200_000
	if testing.Short() {
		count = 20_000
	}
	r := rand.New(rand.NewPCG(5, 6))
	buf, mine, theirs := make([]byte, 2048), make([]byte, 2048), make([]byte, 2048)
	for i := range count {
		spec, inner := randomSpec(r, buf)
		header := packet.IPv4Len
		from, to := packet.Addr4(r.Uint32()), packet.Addr4(r.Uint32())
		if !inner.Src.Is4() {
			header = packet.IPv6Len
			from, to = packet.Addr{Hi: r.Uint64(), Lo: 1}, packet.Addr{Hi: r.Uint64(), Lo: 1}
		}
		length, e := header+8+r.IntN(100), packet.Error(r.IntN(4))
		if spec.Tuple.Proto == tcp && length == header+17 {
			length++ // half a checksum is left as it is, which the error about the other packet has changed
		}
		frame := errorAbout(t, mine, &spec, length, e, from)
		spec.Tuple = inner
		want := errorAbout(t, theirs, &spec, length, e, to)
		in := parse(t, frame)
		var quote packet.Info
		if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK {
			t.Fatalf("packet %d: status %d: %x", i, s, frame)
		}
		nat.RewriteQuote(frame, &in, &quote, &inner, to, inner.Src)
		if !bytes.Equal(frame, want) {
			t.Fatalf("packet %d, to %v, %d bytes:\ngot  %x\nwant %x", i, inner, length, frame, want)
		}
	}
}

func TestRewriteQuoteDoesNotAllocate(t *testing.T) {
	spec := packet.Spec{Tuple: tuple(tcp, v, 80, c, 40000)}
	frame := errorAbout(t, make([]byte, 2048), &spec, 28, packet.TooBig, addr(router))
	in := parse(t, frame)
	var quote packet.Info
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK {
		t.Fatalf("status %d", s)
	}
	there, back, src := tuple(tcp, b1, 8080, c, 40000), tuple(tcp, v, 80, c, 40000), addr(router)
	if n := testing.AllocsPerRun(100, func() {
		nat.RewriteQuote(frame, &in, &quote, &there, src, there.Src)
		nat.RewriteQuote(frame, &in, &quote, &back, src, back.Src)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzRewriteQuote translates errors with any quote. Whatever it is, the error comes out with right checksums, and
// quotes the packet that it is to quote.
func FuzzRewriteQuote(f *testing.F) {
	buf := make([]byte, 2048)
	for _, spec := range []packet.Spec{
		{Tuple: tuple(tcp, v, 80, c, 40000)},
		{Tuple: tuple(udp, v, 53, c, 40000), Payload: []byte("abc")},
		{Tuple: tuple(packet.ProtoICMP, v, 7, c, 7), ICMPType: packet.ICMPEcho},
		{Tuple: tuple(47, v, 0, c, 0), Payload: []byte("generic routing")},
		{Tuple: tuple(udp, v6, 53, c6, 40000), Payload: []byte("abc")},
		{Tuple: tuple(packet.ProtoICMPv6, v6, 7, c6, 7), ICMPType: packet.ICMPv6Echo},
	} {
		frame := packet.Build(buf, &spec)
		in := parse(f, frame)
		f.Add(bytes.Clone(frame[in.L3:]), in.Family == 6)
		f.Add(bytes.Clone(frame[in.L3:in.L4+8]), in.Family == 6)
	}
	f.Fuzz(func(t *testing.T, inner []byte, six bool) {
		if len(inner) > 1300 {
			return
		}
		spec := packet.Spec{Tuple: tuple(packet.ProtoICMP, router, 0, v, 0), ICMPType: packet.ICMPUnreachable, Payload: inner}
		to, src := tuple(0, b1, 8080, c, 40000), addr(router)
		if six {
			spec.Tuple, spec.ICMPType = tuple(packet.ProtoICMPv6, v6, 0, c6, 0), packet.ICMPv6TooBig
			to, src = tuple(0, b6, 8080, c6, 40000), addr(v6)
		}
		frame := packet.Build(make([]byte, 2048), &spec)
		in := parse(t, frame)
		var quote, got packet.Info
		if packet.ParseQuote(frame, &in, &quote) != packet.OK || !quote.HasPorts {
			return
		}
		to.Proto = quote.Proto
		if quote.Proto == packet.ProtoICMP || quote.Proto == packet.ProtoICMPv6 {
			to.DstPort = to.SrcPort
		}
		right := packet.VerifyIP(frame, &quote)
		nat.RewriteQuote(frame, &in, &quote, &to, src, to.Src)
		out := parse(t, frame)
		if !packet.VerifyIP(frame, &out) || !packet.VerifyL4(frame, &out) || packet.VerifyIP(frame, &quote) != right {
			t.Fatalf("a checksum is wrong: %x", frame)
		}
		if s := packet.ParseQuote(frame, &out, &got); s != packet.OK || got.Tuple != to || got != quote {
			t.Fatalf("status %d, it quotes %+v, want %v", s, got, to)
		}
	})
}
