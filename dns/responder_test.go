package dns_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/zone"
)

// query packs a question; size 0 means no EDNS.
func query(t testing.TB, name string, qtype uint16, size uint16, do bool) []byte {
	t.Helper()
	m := new(mdns.Msg).SetQuestion(name, qtype)
	m.Id = 4711
	if size > 0 {
		m.SetEdns0(size, do)
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCase holds replies to the spelling of the question: owners all of it, names in the data the part that is the zone's.
func TestCase(t *testing.T) {
	z := dnstest.Zones(t)
	for _, tt := range []struct {
		name, qname              string
		qtype                    uint16
		answer, authority, extra []string
	}{
		{"address", "CART.Shop.svc.GRID.Example.", mdns.TypeA, []string{"CART.Shop.svc.GRID.Example. 5 IN A 10.96.4.10"}, nil, nil},
		{"SRV", "_HTTP._Tcp.Cart.shop.svc.Grid.Example.", mdns.TypeSRV,
			[]string{"_HTTP._Tcp.Cart.shop.svc.Grid.Example. 5 IN SRV 0 100 8080 cart.shop.svc.Grid.Example."}, nil,
			[]string{"cart.shop.svc.Grid.Example. 5 IN A 10.96.4.10"}},
		{"bare SRV", "Cart.shop.svc.Grid.Example.", mdns.TypeSRV,
			[]string{"Cart.shop.svc.Grid.Example. 5 IN SRV 0 100 8080 cart.shop.svc.Grid.Example."}, nil,
			[]string{"cart.shop.svc.Grid.Example. 5 IN A 10.96.4.10"}},
		{"CNAME", "Alias.shop.svc.Grid.Example.", mdns.TypeA,
			[]string{"Alias.shop.svc.Grid.Example. 5 IN CNAME cart.shop.svc.Grid.Example.", "cart.shop.svc.Grid.Example. 5 IN A 10.96.4.10"}, nil, nil},
		{"NXDOMAIN", "NO.shop.svc.Grid.Example.", mdns.TypeA, nil,
			[]string{"Grid.Example. 5 IN SOA ns.dns.Grid.Example. hostmaster.Grid.Example. 1700000000 7200 1800 86400 5"}, nil},
		{"apex NS", "Grid.Example.", mdns.TypeNS, []string{"Grid.Example. 5 IN NS ns.dns.Grid.Example."}, nil,
			[]string{"ns.dns.Grid.Example. 5 IN A 10.96.0.10"}},
		{"PTR", "10.4.96.10.In-Addr.ARPA.", mdns.TypePTR, []string{"10.4.96.10.In-Addr.ARPA. 5 IN PTR cart.shop.svc.grid.example."}, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := ask(t, z, query(t, tt.qname, tt.qtype, 0, false), dns.UDPLimit)
			for _, s := range []struct {
				got  []mdns.RR
				want []string
			}{{m.Answer, tt.answer}, {m.Ns, tt.authority}, {m.Extra, tt.extra}} {
				if slices.Sort(s.want); !slices.Equal(dnstest.Text(s.got), s.want) {
					t.Errorf("\n got  %q\n want %q", dnstest.Text(s.got), s.want)
				}
			}
		})
	}
}

// TestAliases covers chains: their records come in the order in which a client follows them.
func TestAliases(t *testing.T) {
	z := dnstest.Zones(t)
	two := []string{"alias2.shop.svc.grid.example. 5 IN CNAME alias.shop.svc.grid.example.",
		"alias.shop.svc.grid.example. 5 IN CNAME cart.shop.svc.grid.example."}
	for _, tt := range []struct {
		name, qname, qtype string
		rcode              string
		answer             []string
		soa                bool
	}{
		{"two steps", "alias2", "A", "NOERROR", append(slices.Clone(two), "cart.shop.svc.grid.example. 5 IN A 10.96.4.10"), false},
		{"type missing at the end", "alias2", "AAAA", "NOERROR", two, true},
		{"SRV at the end", "alias", "SRV", "NOERROR", []string{two[1], "cart.shop.svc.grid.example. 5 IN SRV 0 100 8080 cart.shop.svc.grid.example."}, false},
		{"the record itself", "alias2", "CNAME", "NOERROR", two[:1], false},
		{"out of the zone", "legacy", "AAAA", "NOERROR", []string{"legacy.shop.svc.grid.example. 5 IN CNAME old.partner.example."}, false},
		{"nowhere", "dangling", "MX", "NXDOMAIN", []string{"dangling.shop.svc.grid.example. 5 IN CNAME nope.shop.svc.grid.example."}, true},
		{"loop itself", "loop-a", "CNAME", "NOERROR", []string{"loop-a.shop.svc.grid.example. 5 IN CNAME loop-b.shop.svc.grid.example."}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := dns.Lookup(z, netip.Addr{}, tt.qname+".shop.svc.grid.example", tt.qtype)
			if err != nil {
				t.Fatal(err)
			}
			if r.RCode != tt.rcode || !slices.Equal(r.Answer, tt.answer) || (len(r.Authority) == 1) != tt.soa {
				t.Errorf("got %+v", r)
			}
		})
	}
}

