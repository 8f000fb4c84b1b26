package dns_test

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/zone"
)

// TestKeepalive tells clients by connection how long these may be idle, if they ask, in units of 100 ms.
func TestKeepalive(t *testing.T) {
	z, out := dnstest.Zones(t), make([]byte, dns.TCPLimit)
	for _, tt := range []struct {
		name      string
		timeout   time.Duration
		transport dns.Transport
		option    uint16
		want      int // -1: nothing
	}{
		{"TCP", 10 * time.Second, dns.TCP, 11, 100},
		{"TLS", 1234 * time.Millisecond, dns.TLS, 11, 12},
		{"longest", 24 * time.Hour, dns.TCP, 11, 65535},
		{"UDP", 10 * time.Second, dns.UDP, 11, -1},
		{"not asked", 10 * time.Second, dns.TCP, 100, -1},
		{"not known", 0, dns.TCP, 11, -1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := dns.Responder{IdleTimeout: tt.timeout}
			n := r.Answer(z, withOption(t, tt.option, ""), out, dns.Client{Limit: dns.TCPLimit, Transport: tt.transport})
			m := dnstest.Unpack(t, out[:n])
			got := -1
			for _, o := range m.IsEdns0().Option {
				got = int(o.(*mdns.EDNS0_TCP_KEEPALIVE).Timeout)
			}
			if got != tt.want || len(m.Answer) != 1 {
				t.Errorf("%d, want %d: %v", got, tt.want, m)
			}
		})
	}
}

// TestServerKeepalive asks by a real connection, and by UDP.
func TestServerKeepalive(t *testing.T) {
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.IdleTimeout = 7 * time.Second })
	z := dnstest.Zones(t)
	s.Serve(z, nil)
	for network, want := range map[string]string{"tcp": "\x00\x06\x00\x0b\x00\x02\x00\x46", "udp": "\x00\x00\x29\x04\xd0\x00\x00\x00\x00\x00\x00"} {
		got := converse(t, network, s.Addr().String(), withOption(t, 11, ""), z)
		if string(got[len(got)-len(want):]) != want {
			t.Errorf("%s: %x, want %x at the end", network, got, want)
		}
	}
}

// TestPadding fills replies over TLS up to a multiple of 468 bytes, with zeros, if the query asks for it.
func TestPadding(t *testing.T) {
	z := dnstest.Zones(t)
	unpadded := len(answer(z, withOption(t, 100, ""), dns.TCPLimit))
	for _, tt := range []struct {
		name      string
		transport dns.Transport
		option    uint16
		limit     int
		want      int
	}{
		{"TLS", dns.TLS, 12, dns.TCPLimit, 468},
		{"not asked", dns.TLS, 100, dns.TCPLimit, unpadded},
		{"TCP", dns.TCP, 12, dns.TCPLimit, unpadded},
		{"UDP", dns.UDP, 12, dns.UDPLimit, unpadded},
		{"longest message", dns.TLS, 12, 300, 300},
		{"just the head", dns.TLS, 12, unpadded + 4, unpadded + 4},
		{"no room", dns.TLS, 12, unpadded + 3, unpadded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := make([]byte, dns.TCPLimit)
			for i := range out {
				out[i] = 0xff // of the reply before
			}
			n := dns.Responder{}.Answer(z, withOption(t, tt.option, ""), out, dns.Client{Limit: tt.limit, Transport: tt.transport})
			m := dnstest.Unpack(t, out[:n])
			if n != tt.want || len(m.Answer) != 1 {
				t.Errorf("%d bytes, want %d: %v", n, tt.want, m)
			}
			for _, o := range m.IsEdns0().Option {
				for _, b := range o.(*mdns.EDNS0_PADDING).Padding {
					if b != 0 {
						t.Fatalf("padded by %x", o.(*mdns.EDNS0_PADDING).Padding)
					}
				}
			}
		})
	}
}

// TestAllOptions asks for everything at once: it is all there, and padding comes last and fills the block. Nothing allocates.
func TestAllOptions(t *testing.T) {
	z, out := dnstest.Zones(t), make([]byte, dns.TCPLimit)
	r := dns.Responder{Cookies: cookies(t, secret1), IdleTimeout: 10 * time.Second}
	c := dns.Client{Addr: netip.MustParseAddr("198.51.100.100"), Limit: dns.TCPLimit, Time: 0x5cf79f11, Transport: dns.TLS}
	q := withOption(t, 10, "2464c4abcf10c957")
	binary.BigEndian.PutUint16(q[len(q)-14:], 20)
	q = append(q, 0, 12, 0, 0, 0, 11, 0, 0)
	n := r.Answer(z, q, out, c)
	m := dnstest.Unpack(t, out[:n])
	o := m.IsEdns0().Option
	if n != 468 || len(m.Answer) != 1 || len(o) != 3 || o[0].String() != "2464c4abcf10c957010000005cf79f111f8130c3eee29480" ||
		o[1].(*mdns.EDNS0_TCP_KEEPALIVE).Timeout != 100 || o[2].Option() != 12 {
		t.Errorf("%d bytes: %v", n, m)
	}
	if n := testing.AllocsPerRun(200, func() { r.Answer(z, q, out, c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestExtendedErrors says why a query is not answered, to clients that know of EDNS and if there is room.
func TestExtendedErrors(t *testing.T) {
	z := dnstest.Zones(t)
	for _, tt := range []struct {
		name, qname string
		qtype       uint16
		z           *zone.Zones
		size        uint16
		less        int // bytes of the limit than the reply has
		want        string
	}{
		{"not loaded", "cart.shop.svc.grid.example.", mdns.TypeA, nil, 1232, 0, "0006000f0002000e"},
		{"outside", "www.partner.example.", mdns.TypeA, z, 1232, 0, "0006000f00020014"},
		{"transfer", "grid.example.", mdns.TypeAXFR, z, 1232, 0, "0006000f00020012"},
		{"no room", "www.partner.example.", mdns.TypeA, z, 1232, 1, "0000"},
		{"missing", "no.shop.svc.grid.example.", mdns.TypeA, z, 1232, 0, "0000"},
		{"no EDNS", "www.partner.example.", mdns.TypeA, z, 0, 0, "00010001"}, // the question is last
	} {
		t.Run(tt.name, func(t *testing.T) {
			q := query(t, tt.qname, tt.qtype, tt.size, false)
			limit := len(answer(tt.z, q, dns.UDPLimit)) - tt.less
			reply := answer(tt.z, q, limit)
			if got := hex.EncodeToString(reply); !strings.HasSuffix(got, tt.want) {
				t.Errorf("%s, want %s at the end", got, tt.want)
			}
			dnstest.Unpack(t, reply)
		})
	}
}
