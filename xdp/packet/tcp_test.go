package packet_test

import (
	"testing"

	"sluice/xdp/packet"
)

// withOptions makes a segment with options, whose length is a multiple of 4, and payload.
func withOptions(flags uint8, options, payload []byte) []byte {
	frame := build(packet.Spec{Tuple: tuple4(tcp), TCPFlags: flags, Seq: 0xfffffffe, Ack: 0x01020304, Window: 0x7210,
		Payload: join(options, payload)})
	return put(frame, packet.EthernetLen+packet.IPv4Len+12, uint8(5+len(options)/4)<<4)
}

func TestReadSegment(t *testing.T) {
	base := packet.Segment{Seq: 0xfffffffe, Ack: 0x01020304, Window: 0x7210}
	tests := []struct {
		name             string
		flags            uint8
		options, payload []byte
		want             func(*packet.Segment)
		end              uint32
	}{
		{"bare ack", packet.TCPAck, nil, nil, func(*packet.Segment) {}, 0xfffffffe},
		{"data across the wrap", packet.TCPAck, nil, make([]byte, 7), func(s *packet.Segment) { s.Len = 7 }, 5},
		{"syn", packet.TCPSyn, nil, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"data and fin", packet.TCPAck | packet.TCPFin, nil, make([]byte, 3), func(s *packet.Segment) { s.Len = 4 }, 2},
		{"syn with data", packet.TCPSyn, []byte{1, 1, 1, 0}, make([]byte, 3), func(s *packet.Segment) { s.Len = 4 }, 2},
		{"every option of linux", packet.TCPSyn, []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}, nil,
			func(s *packet.Segment) { s.Len, s.Scales, s.WScale, s.SACKPermitted = 1, true, 7, true }, 0xffffffff},
		{"scale of 0", packet.TCPSyn, []byte{3, 3, 0, 0}, nil, func(s *packet.Segment) { s.Len, s.Scales = 1, true }, 0xffffffff},
		{"scale too large", packet.TCPSyn, []byte{3, 3, 255, 0}, nil,
			func(s *packet.Segment) { s.Len, s.Scales, s.WScale = 1, true, 14 }, 0xffffffff},
		{"scale of a wrong length", packet.TCPSyn, []byte{3, 4, 7, 0}, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"option behind the end", packet.TCPSyn, []byte{0, 3, 3, 7}, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"option too long", packet.TCPSyn, []byte{254, 9, 3, 3}, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"option of length 0", packet.TCPSyn, []byte{254, 0, 3, 3}, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"option without length", packet.TCPSyn, []byte{1, 1, 1, 3}, nil, func(s *packet.Segment) { s.Len = 1 }, 0xffffffff},
		{"options without syn", packet.TCPAck, []byte{3, 3, 7, 0}, nil, func(*packet.Segment) {}, 0xfffffffe},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := base
			want.Flags = tt.flags
			tt.want(&want)
			frame := withOptions(tt.flags, tt.options, tt.payload)
			in := parse(t, frame)
			got := packet.Segment{Scales: true, WScale: 3, SACKPermitted: true}
			if !packet.ReadSegment(frame, &in, &got) || got != want || got.End() != tt.end {
				t.Errorf("%+v, end %#x, want %+v, end %#x", got, got.End(), want, tt.end)
			}
			if got := packet.ReadSegment(append(frame, 0, 0, 0), &in, &got); !got {
				t.Error("not read from a padded frame")
			}
		})
	}
}

// TestReadSegmentRefuses: what has no whole segment is refused, also when the Info does not belong to the frame.
func TestReadSegmentRefuses(t *testing.T) {
	frame := build(packet.Spec{Tuple: tuple4(tcp), TCPFlags: packet.TCPAck})
	in := parse(t, frame)
	first := put(build(packet.Spec{Tuple: tuple4(tcp), TCPFlags: packet.TCPAck}), 20, 0x20)
	inFirst := parse(t, first)
	datagram := build(packet.Spec{Tuple: tuple4(udp), Payload: make([]byte, 40)})
	inDatagram := parse(t, datagram)
	long := put(build(packet.Spec{Tuple: tuple4(tcp)}), 14+20+12, 0xf0)
	for _, tt := range []struct {
		name  string
		frame []byte
		in    *packet.Info
	}{
		{"cut short", frame[:len(frame)-1], &in}, {"first fragment", first, &inFirst}, {"UDP", datagram, &inDatagram},
		{"header longer than the packet", long, &in}, {"empty", nil, &in}, {"no info", frame, &packet.Info{}},
	} {
		var s packet.Segment
		if packet.ReadSegment(tt.frame, tt.in, &s) {
			t.Errorf("%s: read as %+v", tt.name, s)
		}
	}
}