// TestNoZones fails queries as long as nothing is known: a name that cannot be found yet must not be said to be missing.
func TestNoZones(t *testing.T) {
	m, _ := ask(t, nil, query(t, "cart.shop.svc.grid.example.", mdns.TypeA, 1232, false), dns.UDPLimit)
	if m.Rcode != mdns.RcodeServerFailure || m.Authoritative || m.IsEdns0() == nil {
		t.Error(m)
	}
}

// TestPacking compares the size of replies with what miekg/dns makes of them: names are compressed as well as they can be. (Aliases
// are not among them: of the question only the zone is used for their targets, because of its spelling.)
func TestPacking(t *testing.T) {
	z := dnstest.Zones(t)
	for _, name := range []string{"cart", "dual", "multi", "ring", "_peer._tcp.ring", "sts", "nosuch", "172-24-1-21.ring"} {
		for _, qtype := range []uint16{mdns.TypeA, mdns.TypeAAAA, mdns.TypeSRV, mdns.TypeANY, mdns.TypeTXT} {
			m, raw := ask(t, z, query(t, name+".shop.svc.grid.example.", qtype, 1232, true), dns.UDPLimit)
			if o := m.IsEdns0(); o == nil || !o.Do() {
				t.Errorf("%s %d: DO is not copied", name, qtype)
			}
			m.Compress = true
			packed, err := m.Pack()
			if err != nil {
				t.Fatal(err)
			}
			if len(packed) < len(raw) {
				t.Errorf("%s %d: %d bytes, miekg/dns needs %d", name, qtype, len(raw), len(packed))
			}
		}
	}
}

// TestTruncation asks for large answers under each limit: what is sent are whole records of the whole answer, in order, and TC says
// whether all of the answer section is there.
func TestTruncation(t *testing.T) {
	z := dnstest.Zones(t)
	for _, name := range []string{"_swarm._tcp.swarm.shop.svc.grid.example.", "_peer._tcp.ring.shop.svc.grid.example."} {
		whole, _ := ask(t, z, query(t, name, mdns.TypeSRV, 0, false), dns.TCPLimit)
		partial := 0
		q := query(t, name, mdns.TypeSRV, 4096, false)
		for size := 200; size <= dns.UDPLimit; size++ {
			m, raw := ask(t, z, q, size)
			if len(raw) > size {
				t.Fatalf("%d bytes, the limit is %d", len(raw), size)
			}
			if all := len(m.Answer) == len(whole.Answer); m.Truncated == all {
				t.Fatalf("size %d: TC %v with %d of %d records", size, m.Truncated, len(m.Answer), len(whole.Answer))
			}
			for i := range m.Answer {
				if m.Answer[i].String() != whole.Answer[i].String() {
					t.Fatalf("size %d: record %d is %v", size, i, m.Answer[i])
				}
			}
			if n := len(dnstest.Text(m.Extra)); n > 0 && n < len(whole.Extra) {
				partial++
				checkWholeSets(t, m.Extra, whole.Extra)
			}
		}
		if strings.HasPrefix(name, "_peer") && partial == 0 {
			t.Error("no size cuts the additional section")
		}
	}
}

