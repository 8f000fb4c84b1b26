package dns_test

import (
	"bytes"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/dnstest"
)

// withOption returns a query for an address whose OPT record has one option; hexadecimal data.
func withOption(t testing.TB, code uint16, data string) []byte {
	t.Helper()
	m := new(mdns.Msg).SetQuestion("cart.shop.svc.grid.example.", mdns.TypeA)
	m.Id = 4711
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []mdns.EDNS0{&mdns.EDNS0_LOCAL{Code: code, Data: unhex(t, data)}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// cookieIn returns the cookie of a reply; "": none.
func cookieIn(t testing.TB, reply []byte) string {
	t.Helper()
	o := dnstest.Unpack(t, reply).IsEdns0()
	if o == nil {
		return ""
	}
	for _, option := range o.Option {
		if c, ok := option.(*mdns.EDNS0_COOKIE); ok {
			return c.Cookie
		}
	}
	return ""
}

// cookies returns cookies by secrets in hexadecimal.
func cookies(t testing.TB, texts ...string) *dns.Cookies {
	t.Helper()
	var shared []topology.Secret
	for _, text := range texts {
		shared = append(shared, topology.Secret(unhex(t, text)))
	}
	c := dns.NewCookies()
	c.SetSecrets(shared)
	return c
}

// The secrets of RFC 9018 appendix A, the last of which replaces the one before it.
const (
	secret1 = "e5e973e5a6b2a43f48e7dc849e37bfcf"
	secret2 = "dd3bdf9344b678b185a6f5cb60fca715"
	secret3 = "445536bcd2513298075a5d379663c962"
)

// TestCookies goes through the examples of RFC 9018 appendix A, and what is valid for how long.
func TestCookies(t *testing.T) {
	const (
		client  = "2464c4abcf10c957"
		learned = client + "010000005cf79f111f8130c3eee29480"
		at      = 0x5cf79f11
	)
	renewed := func(cookie string) string { return strings.Repeat("x", len(cookie)) }
	for _, tt := range []struct {
		name, addr string
		secrets    []string
		time       uint32
		cookie     string
		want       string // x: a new server cookie, whatever it is
	}{
		{"A.1 learning", "198.51.100.100", []string{secret1}, 1559731985, client, learned},
		{"A.2 same client later", "198.51.100.100", []string{secret1}, 1559734385, learned, client + "010000005cf7a871d4a564a1442aca77"},
		{"A.3 reserved bytes", "203.0.113.203", []string{secret1}, 1559734700, "fc93fc62807ddb8601abcdef5cf78f71a314227b6679ebf5",
			"fc93fc62807ddb86010000005cf7a9acf73a7810aca2381e"},
		{"A.4 new secret", "2001:db8:220:1:59de:d0f4:8769:82b8", []string{secret3, secret2}, 1559741961,
			"22681ab97d52c298010000005cf7c57926556bd0934c72f8", "22681ab97d52c298010000005cf7c609a6bb79d16625507a"},
		{"at once", "198.51.100.100", []string{secret1}, at, learned, learned},
		{"by the second secret", "198.51.100.100", []string{secret2, secret1}, at + 1, learned, renewed(learned)},
		{"half an hour", "198.51.100.100", []string{secret1}, at + 1800, learned, learned},
		{"above half an hour", "198.51.100.100", []string{secret1}, at + 1801, learned, renewed(learned)},
		{"clock 5 min behind", "198.51.100.100", []string{secret1}, at - 300, learned, learned},
		{"clock further behind", "198.51.100.100", []string{secret1}, at - 301, learned, renewed(learned)},
		{"of another client", "198.51.100.101", []string{secret1}, at, learned, renewed(learned)},
		{"of another server", "198.51.100.100", []string{secret2}, at, learned, renewed(learned)},
		{"of another version", "198.51.100.100", []string{secret1}, at, client + "020000005cf79f111f8130c3eee29480", renewed(learned)},
		{"shortest", "198.51.100.100", []string{secret1}, at, client + "0100000000000000", learned},
		{"longest", "198.51.100.100", []string{secret1}, at, learned + "00112233445566778899aabbccddeeff", learned},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dns.Responder{Cookies: cookies(t, tt.secrets...)}
			c := dns.Client{Addr: netip.MustParseAddr(tt.addr), Limit: dns.UDPLimit, Time: tt.time}
			out := make([]byte, dns.UDPLimit)
			reply := out[:r.Answer(dnstest.Zones(t), withOption(t, 10, tt.cookie), out, c)]
			got := cookieIn(t, reply)
			if tt.want != renewed(tt.want) {
				if got != tt.want {
					t.Errorf("cookie %s, want %s", got, tt.want)
				}
			} else if len(got) != 48 || got[:16] != tt.cookie[:16] || got == tt.cookie {
				t.Errorf("cookie %s for %s", got, tt.cookie)
			}
			if m := dnstest.Unpack(t, reply); m.Rcode != mdns.RcodeSuccess || len(m.Answer) != 1 {
				t.Error(m)
			}
		})
	}
}

