package e2e

import (
	"bytes"
	big "encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/nat/reason"
)

// The addresses of the gateway's DNS server.
const dns4, dns6 = "198.19.0.10", "2001:db8:96::a"

// ringDNS is a DNS service without endpoints: the gateway answers itself. wide has too many for one datagram.
func ringDNS() string {
	var b strings.Builder
	fmt.Fprintf(&b, `
[[service]]
namespace = "kube-system"
name = "kube-dns"
ip_family_policy = "RequireDualStack"
cluster_ips = [%q, %q]
  [[service.port]]
  name = "dns"
  protocol = "UDP"
  port = 53

[[service]]
namespace = "shop"
name = "wide"
cluster_ips = ["None"]
  [[service.port]]
  port = 80
`, dns4, dns6)
	for i := range 120 {
		fmt.Fprintf(&b, "  [[service.endpoint]]\n  address = \"198.18.9.%d\"\n", i+1)
	}
	return b.String()
}

// ask53 sends a query by UDP, or by TCP, from the client, and returns the reply as it came.
func (n *network) ask53(network, addr string, query []byte) (reply []byte) {
	n.t.Helper()
	n.check(n.client.Do(func() error {
		conn, err := net.DialTimeout(network, net.JoinHostPort(addr, "53"), 3*time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
			return err
		}
		if network == "tcp" {
			query = append(big.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
		}
		if _, err := conn.Write(query); err != nil {
			return err
		}
		buf := make([]byte, 64<<10)
		if network == "udp" {
			size, err := conn.Read(buf)
			reply = buf[:size]
			return err
		}
		if _, err := io.ReadFull(conn, buf[:2]); err != nil {
			return err
		}
		reply = buf[2 : 2+int(big.BigEndian.Uint16(buf))]
		_, err = io.ReadFull(conn, reply)
		return err
	}))
	return reply
}

// packets returns how many packets ended with a reason.
func (n *network) packets(r reason.Reason) int {
	n.t.Helper()
	stats, err := n.stats()
	n.check(err)
	count, _ := stats["packets"].(map[string]any)[r.String()].(float64)
	return int(count)
}

// TestDNSInTheRing asks the gateway itself: by UDP it is answered from the ring, by TCP, in fragments and with options by its
// sockets, and byte for byte the same.
func TestDNSInTheRing(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.driver+"/"+v.mode, func(t *testing.T) {
			s := v
			s.extra = ringDNS()
			n := start(t, s)
			asked := 0
			for _, addr := range []string{dns4, dns6} {
				for _, q := range []struct {
					name  string
					typ   uint16
					rcode int
				}{
					{"web.shop.svc.cluster.local.", dns.TypeA, dns.RcodeSuccess},
					{"web.shop.svc.cluster.local.", dns.TypeAAAA, dns.RcodeSuccess},
					{"_http._tcp.WEB.shop.svc.cluster.local.", dns.TypeSRV, dns.RcodeSuccess},
					{"none.shop.svc.cluster.local.", dns.TypeA, dns.RcodeNameError},
					{"web.shop.svc.cluster.local.svc.cluster.local.", dns.TypeA, dns.RcodeNameError},
					{"example.org.", dns.TypeA, dns.RcodeRefused},
				} {
					query, err := new(dns.Msg).SetQuestion(q.name, q.typ).SetEdns0(1232, false).Pack()
					n.check(err)
					byUDP, byTCP := n.ask53("udp", addr, query), n.ask53("tcp", addr, query)
					asked++
					if !bytes.Equal(byUDP, byTCP) || int(byUDP[3]&15) != q.rcode {
						t.Errorf("%s at %s: %x by UDP, %x by TCP", q.name, addr, byUDP, byTCP)
					}
				}
			}
			if got := n.packets(reason.DNSAnswered); got != asked {
				t.Errorf("%d of %d answered in the ring", got, asked)
			}
			// Longer than a datagram: by TCP it is all there. A query in fragments is answered by a socket.
			query, err := new(dns.Msg).SetQuestion("wide.shop.svc.cluster.local.", dns.TypeA).Pack()
			n.check(err)
			var byUDP, byTCP dns.Msg
			n.check(byUDP.Unpack(n.ask53("udp", dns4, query)))
			n.check(byTCP.Unpack(n.ask53("tcp", dns4, query)))
			if !byUDP.Truncated || byTCP.Truncated || len(byTCP.Answer) != 120 || len(byUDP.Answer) == 0 {
				t.Errorf("%d addresses by UDP, %d by TCP", len(byUDP.Answer), len(byTCP.Answer))
			}
			long, err := new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA).SetEdns0(1232, false).Pack()
			n.check(err)
			n.check(padded(&long, 2500))
			before := n.packets(reason.DNSAnswered)
			for _, addr := range []string{dns4, dns6} {
				var m dns.Msg
				n.check(m.Unpack(n.ask53("udp", addr, long)))
				if len(m.Answer) != 1 || n.packets(reason.DNSAnswered) != before {
					t.Errorf("in fragments to %s: %v", addr, &m)
				}
			}
		})
	}
}