// checkWholeSets checks that RRsets are there as a whole or not at all.
func checkWholeSets(t *testing.T, got, all []mdns.RR) {
	t.Helper()
	count := func(records []mdns.RR, like mdns.RR) (n int) {
		for _, r := range records {
			if r.Header().Name == like.Header().Name && r.Header().Rrtype == like.Header().Rrtype {
				n++
			}
		}
		return n
	}
	for _, r := range got {
		if r.Header().Rrtype != mdns.TypeOPT && count(got, r) != count(all, r) {
			t.Errorf("a part of the set of %v", r)
		}
	}
}

// TestHugeService has more endpoints than the longest message holds: what is sent is still a message, and says so.
func TestHugeService(t *testing.T) {
	in := dnstest.Input()
	for i := range in.Services {
		if s := &in.Services[i]; s.Name == "swarm" {
			for n := range 5000 {
				s.Endpoints = append(s.Endpoints, dnstest.Endpoint(fmt.Sprintf("172.24.%d.%d", 20+n/250, 1+n%250), ""))
			}
		}
	}
	z, err := zone.Compile(dnstest.Resolve(t, in), dnstest.Serial)
	if err != nil {
		t.Fatal(err)
	}
	m, raw := ask(t, z, query(t, "swarm.shop.svc.grid.example.", mdns.TypeA, 0, false), dns.TCPLimit)
	if !m.Truncated || len(m.Answer) < 4000 || len(raw) > dns.TCPLimit {
		t.Errorf("TC %v, %d records, %d bytes", m.Truncated, len(m.Answer), len(raw))
	}
	m, _ = ask(t, z, query(t, "SWARM.shop.svc.GRID.example.", mdns.TypeSRV, 0, false), dns.TCPLimit)
	if last := m.Answer[len(m.Answer)-1].(*mdns.SRV); !m.Truncated || !strings.HasSuffix(last.Target, ".swarm.shop.svc.GRID.example.") {
		t.Errorf("TC %v, last %v", m.Truncated, last)
	}
}

// TestMalformed lists messages that are answered with the header alone, and such that are not answered at all.
func TestMalformed(t *testing.T) {
	good := query(t, "cart.shop.svc.grid.example.", mdns.TypeA, 1232, false)
	patch := func(change func(b []byte) []byte) []byte { return change(bytes.Clone(good)) }
	const optAt = 12 + 28 + 4
	for _, tt := range []struct {
		name  string
		msg   []byte
		rcode int // -1: no reply
	}{
		{"good", good, mdns.RcodeSuccess},
		{"empty", nil, -1},
		{"short header", good[:11], -1},
		{"header only", good[:12], mdns.RcodeFormatError},
		{"opcode 15, header only", []byte{0, 1, 0x78, 0, 0, 0, 0, 0, 0, 0, 0, 0}, mdns.RcodeNotImplemented},
		{"name cut", good[:20], mdns.RcodeFormatError},
		{"type cut", good[:12+28+1], mdns.RcodeFormatError},
		{"OPT cut", good[:len(good)-1], mdns.RcodeFormatError},
		{"pointer in the question", patch(func(b []byte) []byte { b[12] = 0xc0; return b }), mdns.RcodeFormatError},
		{"reserved label type", patch(func(b []byte) []byte { b[12] = 0x41; return b }), mdns.RcodeFormatError},
		{"OPT not at the root", patch(func(b []byte) []byte {
			return slices.Insert(b, optAt, 1, 'x')
		}), mdns.RcodeFormatError},
		{"two OPT", patch(func(b []byte) []byte { b[11] = 2; return append(b, b[optAt:]...) }), mdns.RcodeFormatError},
		{"OPT as an answer", patch(func(b []byte) []byte { b[7], b[11] = 1, 0; return b }), mdns.RcodeFormatError},
		{"too many additional", patch(func(b []byte) []byte { b[11] = 3; return b }), mdns.RcodeFormatError},
		{"two answers", patch(func(b []byte) []byte { b[7] = 2; return b }), mdns.RcodeFormatError},
		{"octets behind the message", append(bytes.Clone(good), 1, 2, 3), mdns.RcodeSuccess},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, raw := ask(t, dnstest.Zones(t), tt.msg, dns.UDPLimit)
			switch {
			case m == nil:
				if tt.rcode >= 0 {
					t.Error("no reply")
				}
			case m.Rcode != tt.rcode:
				t.Errorf("%v", m)
			case m.Rcode != mdns.RcodeSuccess && len(raw) != 12:
				t.Errorf("%d bytes", len(raw))
			}
		})
	}
}

