package dns_test

import (
	"bytes"
	"io"
	"net"
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

// TestCasesBySockets holds the replies of sockets to those of the responder, byte for byte, which TestCases holds to the cases.
func TestCasesBySockets(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
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
				want := answer(z, c.Message(t), c.Limit(network == "tcp"))
				if got := converse(t, network, s.Addr().String(), c.Message(t), z); !bytes.Equal(got, want) {
					t.Errorf("%s: %x, want %x", network, got, want)
				}
			}
		})
	}
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