// padded gives the OPT record at the end of a query a padding option (RFC 7830).
func padded(query *[]byte, size int) error {
	b := *query
	if len(b) < 2 || big.BigEndian.Uint16(b[len(b)-2:]) != 0 {
		return fmt.Errorf("no empty OPT record at the end of %x", b)
	}
	big.BigEndian.PutUint16(b[len(b)-2:], uint16(4+size))
	b = append(b, 0, 12)
	b = big.BigEndian.AppendUint16(b, uint16(size))
	*query = append(b, make([]byte, size)...)
	return nil
}

// TestDNSOfTheNode: the gateway's own processes are answered by the sockets, and when the gateway ends the address is gone.
func TestDNSOfTheNode(t *testing.T) {
	n := start(t, setup{extra: ringDNS()})
	for _, addr := range []string{dns4, dns6} {
		if out := n.command(n.gateway, "dig", "+short", "@"+addr, "web.shop.svc.cluster.local"); strings.TrimSpace(out) != cluster4 {
			t.Errorf("%s: %q", addr, out)
		}
	}
	n.check(n.sluice.Stop(5 * time.Second))
	for _, family := range []string{"-4", "-6"} {
		out := n.command(n.gateway, "ip", family, "route", "show", "table", "local")
		if strings.Contains(out, dns4+" ") || strings.Contains(out, dns6+" ") {
			t.Errorf("left behind:\n%s", out)
		}
	}
}

// TestDNSFollowsReloads: names and the address itself.
func TestDNSFollowsReloads(t *testing.T) {
	n := start(t, setup{extra: ringDNS()})
	serial := func(addr, network string) uint32 {
		query, err := new(dns.Msg).SetQuestion("cluster.local.", dns.TypeSOA).Pack()
		n.check(err)
		var m dns.Msg
		n.check(m.Unpack(n.ask53(network, addr, query)))
		return m.Answer[0].(*dns.SOA).Serial
	}
	before := serial(dns4, "udp")
	n.edit(func(text string) string {
		return strings.Replace(text, `name = "wide"`, `name = "wider"`, 1) + "\n[dns]\naddress = \"198.19.0.99\"\n"
	}, "reloaded")
	for _, network := range []string{"udp", "tcp"} {
		if after := serial("198.19.0.99", network); int32(after-before) <= 0 {
			t.Errorf("%s: serial %d after %d", network, after, before)
		}
		query, err := new(dns.Msg).SetQuestion("wider.shop.svc.cluster.local.", dns.TypeA).Pack()
		n.check(err)
		if reply := n.ask53(network, "198.19.0.99", query); reply[3]&15 != dns.RcodeSuccess {
			t.Errorf("%s: %x", network, reply)
		}
	}
	// The old address is a service without endpoints now.
	if out, err := n.client.Output(t.Context(), "dig", "+tries=1", "+time=1", "@"+dns4, "cluster.local", "SOA"); err == nil {
		t.Errorf("still answered:\n%s", out)
	}
}