// TestNameLengths goes to the limits of names: 255 bytes are served, one more is malformed, and so is a label of 64.
func TestNameLengths(t *testing.T) {
	z := dnstest.Zones(t)
	build := func(labels ...int) []byte {
		b := []byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}
		for _, l := range labels {
			b = append(append(b, byte(l)), bytes.Repeat([]byte{'a'}, l)...)
		}
		return append(b, "\x04grid\x07example\x00\x00\x01\x00\x01"...)
	}
	for _, tt := range []struct {
		name   string
		labels []int
		rcode  uint16
	}{
		{"255 bytes", []int{63, 63, 63, 48}, mdns.RcodeNameError},
		{"256 bytes", []int{63, 63, 63, 49}, mdns.RcodeFormatError},
		{"label of 64", []int{64}, mdns.RcodeFormatError},
		{"122 labels", slices.Repeat([]int{1}, 120), mdns.RcodeNameError},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make([]byte, dns.UDPLimit)
			n := dns.Responder{}.Answer(z, build(tt.labels...), out, dns.Client{Limit: dns.UDPLimit})
			if n < 12 || binary.BigEndian.Uint16(out[2:])&0xf != tt.rcode {
				t.Errorf("% x", out[:n])
			}
		})
	}
}

// TestAllocations holds the way of a query to none: a hit, a missing name, an alias, a truncated answer, respelled names, a refusal.
func TestAllocations(t *testing.T) {
	in := dnstest.Input()
	in.DNS.Pods, in.DNS.Zonal = "insecure", true
	z, out := dnstest.Compile(t, in), make([]byte, dns.TCPLimit)
	for _, tt := range []struct {
		name, qname string
		qtype       uint16
		limit       int
	}{
		{"hit", "cart.shop.svc.grid.example.", mdns.TypeA, dns.UDPLimit},
		{"missing", "www.partner.example.shop.svc.grid.example.", mdns.TypeAAAA, dns.UDPLimit},
		{"no data", "cart.shop.svc.grid.example.", mdns.TypeAAAA, dns.UDPLimit},
		{"alias", "alias2.shop.svc.grid.example.", mdns.TypeA, dns.UDPLimit},
		{"truncated", "swarm.shop.svc.grid.example.", mdns.TypeA, dns.UDPLimit},
		{"large by TCP", "swarm.shop.svc.grid.example.", mdns.TypeA, dns.TCPLimit},
		{"respelled SRV", "_http._tcp.cart.shop.svc.GRID.example.", mdns.TypeSRV, dns.UDPLimit},
		{"refused", "www.partner.example.", mdns.TypeA, dns.UDPLimit},
		{"pod", "192-0-2-1.ops.pod.grid.example.", mdns.TypeA, dns.UDPLimit},
		{"no pod", "blah.ops.pod.grid.example.", mdns.TypeA, dns.UDPLimit},
		{"zone", "rack-9.prefer._zone.racked.shop.svc.grid.example.", mdns.TypeSRV, dns.UDPLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := query(t, tt.qname, tt.qtype, 1232, false)
			var r dns.Responder
			if n := testing.AllocsPerRun(200, func() {
				if r.Answer(z, q, out, dns.Client{Limit: tt.limit, Turn: 1 << 31}) == 0 {
					t.Fatal("no reply")
				}
			}); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}

func BenchmarkAnswer(b *testing.B) {
	z, out := dnstest.Zones(b), make([]byte, dns.UDPLimit)
	for _, bm := range []struct {
		name, qname string
		qtype       uint16
	}{
		{"hit", "cart.shop.svc.grid.example.", mdns.TypeA},
		{"missing", "www.partner.example.shop.svc.grid.example.", mdns.TypeAAAA},
		{"srv", "_http._tcp.cart.shop.svc.grid.example.", mdns.TypeSRV},
		{"truncated", "swarm.shop.svc.grid.example.", mdns.TypeA},
	} {
		b.Run("query="+bm.name, func(b *testing.B) {
			q := query(b, bm.qname, bm.qtype, 1232, false)
			b.ReportAllocs()
			for b.Loop() {
				dns.Responder{}.Answer(z, q, out, dns.Client{Limit: dns.UDPLimit, Turn: 1 << 31})
			}
		})
	}
}

// FuzzAnswer throws messages at the responder. A reply is a readable message no longer than the limit, for the same id; its length does
// not depend on which address comes first; and a cookie is the client's part, as it came, and the server's.
func FuzzAnswer(f *testing.F) {
	in := dnstest.Input()
	in.DNS.Pods, in.DNS.Zonal, in.DNS.ExternalZone, in.DNS.Chaos = "insecure", true, "out.example", "edge-1"
	z := dnstest.Compile(f, in)
	f.Add(query(f, "fd42--9.ops.pod.grid.example.", mdns.TypeAAAA, 0, false), uint16(512))
	f.Add(query(f, "r.prefer._zone.racked.shop.svc.Grid.example.", mdns.TypeSRV, 1232, false), uint16(1232))
	f.Add(query(f, "cart.shop.svc.grid.example.", mdns.TypeA, 1232, true), uint16(1232))
	f.Add(query(f, "Swarm.shop.svc.grid.example.", mdns.TypeSRV, 512, false), uint16(600))
	f.Add(query(f, "nosuch.shop.svc.grid.example.", mdns.TypeANY, 0, false), uint16(40))
	f.Add(query(f, "loop-a.shop.svc.grid.example.", mdns.TypeA, 0, false), uint16(512))
	f.Add(withOption(f, 10, "0102030405060708"), uint16(512))
	f.Add(withOption(f, 10, "01020304050607080100000000000000ffffffffffffffff"), uint16(110))
	f.Add(onlyCookie([]byte("12345678")), uint16(60))
	responder := dns.Responder{Cookies: dns.NewCookies()}
	f.Fuzz(func(t *testing.T, msg []byte, limit uint16) {
		out := make([]byte, limit)
		c := dns.Client{Addr: netip.MustParseAddr("2001:db8::1"), Limit: int(limit)}
		first := responder.Answer(z, msg, out, c)
		c.Turn = uint32(limit) << 20
		n := responder.Answer(z, msg, out, c)
		if n != first {
			t.Fatalf("%d bytes, with another turn %d", first, n)
		}
		if n == 0 {
			return
		}
		if n > int(limit) || !bytes.Equal(out[:2], msg[:2]) {
			t.Fatalf("%d bytes of %d, id % x", n, limit, out[:2])
		}
		var m mdns.Msg
		if err := m.Unpack(out[:n]); err != nil {
			t.Fatalf("%v\n% x", err, out[:n])
		}
		if cookie := cookieIn(t, out[:n]); cookie != "" && (len(cookie) != 48 || !bytes.Contains(msg, unhex(t, cookie[:16]))) {
			t.Fatalf("cookie %s", cookie)
		}
	})
}

// BenchmarkWorker is BenchmarkAnswer for a worker, which uses its memory again.
func BenchmarkWorker(b *testing.B) {
	z, w := dnstest.Zones(b), dns.NewWorker(dns.Responder{})
	for _, bm := range []struct {
		name, qname string
		qtype       uint16
	}{
		{"hit", "cart.shop.svc.grid.example.", mdns.TypeA},
		{"missing", "www.partner.example.shop.svc.grid.example.", mdns.TypeAAAA},
		{"srv", "_http._tcp.cart.shop.svc.grid.example.", mdns.TypeSRV},
	} {
		b.Run("query="+bm.name, func(b *testing.B) {
			q := query(b, bm.qname, bm.qtype, 1232, false)
			b.ReportAllocs()
			for b.Loop() {
				w.Answer(z, q, dns.Client{Limit: dns.UDPLimit})
			}
		})
	}
}