// sctpFrame makes an SCTP packet with the verification tag 0x0a0b0c0d and what follows the common header.
func sctpFrame(chunks ...byte) []byte {
	return build(packet.Spec{Tuple: tuple4(packet.ProtoSCTP), Seq: 0x0a0b0c0d, Payload: chunks})
}

func initChunk(typ uint8) []byte {
	return []byte{typ, 0, 0, 20, 0x11, 0x22, 0x33, 0x44, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 9}
}

func TestReadChunk(t *testing.T) {
	const tag = 0x0a0b0c0d
	tests := []struct {
		name   string
		chunks []byte
		want   packet.Chunk
		ok     bool
	}{
		{"init", initChunk(packet.SCTPInit), packet.Chunk{Tag: tag, Type: packet.SCTPInit, InitiateTag: 0x11223344}, true},
		{"init ack", initChunk(packet.SCTPInitAck), packet.Chunk{Tag: tag, Type: packet.SCTPInitAck, InitiateTag: 0x11223344}, true},
		{"cookie echo and data", []byte{10, 0, 0, 8, 1, 2, 3, 4, 0, 3, 0, 17},
			packet.Chunk{Tag: tag, Type: packet.SCTPCookieEcho}, true},
		{"abort", []byte{6, 0, 0, 4}, packet.Chunk{Tag: tag, Type: packet.SCTPAbort}, true},
		{"abort with the peer's tag", []byte{6, 1, 0, 4}, packet.Chunk{Tag: tag, Type: packet.SCTPAbort, Reflected: true}, true},
		{"init cut short", initChunk(packet.SCTPInit)[:7], packet.Chunk{}, false},
		{"init that says it is short", []byte{1, 0, 0, 8, 1, 2, 3, 4}, packet.Chunk{}, false},
		{"chunk shorter than its header", []byte{0, 3, 0, 3}, packet.Chunk{}, false},
		{"chunk header cut short", []byte{0, 3, 0}, packet.Chunk{}, false},
		{"no chunk", nil, packet.Chunk{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			frame := sctpFrame(tt.chunks...)
			in := parse(t, frame)
			var got packet.Chunk
			if ok := packet.ReadChunk(frame, &in, &got); ok != tt.ok || ok && got != tt.want {
				t.Errorf("%+v, %v, want %+v, %v", got, ok, tt.want, tt.ok)
			}
		})
	}
}

// TestReadingDoesNotAllocate covers segments and chunks.
func TestReadingDoesNotAllocate(t *testing.T) {
	syn := withOptions(packet.TCPSyn, []byte{2, 4, 5, 180, 3, 3, 7, 0}, nil)
	begin := sctpFrame(initChunk(packet.SCTPInit)...)
	inSyn, inBegin := parse(t, syn), parse(t, begin)
	var s packet.Segment
	var c packet.Chunk
	read := true
	n := testing.AllocsPerRun(100, func() {
		read = read && packet.ReadSegment(syn, &inSyn, &s) && packet.ReadChunk(begin, &inBegin, &c)
	})
	if n != 0 || !read {
		t.Errorf("%v allocations, read %v", n, read)
	}
}

// FuzzReadTransport: for any bytes nothing panics, a segment takes no more numbers than the packet has bytes and flags,
// and what is read does not depend on what lies behind the packet.
func FuzzReadTransport(f *testing.F) {
	f.Add(withOptions(packet.TCPSyn, []byte{2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7}, []byte("GET")))
	f.Add(withOptions(packet.TCPSyn, []byte{3, 3, 255, 254}, nil))
	f.Add(withOptions(packet.TCPFin|packet.TCPAck, []byte{1, 1, 1, 3}, nil))
	f.Add(put(tcp4(), 20, 0x20))
	f.Add(sctpFrame(initChunk(packet.SCTPInit)...))
	f.Add(sctpFrame(packet.SCTPAbort, 1, 0, 4))
	f.Add(sctpFrame(1, 0))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var in packet.Info
		if packet.Parse(frame, &in) != packet.OK {
			return
		}
		var s, s2 packet.Segment
		var c, c2 packet.Chunk
		longer := append(append(make([]byte, 0, len(frame)+9), frame...), "\x03\x03\x07\x04\x02\x03\x03\x07\x01"...)
		if ok := packet.ReadSegment(frame, &in, &s); ok != packet.ReadSegment(longer, &in, &s2) || s != s2 {
			t.Fatalf("%+v, in a longer frame %+v", s, s2)
		}
		if ok := packet.ReadChunk(frame, &in, &c); ok != packet.ReadChunk(longer, &in, &c2) || c != c2 {
			t.Fatalf("%+v, in a longer frame %+v", c, c2)
		}
		if most := uint32(in.End - in.L4 - packet.TCPLen + 2); s.Flags != 0 && s.Len > most || s.WScale > 14 {
			t.Fatalf("%+v of a packet of %d bytes", s, in.End-in.L4)
		}
	})
}
