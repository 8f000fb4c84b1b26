package packet

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// ipv4 builds an IPv4 UDP packet with options and a fragment field, whose payload counts its bytes.
func ipv4(options []byte, field uint16, payload int) []byte {
	b := make([]byte, EthernetLen+IPv4Len+len(options)+payload)
	binary.BigEndian.PutUint16(b[12:], etherIPv4)
	h := b[EthernetLen:]
	h[0] = 0x40 | byte(IPv4Len+len(options))/4
	binary.BigEndian.PutUint16(h[2:], uint16(len(h)))
	binary.BigEndian.PutUint16(h[6:], field)
	h[8], h[9] = 64, ProtoUDP
	copy(h[12:], []byte{198, 18, 0, 1, 198, 18, 0, 2})
	copy(h[IPv4Len:], options)
	data := h[IPv4Len+len(options):]
	for i := range data {
		data[i] = byte(i)
	}
	if payload >= UDPLen {
		binary.BigEndian.PutUint16(data[4:], uint16(payload))
	}
	header := h[:IPv4Len+len(options)]
	binary.BigEndian.PutUint16(h[10:], ^Sum(header, 0))
	return b
}

func TestReadFragment(t *testing.T) {
	const more = 0x2000
	for _, c := range []struct {
		name    string
		field   uint16
		payload int
		ok      bool
		offset  int
		more    bool
	}{
		{"first", more, 1480, true, 0, true},
		{"middle", more | 185, 1480, true, 1480, true},
		{"last", 370, 3, true, 2960, false},
		{"not a multiple of eight", more | 1, 1479, false, 0, false},
		{"empty", 1, 0, false, 0, false},
		{"the last byte there is, with the header", 8189, 3, true, 65512, false},
		{"one beyond", 8189, 4, false, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := ipv4(nil, c.field, c.payload)
			var in Info
			if s := Parse(b, &in); s != OK {
				t.Fatal(s)
			}
			h, ok := ReadFragment(b, &in)
			if ok != c.ok || ok && (h.Offset != c.offset || h.More != c.more || h.Size != c.payload) {
				t.Errorf("%+v %v", h, ok)
			}
		})
	}
}

func TestReadFragmentBehindExtensions(t *testing.T) {
	b := make([]byte, EthernetLen+IPv6Len+8+8+16)
	binary.BigEndian.PutUint16(b[12:], etherIPv6)
	h := b[EthernetLen:]
	h[0], h[6], h[7] = 0x60, extHopByHop, 64
	binary.BigEndian.PutUint16(h[4:], 32)
	src, dst := netip.MustParseAddr("2001:db8::1").As16(), netip.MustParseAddr("2001:db8::2").As16()
	copy(h[8:], src[:])
	copy(h[24:], dst[:])
	h[IPv6Len] = extFragment
	f := h[IPv6Len+8:]
	f[0] = ProtoUDP
	binary.BigEndian.PutUint16(f[2:], 1448|1)
	binary.BigEndian.PutUint32(f[4:], 0xdeadbeef)
	var in Info
	if s := Parse(b, &in); s != OK || in.Fragment != LaterFragment {
		t.Fatal(s, in.Fragment)
	}
	got, ok := ReadFragment(b, &in)
	if !ok || got.ID != 0xdeadbeef || got.Offset != 1448 || !got.More || got.Size != 16 {
		t.Errorf("%+v %v", got, ok)
	}
	SetFragmentID(b, &in, &got, 7)
	if again, ok := ReadFragment(b, &in); !ok || again.ID != 7 || again.Offset != 1448 {
		t.Errorf("%+v %v", again, ok)
	}
}

func TestSetFragmentID(t *testing.T) {
	b := ipv4(nil, 0x2000, 16)
	var in Info
	Parse(b, &in)
	h, _ := ReadFragment(b, &in)
	SetFragmentID(b, &in, &h, 0x1234abcd)
	if h.ID != 0xabcd || binary.BigEndian.Uint16(b[EthernetLen+4:]) != 0xabcd || !VerifyIP(b, &in) {
		t.Errorf("%+v %x", h, b[EthernetLen:EthernetLen+IPv4Len])
	}
}

// TestPieces cuts packets, whole ones and fragments, with options of both kinds (RFC 791: the copied flag is the first bit).
func TestPieces(t *testing.T) {
	routerAlert, timestamp := []byte{0x94, 4, 0, 0}, []byte{0x44, 8, 5, 0, 0, 0, 0, 0}
	options := bytes.Join([][]byte{routerAlert, timestamp}, nil)
	for _, c := range []struct {
		field    uint16
		options  []byte
		mtu      int
		n, each  int
		lastMore bool
	}{
		{0, nil, 576, 2, 552, false},
		{0x2000, nil, 576, 2, 552, true},
		{0x2000 | 100, options, 576, 2, 544, true},
		{100, options, 128, 11, 96, false},
		{0x4000, nil, 576, 0, 0, false}, // must not be fragmented
		{0, nil, 27, 0, 0, false},
		{0, nil, 28, 125, 8, false},
	} {
		b := ipv4(c.options, c.field, 1000)
		var in Info
		Parse(b, &in)
		n, each := PiecesOf(&in, c.mtu)
		if n != c.n || each != c.each {
			t.Errorf("%x over %d: %d pieces of %d, want %d of %d", c.field, c.mtu, n, each, c.n, c.each)
			continue
		}
		if n == 0 {
			continue
		}
		data := bytes.Clone(b[in.L4:in.End])
		var got []byte
		for i := 1; i < n; i++ {
			dst := make([]byte, 2000)
			piece := dst[:CopyPiece(dst, b, &in, i, each)]
			got = append(got, checkPiece(t, piece, int(c.field&0x1fff)*8+i*each, i+1 < n || c.lastMore, c.options, true)...)
		}
		CutFirst(b, &in, each)
		got = append(checkPiece(t, b[:in.End], int(c.field&0x1fff)*8, true, c.options, false), got...)
		if !bytes.Equal(got, data) {
			t.Errorf("%x over %d: the pieces are not the packet", c.field, c.mtu)
		}
		if CopyPiece(make([]byte, 20), b, &in, 1, each) != 0 {
			t.Error("a piece without room")
		}
	}
}

// checkPiece checks the header of a piece and returns what it carries.
func checkPiece(t *testing.T, piece []byte, offset int, more bool, options []byte, later bool) []byte {
	t.Helper()
	var in Info
	if s := Parse(piece, &in); s != OK && offset > 0 || !VerifyIP(piece, &in) || in.End != len(piece) {
		t.Fatalf("%v: %x", s, piece)
	}
	h, ok := ReadFragment(piece, &in)
	if !ok || h.Offset != offset || h.More != more {
		t.Errorf("%+v %v, want offset %d, more %v", h, ok, offset, more)
	}
	want := bytes.Clone(options)
	if later && options != nil {
		copy(want[4:], bytes.Repeat([]byte{optNop}, 8)) // the timestamp is for the first fragment only
	}
	if got := piece[in.L3+IPv4Len : in.L4]; !bytes.Equal(got, want) {
		t.Errorf("options %x, want %x", got, want)
	}
	return piece[in.L4:in.End]
}
