package wire_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns/wire"
)

func pack(t testing.TB, change func(*mdns.Msg)) []byte {
	t.Helper()
	m := new(mdns.Msg).SetQuestion("Cart.shop.svc.Grid.example.", mdns.TypeSRV)
	m.Id, m.CheckingDisabled = 4711, true
	if change != nil {
		change(m)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestPeek(t *testing.T) {
	msg := pack(t, func(m *mdns.Msg) {
		m.SetEdns0(4096, true)
		m.IsEdns0().SetVersion(7)
	})
	var q wire.Question
	if s := wire.Peek(msg, &q); s != wire.Query {
		t.Fatalf("status %d", s)
	}
	if string(q.Name()) != "\x04cart\x04shop\x03svc\x04grid\x07example\x00" || q.NameLen() != 28 || q.Labels() != 5 {
		t.Errorf("name %q, %d bytes, %d labels", q.Name(), q.NameLen(), q.Labels())
	}
	if q.ID != 4711 || q.Type != wire.TypeSRV || q.Class != wire.ClassIN {
		t.Errorf("id %d, type %d, class %d", q.ID, q.Type, q.Class)
	}
	if !q.EDNS || !q.DO || q.UDPSize != 4096 || q.Version != 7 {
		t.Errorf("EDNS %v, DO %v, size %d, version %d", q.EDNS, q.DO, q.UDPSize, q.Version)
	}
	if !bytes.Equal(q.Section(), msg[12:44]) {
		t.Errorf("section %q", q.Section())
	}
	for n, want := range map[int]string{0: "\x00", 1: "\x07example\x00", 2: "\x04grid\x07example\x00", 5: "\x04cart\x04shop\x03svc\x04grid\x07example\x00"} {
		if got := string(q.Suffix(n)); got != want {
			t.Errorf("suffix of %d labels is %q", n, got)
		}
	}
	// The same value for a query without EDNS, and for the root.
	if wire.Peek(pack(t, nil), &q) != wire.Query || q.EDNS {
		t.Error("EDNS of the query before")
	}
	if wire.Peek(pack(t, func(m *mdns.Msg) { m.Question[0].Name = "." }), &q) != wire.Query || q.Labels() != 0 || string(q.Name()) != "\x00" {
		t.Errorf("root: %d labels, %q", q.Labels(), q.Name())
	}
}

// TestPeekRecords accepts what a query may carry besides its question.
func TestPeekRecords(t *testing.T) {
	soa, err := mdns.NewRR("grid.example. 5 IN SOA ns.dns.grid.example. hostmaster.grid.example. 1 2 3 4 5")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*mdns.Msg)
		want   wire.Status
	}{
		{"IXFR with its SOA", func(m *mdns.Msg) { m.Question[0].Qtype, m.Ns = mdns.TypeIXFR, []mdns.RR{soa} }, wire.Query},
		{"signed", func(m *mdns.Msg) { m.SetEdns0(1232, false); m.SetTsig("key.", mdns.HmacSHA256, 300, 1) }, wire.Query},
		{"two authorities", func(m *mdns.Msg) { m.Ns = []mdns.RR{soa, soa} }, wire.Malformed},
		{"a reply", func(m *mdns.Msg) { m.Response = true }, wire.Ignore},
		{"a reply with another opcode", func(m *mdns.Msg) { m.Response, m.Opcode = true, 5 }, wire.Ignore},
		{"notify", func(m *mdns.Msg) { m.Opcode = mdns.OpcodeNotify }, wire.Unsupported},
		{"no question", func(m *mdns.Msg) { m.Question = nil }, wire.Malformed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var q wire.Question
			if got := wire.Peek(pack(t, tt.change), &q); got != tt.want {
				t.Errorf("status %d, want %d", got, tt.want)
			}
		})
	}
}

// TestPeekOptions reads the options of an OPT record, of which those that are not known may be anything.
func TestPeekOptions(t *testing.T) {
	for _, tt := range []struct {
		name, options      string
		version            uint8
		cookie             string
		keepalive, padding bool
		bad                bool
	}{
		{name: "none"},
		{name: "cookie", options: "\x00\x0a\x00\x0812345678", cookie: "12345678"},
		{name: "both parts", options: "\x00\x0a\x00\x101234567887654321", cookie: "1234567887654321"},
		{name: "the first of two", options: "\x00\x0a\x00\x0812345678\x00\x0a\x00\x01x", cookie: "12345678"},
		{name: "all", options: "\xff\xff\x00\x01x\x00\x0c\x00\x02\x00\x00\x00\x0b\x00\x00\x00\x0a\x00\x0812345678", cookie: "12345678",
			keepalive: true, padding: true},
		{name: "cookie too short", options: "\x00\x0a\x00\x071234567", bad: true},
		{name: "head cut", options: "\x00\x0b\x00", bad: true},
		{name: "data cut", options: "\xff\xff\x00\x02x", bad: true},
		{name: "of another version", options: "\x00\x0b\x00", version: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			msg := pack(t, func(m *mdns.Msg) {
				m.SetEdns0(1232, false)
				m.IsEdns0().SetVersion(tt.version)
			})
			msg[len(msg)-1] = byte(len(tt.options))
			q := wire.Question{Cookie: []byte("of the query before"), Keepalive: true, Padding: true, BadOption: true, Options: true}
			if s := wire.Peek(append(msg, tt.options...), &q); s != wire.Query {
				t.Fatalf("status %d", s)
			}
			if read := tt.options != "" && tt.version == 0; q.Options != read || q.BadOption != tt.bad {
				t.Errorf("options %v, bad %v", q.Options, q.BadOption)
			} else if read && (q.Keepalive != tt.keepalive || q.Padding != tt.padding || !tt.bad && string(q.Cookie) != tt.cookie) {
				t.Errorf("cookie %q, keepalive %v, padding %v", q.Cookie, q.Keepalive, q.Padding)
			}
		})
	}
}

