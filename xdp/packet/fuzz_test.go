package packet_test

import (
	"bytes"
	"testing"

	"sluice/xdp/packet"
)

// FuzzParse checks for any bytes that nothing panics, that what Parse says lies within the frame and does not depend
// on what was in the Info, and that what is done to a packet keeps it sound.
func FuzzParse(f *testing.F) {
	for _, k := range kinds() {
		f.Add(k.frame)
	}
	for _, frame := range [][]byte{
		icmp(3, 4), icmpv6(2, 0), trailing(), put(udp4(), 20, 0x20), put(udp4(), 20, 0x20, 1), put(udp4(), 12, 0x08, 0x06),
		about(3, tcp4()[14:42]), ipv6(44, join(fragment(udp, 8), udpHeader())...), ipv6(51, join(auth(udp), udpHeader())...),
		put(udp6(), 22, make([]byte, 10)...), put(put(udp6(), 22, make([]byte, 10)...), 32, 0xff, 0xff),
		ipv6(43, join(routing(udp, 1), udpHeader())...), put(udp4(), 14, 0x4f),
	} {
		f.Add(frame)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var in packet.Info
		dirty := packet.Info{L3: 99, L4: 99, End: 99, Options: true, HasPorts: true, ICMPError: true, Fragment: 2, VLANs: 2}
		status := packet.Parse(frame, &in)
		if s := packet.Parse(frame, &dirty); s != status || dirty != in {
			t.Fatalf("parsed twice: %d %+v, and %d %+v", status, in, s, dirty)
		}
		if status != packet.OK {
			return
		}
		checkInfo(t, frame, &in)
		checkTTL(t, frame, in)
		checkComplete(t, frame, in)
		checkEchoReply(t, frame, in)
		checkBuildError(t, frame, in)
	})
}

// checkInfo checks the order of the offsets, and that ports lie within the packet.
func checkInfo(t *testing.T, frame []byte, in *packet.Info) {
	t.Helper()
	header := map[uint8]int{4: packet.IPv4Len, 6: packet.IPv6Len}[in.Family]
	if header == 0 || in.L3 < packet.EthernetLen || in.L4 < in.L3+header || in.End < in.L4 || in.End > len(frame) {
		t.Fatalf("%d bytes parsed to %+v", len(frame), in)
	}
	if in.HasPorts && (in.L4+8 > in.End || in.Fragment == packet.LaterFragment) {
		t.Fatalf("ports are not in the packet: %+v", in)
	}
	if !in.HasPorts && (in.Tuple.SrcPort != 0 || in.Tuple.DstPort != 0 || in.TCPFlags != 0) {
		t.Fatalf("ports without HasPorts: %+v", in)
	}
	if four := in.Family == 4; in.Tuple.Proto != in.Proto || in.Tuple.Src.Is4() != four || in.Tuple.Dst.Is4() != four {
		t.Fatalf("the tuple is of another kind: %+v", in)
	}
	if in.ICMPError && (!in.IsICMP() || in.HasPorts) {
		t.Fatalf("an error that is none: %+v", in)
	}
}

// checkTTL takes one off the TTL, which leaves a right header checksum right.
func checkTTL(t *testing.T, frame []byte, in packet.Info) {
	if in.TTL == 0 {
		return
	}
	b := bytes.Clone(frame)
	was := packet.VerifyIP(b, &in)
	packet.DecrementTTL(b, &in)
	if is := packet.VerifyIP(b, &in); is != was {
		t.Fatalf("with a TTL less the header checksum went from %v to %v", was, is)
	}
}

// checkComplete checks that a completed packet is right, and that completing it again changes nothing.
func checkComplete(t *testing.T, frame []byte, in packet.Info) {
	b := bytes.Clone(frame)
	packet.Complete(b, &in)
	if !packet.VerifyL4(b, &in) {
		t.Fatalf("completed to a wrong checksum: %x", b)
	}
	again := bytes.Clone(b)
	packet.Complete(again, &in)
	if !bytes.Equal(b, again) {
		t.Fatalf("completed twice: %x and %x", b, again)
	}
}

// checkEchoReply checks that the reply to a right request is right, and goes back.
func checkEchoReply(t *testing.T, frame []byte, in packet.Info) {
	if !in.IsEcho() || in.Fragment != packet.NotFragment || !packet.VerifyL4(frame, &in) || !packet.VerifyIP(frame, &in) {
		return
	}
	b := bytes.Clone(frame)
	to := in.Tuple.Reverse()
	packet.EchoReply(b, &in)
	if out := checkSums(t, b); out != in || !out.IsEchoReply() || out.Tuple != to {
		t.Fatalf("the reply %+v, want %+v", out, in)
	}
}

// checkBuildError checks that an error about the packet is right, and quotes the packet.
func checkBuildError(t *testing.T, frame []byte, in packet.Info) {
	if !packet.MayAnswer(frame, &in) {
		return
	}
	buf, start, end := inBuffer(frame)
	start, end, ok := packet.BuildError(buf, start, end, &in, packet.TooBig, in.Tuple.Dst, 1400)
	if !ok {
		t.Fatal("no error was built")
	}
	out := checkSums(t, buf[start:end])
	if !out.ICMPError || out.Tuple.Dst != in.Tuple.Src || out.VLANs != in.VLANs {
		t.Fatalf("built %+v about %+v", out, in)
	}
	if in.End-in.L3 > 548 { // a chain of extension headers may be cut off
		return
	}
	var quote packet.Info
	if s := packet.ParseQuote(buf[start:end], &out, &quote); s != packet.OK || quote.Tuple != in.Tuple {
		t.Fatalf("status %d, it quotes %+v, want %+v", s, quote, in)
	}
}

// FuzzParseQuote checks for any bytes in an ICMP error that nothing panics, and that what is found lies within the
// error.
func FuzzParseQuote(f *testing.F) {
	for _, k := range kinds() {
		in := parse(f, k.frame)
		f.Add(uint8(3), k.frame[in.L3:])
		f.Add(uint8(1), k.frame[in.L3:in.L4+8])
	}
	f.Add(uint8(11), icmp(3, 4)[14:])
	f.Add(uint8(3), put(udp4(), 23, 47)[14:])
	f.Add(uint8(2), ipv6(44, join(fragment(udp, 8), udpHeader())...)[14:])
	f.Fuzz(func(t *testing.T, typ uint8, inner []byte) {
		if len(inner) == 0 || len(inner) > 1400 {
			return
		}
		frame := about(typ, inner)
		in := parse(t, frame)
		var quote packet.Info
		if packet.ParseQuote(frame, &in, &quote) != packet.OK {
			return
		}
		if !in.ICMPError || quote.ICMPError || quote.Family != in.Family || quote.L3 != in.L4+packet.ICMPLen || quote.End > in.End {
			t.Fatalf("%+v in %+v", quote, in)
		}
		checkInfo(t, frame, &quote)
		packet.IsPartial(frame, &quote)
		packet.VerifyL4(frame, &quote)
		packet.VerifyIP(frame, &quote)
	})
}