// TestCookieLifetime tells from a query for a cookie alone until when the server takes one for good.
func TestCookieLifetime(t *testing.T) {
	const at = 0x5cf79f11
	cookie := unhex(t, "2464c4abcf10c957010000005cf79f111f8130c3eee29480")
	for age, want := range map[int]int{-301: mdns.RcodeBadCookie, -300: 0, 0: 0, 1801: 0, 3600: 0, 3601: mdns.RcodeBadCookie} {
		r := dns.Responder{Cookies: cookies(t, secret1)}
		c := dns.Client{Addr: netip.MustParseAddr("198.51.100.100"), Limit: dns.UDPLimit, Time: uint32(at + age)}
		out := make([]byte, dns.UDPLimit)
		reply := out[:r.Answer(nil, onlyCookie(cookie), out, c)]
		if m := dnstest.Unpack(t, reply); m.Rcode != want || len(cookieIn(t, reply)) != 48 {
			t.Errorf("after %d s: %v", age, m)
		}
	}
}

// onlyCookie returns a query without a question that has a cookie.
func onlyCookie(cookie []byte) []byte {
	head := []byte{18, 103, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, byte(4 + len(cookie)), 0, 10, 0, byte(len(cookie))}
	return append(head, cookie...)
}

// TestCookieOnly compares replies to queries without a question byte for byte (RFC 7873 section 5.4).
func TestCookieOnly(t *testing.T) {
	const (
		client = "2464c4abcf10c957"
		good   = client + "010000005cf79f111f8130c3eee29480"
		opt    = "00002904d0"
	)
	known := dns.Client{Addr: netip.MustParseAddr("198.51.100.100"), Limit: dns.UDPLimit, Time: 0x5cf79f11}
	for _, tt := range []struct {
		name, cookie, want string
		client             dns.Client
	}{
		{"client's part", client, "126780000000000000000001" + opt + "00000000001c000a0018" + good, known},
		{"good", good, "126780000000000000000001" + opt + "00000000001c000a0018" + good, known},
		{"bad", client + "0000000000000000", "126780070000000000000001" + opt + "01000000001c000a0018" + good, known},
		{"malformed", client + "00", "126780010000000000000000", known},
		{"no address", client, "126780010000000000000000", dns.Client{Limit: dns.UDPLimit}},
		{"no room", client, "", dns.Client{Addr: known.Addr, Limit: 50}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make([]byte, dns.UDPLimit)
			n := dns.Responder{Cookies: cookies(t, secret1)}.Answer(dnstest.Zones(t), onlyCookie(unhex(t, tt.cookie)), out, tt.client)
			if got := hex.EncodeToString(out[:n]); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestOptionForm gives options in a form that they must not have: the reply says so, with question and OPT record and nothing else.
func TestOptionForm(t *testing.T) {
	for length, want := range map[int]int{0: 1, 7: 1, 8: 0, 9: 1, 15: 1, 16: 0, 24: 0, 40: 0, 41: 1} {
		q := withOption(t, 10, strings.Repeat("00", length))
		out := make([]byte, dns.UDPLimit)
		reply := out[:dns.Responder{Cookies: dns.NewCookies()}.Answer(dnstest.Zones(t), q, out,
			dns.Client{Addr: netip.MustParseAddr("::1"), Limit: dns.UDPLimit})]
		m := dnstest.Unpack(t, reply)
		if m.Rcode != want || len(m.Question) != 1 || m.IsEdns0() == nil || (cookieIn(t, reply) != "") != (want == 0) {
			t.Errorf("cookie of %d bytes: %v", length, m)
		}
	}
	q := withOption(t, 100, "0102")
	q[len(q)-3]++ // the length of the option
	if m := dnstest.Unpack(t, answer(dnstest.Zones(t), q, dns.UDPLimit)); m.Rcode != mdns.RcodeFormatError || m.IsEdns0() == nil {
		t.Errorf("an option that is cut: %v", m)
	}
}

// TestCookieRoom cuts a long answer with a cookie: all of the limit is used, and no more.
func TestCookieRoom(t *testing.T) {
	m := new(mdns.Msg).SetQuestion("swarm.shop.svc.grid.example.", mdns.TypeA)
	m.SetEdns0(1232, false)
	m.IsEdns0().Option = []mdns.EDNS0{&mdns.EDNS0_COOKIE{Cookie: "0102030405060708"}}
	q, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	for limit := 400; limit < 420; limit++ {
		out := make([]byte, dns.UDPLimit)
		n := dns.Responder{Cookies: dns.NewCookies()}.Answer(dnstest.Zones(t), q, out, dns.Client{Addr: netip.MustParseAddr("::1"), Limit: limit})
		const record = 16
		if n > limit || n+record <= limit || len(cookieIn(t, out[:n])) != 48 {
			t.Errorf("%d bytes of %d", n, limit)
		}
	}
}

// TestCookieSecrets: a random secret makes cookies for a day, and is accepted for one more; one that is given stays.
func TestCookieSecrets(t *testing.T) {
	const day = 24 * 60 * 60
	c := dns.NewCookies()
	r, out := dns.Responder{Cookies: c}, make([]byte, dns.UDPLimit)
	start := uint32(time.Now().Unix())
	ask := func(cookie string, after uint32) (string, int) {
		n := r.Answer(nil, onlyCookie(unhex(t, cookie)), out, dns.Client{Addr: netip.MustParseAddr("::1"), Limit: dns.UDPLimit, Time: start + after})
		return cookieIn(t, out[:n]), dnstest.Unpack(t, out[:n]).Rcode
	}
	first, _ := ask("0102030405060708", day-60)
	if got, rcode := ask(first, day-30); got != first || rcode != 0 {
		t.Errorf("within the day: %s, %d", got, rcode)
	}
	second, rcode := ask(first, day+60)
	if second == first || rcode != 0 {
		t.Errorf("the day after: %s, %d", second, rcode)
	}
	if got, rcode := ask(second, day+90); got != second || rcode != 0 {
		t.Errorf("by the second secret: %s, %d", got, rcode)
	}
	c.SetSecrets(nil)
	if got, _ := ask(second, day+90); got != second {
		t.Error("a random secret is replaced by another before its time")
	}
	c.SetSecrets([]topology.Secret{{1}})
	if _, rcode := ask(second, day+90); rcode != mdns.RcodeBadCookie {
		t.Error("a random secret is still accepted")
	}
	third, _ := ask(second, day+90)
	ask(second, 4*day) // replaces a random secret
	if got, rcode := ask(third, day+91); got != third || rcode != 0 {
		t.Errorf("by a secret that was given: %s, %d", got, rcode)
	}
	c.SetSecrets(nil)
	if _, rcode := ask(third, day+91); rcode != mdns.RcodeBadCookie {
		t.Error("the secret that was given is still accepted")
	}
}

// TestCookieOfTheRing: a cookie that a worker has given is good for the sockets, by both protocols, and a fresh one comes back as it is.
func TestCookieOfTheRing(t *testing.T) {
	c := dns.NewCookies()
	w := dns.NewWorker(dns.Responder{Cookies: c})
	z := dnstest.Zones(t)
	reply, _, _ := w.Answer(z, withOption(t, 10, "0102030405060708"), dns.Client{Addr: netip.MustParseAddr("127.0.0.1"), Limit: dns.UDPLimit})
	given := cookieIn(t, reply)
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.Cookies = c })
	s.Serve(z, nil)
	for _, network := range []string{"udp", "tcp"} {
		got := converse(t, network, s.Addr().String(), withOption(t, 10, given), z)
		if cookieIn(t, got) != given || len(given) != 48 {
			t.Errorf("%s: %s, want %s", network, cookieIn(t, got), given)
		}
	}
}

// TestCookieAllocations: giving and checking cookies allocates nothing.
func TestCookieAllocations(t *testing.T) {
	z, out := dnstest.Zones(t), make([]byte, dns.UDPLimit)
	r, c := dns.Responder{Cookies: cookies(t, secret1)}, dns.Client{Addr: netip.MustParseAddr("198.51.100.100"), Limit: dns.UDPLimit, Time: 0x5cf79f11}
	for _, cookie := range []string{"2464c4abcf10c957", "2464c4abcf10c957010000005cf79f111f8130c3eee29480"} {
		q := withOption(t, 10, cookie)
		if n := testing.AllocsPerRun(200, func() { r.Answer(z, q, out, c) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestCookieTwice: of two options the first counts, and the form of the second does not matter.
func TestCookieTwice(t *testing.T) {
	r, c := dns.Responder{Cookies: cookies(t, secret1)}, dns.Client{Addr: netip.MustParseAddr("198.51.100.100"), Limit: dns.UDPLimit, Time: 0x5cf79f11}
	out := make([]byte, dns.UDPLimit)
	q := withOption(t, 10, "2464c4abcf10c957")
	opt := bytes.LastIndex(q, []byte{0, 12, 0, 10, 0, 8})
	q[opt+1] = 19
	q = append(q, 0, 10, 0, 3, 1, 1, 1)
	if got := cookieIn(t, out[:r.Answer(dnstest.Zones(t), q, out, c)]); got != "2464c4abcf10c957010000005cf79f111f8130c3eee29480" {
		t.Errorf("cookie %s", got)
	}
}