// TestPeekWithoutQuestion takes a query without a question for one iff it has a cookie.
func TestPeekWithoutQuestion(t *testing.T) {
	for options, want := range map[string]wire.Status{
		"\x00\x0a\x00\x0812345678": wire.CookieOnly, "\x00\x0a\x00\x0712345678": wire.Malformed, "\x00\x0b\x00\x00": wire.Malformed, "": wire.Malformed,
	} {
		msg := pack(t, func(m *mdns.Msg) {
			m.Question = nil
			m.SetEdns0(1232, false)
		})
		msg[len(msg)-1] = byte(len(options))
		var q wire.Question
		if got := wire.Peek(append(msg, options...), &q); got != want || len(q.Section()) != 0 || q.Labels() != 0 {
			t.Errorf("%q: status %d, want %d", options, got, want)
		}
	}
}

// TestBuild writes a reply of header, question and OPT, and has it read by miekg/dns.
func TestBuild(t *testing.T) {
	var q wire.Question
	if wire.Peek(pack(t, func(m *mdns.Msg) { m.SetEdns0(512, true) }), &q) != wire.Query {
		t.Fatal("not a query")
	}
	out := make([]byte, 512)
	n := wire.HeaderLen + copy(out[wire.HeaderLen:], q.Section())
	wire.PutOPT(out[n:], 1232, wire.BadVers, q.DO)
	wire.PutHeader(out, &q, wire.FlagAA|wire.FlagTC, wire.BadVers, wire.Counts{Question: 1, Additional: 1})
	var m mdns.Msg
	if err := m.Unpack(out[:n+wire.OPTLen]); err != nil {
		t.Fatal(err)
	}
	want := mdns.MsgHdr{Id: 4711, Response: true, Authoritative: true, Truncated: true, RecursionDesired: true, CheckingDisabled: true,
		Rcode: mdns.RcodeBadVers}
	if m.MsgHdr != want {
		t.Errorf("header %+v", m.MsgHdr)
	}
	if o := m.IsEdns0(); o == nil || o.UDPSize() != 1232 || !o.Do() || o.Version() != 0 || m.Question[0].Name != "Cart.shop.svc.Grid.example." {
		t.Errorf("got %v", &m)
	}
}

func TestName(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, tt := range []struct {
		name, dotted, want string
		err                error
	}{
		{"name", "Cart.Shop", "\x04cart\x04shop\x00", nil},
		{"dot at the end", "shop.", "\x04shop\x00", nil},
		{"root", ".", "\x00", nil},
		{"longest label", long, "\x3f" + long + "\x00", nil},
		{"label too long", long + "a", "", wire.ErrLabel},
		{"empty label", "a..b", "", wire.ErrLabel},
		{"name too long", strings.Repeat(long+".", 4), "", wire.ErrName},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := wire.Name(tt.dotted)
			if got != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if wire.Parent("\x01a\x01b\x00") != "\x01b\x00" || wire.Parent("\x00") != "\x00" {
		t.Error("parents")
	}
}

// FuzzPeek compares what Peek takes for a query with what miekg/dns reads.
func FuzzPeek(f *testing.F) {
	f.Add(pack(f, nil))
	f.Add(pack(f, func(m *mdns.Msg) { m.SetEdns0(1232, true) }))
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0xc0, 12, 0, 1, 0, 1})
	f.Add([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 1, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, msg []byte) {
		var q wire.Question
		if wire.Peek(msg, &q) != wire.Query {
			return
		}
		if q.NameLen() < 1 || q.NameLen() > wire.MaxName || len(q.Suffix(q.Labels())) != q.NameLen() {
			t.Fatalf("name of %d bytes in %d labels", q.NameLen(), q.Labels())
		}
		name, end, err := mdns.UnpackDomainName(msg, wire.HeaderLen)
		if err != nil || end != wire.HeaderLen+q.NameLen() || mdns.CountLabel(name) != q.Labels() {
			t.Fatalf("%q, %d, %v: we read %d labels in %d bytes", name, end, err, q.Labels(), q.NameLen())
		}
	})
}

// TestLowerCase asks for names with every byte in every place, as labels of 63 bytes and less.
func TestLowerCase(t *testing.T) {
	for shift := range 9 {
		for first := 0; first < 256; first += 32 {
			label, want := make([]byte, shift, 63), make([]byte, shift, 63)
			for c := first; c < first+32; c++ {
				label, want = append(label, byte(c)), append(want, byte(c))
				if 'A' <= c && c <= 'Z' {
					want[len(want)-1] = byte(c - 'A' + 'a')
				}
			}
			msg := slices.Concat([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, byte(len(label))}, label, []byte{0, 0, 1, 0, 1})
			var q wire.Question
			if wire.Peek(msg, &q) != wire.Query || !bytes.Equal(q.Name()[1:1+len(want)], want) || q.Name()[len(want)+1] != 0 {
				t.Errorf("% x is read as % x, want % x", label, q.Name(), want)
			}
		}
	}
}
