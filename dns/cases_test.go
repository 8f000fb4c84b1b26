package dns_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/zone"
)

// answer returns the reply of the responder.
func answer(z *zone.Zones, query []byte, limit int) []byte {
	out := make([]byte, limit)
	return out[:dns.Responder{}.Answer(z, query, out, dns.Client{Limit: limit})]
}

// ask puts a message to the responder and reads the reply by miekg/dns; nil: none.
func ask(t testing.TB, z *zone.Zones, query []byte, limit int) (*mdns.Msg, []byte) {
	t.Helper()
	reply := answer(z, query, limit)
	return dnstest.Unpack(t, reply), reply
}

func TestCases(t *testing.T) {
	cases := dnstest.Cases(t)
	if len(cases) < 93 {
		t.Errorf("%d cases, want 93 and more", len(cases))
	}
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			z := c.Zones(t)
			for _, tcp := range []bool{false, true} {
				limit := c.Limit(tcp)
				c.Check(t, answer(z, c.Message(t), limit), limit)
			}
		})
	}
}

// TestCasesBySockets holds the replies of sockets to the cases, and to those of the responder, byte for byte but for the turn of addresses.
func TestCasesBySockets(t *testing.T) {
	cookies := dns.NewCookies()
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.Cookies = cookies })
	cases := dnstest.Cases(t)
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			z := c.Zones(t)
			s.Serve(z, nil)
			for _, network := range []string{"udp", "tcp"} {
				if network == "udp" && c.Query.TCP {
					continue
				}
				client := dns.Client{Addr: netip.MustParseAddr("127.0.0.1"), Limit: c.Limit(network == "tcp"), Time: uint32(time.Now().Unix())}
				got := converse(t, network, s.Addr().String(), c.Message(t), z)
				if !isReply(got, dns.Responder{Cookies: cookies}, z, c.Message(t), client) {
					t.Errorf("%s: %x", network, got)
				}
				c.Check(t, got, client.Limit)
			}
		})
	}
}

// isReply reports whether a server that answers as r does can have given a reply to a query since client.Time.
func isReply(got []byte, r dns.Responder, z *zone.Zones, query []byte, client dns.Client) bool {
	const turns = 1 << 12 // more than there are addresses: each begins some
	out := make([]byte, client.Limit)
	for ; client.Time <= uint32(time.Now().Unix()); client.Time++ {
		for turn := range uint32(turns) {
			client.Turn = turn * (1 << 32 / turns)
			if bytes.Equal(got, out[:r.Answer(z, query, out, client)]) {
				return true
			}
		}
	}
	return false
}

// converse sends a message, and behind it a query that has an answer, and returns what comes before that answer: nothing, if the
// first gets no reply. By UDP each goes to the same socket of the server, since they come from one port.
func converse(t *testing.T, network, addr string, msg []byte, z *zone.Zones) (reply []byte) {
	t.Helper()
	conn, err := net.Dial(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	const last = "dns-version.grid.example."
	end := answer(z, query(t, last, mdns.TypeTXT, 0, false), dns.UDPLimit)
	for _, m := range [][]byte{msg, query(t, last, mdns.TypeTXT, 0, false)} {
		if network == "tcp" {
			m = append([]byte{byte(len(m) >> 8), byte(len(m))}, m...)
		}
		if _, err := conn.Write(m); err != nil {
			t.Fatal(err)
		}
	}
	for {
		got := receive(t, network, conn)
		if bytes.Equal(got, end) && !bytes.Equal(msg, query(t, last, mdns.TypeTXT, 0, false)) || reply != nil {
			return reply
		}
		reply = got
	}
}

// receive reads one message.
func receive(t *testing.T, network string, conn net.Conn) []byte {
	t.Helper()
	buf := make([]byte, dns.TCPLimit)
	var n int
	var err error
	if network == "tcp" {
		if _, err = io.ReadFull(conn, buf[:2]); err == nil {
			n, err = io.ReadFull(conn, buf[:int(buf[0])<<8|int(buf[1])])
		}
	} else {
		n, err = conn.Read(buf)
	}
	if err != nil {
		t.Fatalf("%s: %v", network, err)
	}
	return buf[:n]
}

// TestWorkerForgets puts the queries of all cases, and some with cookies, broken and cut short, to one worker in random orders: each reply
// is what a responder says that has answered nothing before.
func TestWorkerForgets(t *testing.T) {
	z := dnstest.Zones(t)
	cookies := dns.NewCookies()
	queries := [][]byte{nil, {0, 1}, withOption(t, 10, "0102030405060708"), withOption(t, 10, "01"), withOption(t, 12, "00")}
	only := &mdns.Msg{MsgHdr: mdns.MsgHdr{Id: 1}}
	only.SetEdns0(1232, true)
	only.IsEdns0().Option = []mdns.EDNS0{&mdns.EDNS0_COOKIE{Code: mdns.EDNS0COOKIE, Cookie: "0102030405060708"}}
	packed, err := only.Pack()
	if err != nil {
		t.Fatal(err)
	}
	queries = append(queries, packed)
	for _, c := range dnstest.Cases(t) {
		m := c.Message(t)
		queries = append(queries, m, m[:len(m)-1], m[:12])
	}
	w, random := dns.NewWorker(dns.Responder{Cookies: cookies}), rand.New(rand.NewPCG(1, 2))
	client := dns.Client{Addr: netip.MustParseAddr("198.18.0.50"), Limit: dns.UDPLimit, Time: uint32(time.Now().Unix())}
	w.SetTime(time.Unix(int64(client.Time), 0))
	for range 20_000 {
		q := queries[random.IntN(len(queries))]
		want := make([]byte, dns.UDPLimit)
		want = want[:dns.Responder{Cookies: cookies}.Answer(z, q, want, client)]
		if got, _, _ := w.Answer(z, q, client); !sameButForOrder(t, got, want) {
			t.Fatalf("%x:\n got %x\nwant %x", q, got, want)
		}
	}
}

// sameButForOrder reports whether two replies differ in the order of addresses at most.
func sameButForOrder(t *testing.T, a, b []byte) bool {
	if bytes.Equal(a, b) || len(a) != len(b) || len(a) == 0 {
		return bytes.Equal(a, b)
	}
	m, n := dnstest.Unpack(t, a), dnstest.Unpack(t, b)
	same := m.MsgHdr == n.MsgHdr && slices.Equal(dnstest.Text(m.Ns), dnstest.Text(n.Ns)) && slices.Equal(dnstest.Text(m.Extra), dnstest.Text(n.Extra))
	return same && (m.Truncated || slices.Equal(dnstest.Text(m.Answer), dnstest.Text(n.Answer)))
}
