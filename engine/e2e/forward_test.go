package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/nat/reason"
	"sluice/xdp/lab"
)

// partner is what another DNS server knows: sluice dns on a backend.
const partner = `
[gateway]
node = "p"
[cluster]
domain = "partner.example"
service_cidrs = ["198.19.128.0/24"]
[[node]]
name = "p"
addresses = ["198.18.1.11"]
[[service]]
namespace = "shop"
name = "old"
cluster_ips = ["198.19.128.5"]
  [[service.port]]
  port = 80
`

// forwardingTo has the gateway forward to a server, follow search paths for the client, which is a pod, and know a service outside.
func forwardingTo(server string) string {
	return ringDNS() + fmt.Sprintf(`
[[service]]
namespace = "shop"
name = "legacy"
type = "ExternalName"
external_name = "old.shop.svc.partner.example"

[[pod]]
namespace = "shop"
name = "client"
addresses = [%q]

[dns]
forward = [%q]
autopath = true
`, client4, server)
}

// TestForwarding asks the gateway for what another server knows: the ring leaves that to the sockets, whose own questions and their
// answers pass the XDP program on its way in.
func TestForwarding(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			n := build(t, setup{mode: mode, extra: forwardingTo(backend4(0))})
			other := startPartner(n)
			n.run(binary(t))
			for i, c := range []struct {
				name   string
				aa     bool
				rcode  int
				answer []string
			}{
				{"Old.shop.svc.partner.example.", false, dns.RcodeSuccess, []string{"Old.shop.svc.partner.example. 5 IN A 198.19.128.5"}},
				{"none.shop.svc.partner.example.", false, dns.RcodeNameError, nil},
				{"example.org.", false, dns.RcodeRefused, nil}, // as the other says
				{"legacy.shop.svc.cluster.local.", true, dns.RcodeSuccess, []string{
					"legacy.shop.svc.cluster.local. 5 IN CNAME old.shop.svc.partner.example.", "old.shop.svc.partner.example. 5 IN A 198.19.128.5"}},
				{"web.shop.svc.cluster.local.shop.svc.cluster.local.", true, dns.RcodeSuccess, []string{
					"web.shop.svc.cluster.local.shop.svc.cluster.local. 5 IN CNAME web.shop.svc.cluster.local.", "web.shop.svc.cluster.local. 5 IN A " + cluster4}},
			} {
				query, err := new(dns.Msg).SetQuestion(c.name, dns.TypeA).SetEdns0(1232, false).Pack()
				n.check(err)
				passed := n.packets(reason.NotOurs)
				for _, network := range []string{"udp", "tcp"} {
					var m dns.Msg
					n.check(m.Unpack(n.ask53(network, dns4, query)))
					var got []string
					for _, r := range m.Answer {
						got = append(got, strings.ReplaceAll(r.String(), "\t", " "))
					}
					for k := range got { // the answer may have been kept for some seconds
						got[k] = withoutTTL(got[k])
					}
					want := slices.Clone(c.answer)
					for k := range want {
						want[k] = withoutTTL(want[k])
					}
					if !slices.Equal(got, want) || m.Rcode != c.rcode || m.Authoritative != c.aa || !m.RecursionAvailable {
						t.Errorf("%s by %s: %v", c.name, network, &m)
					}
				}
				if now := n.packets(reason.NotOurs); now <= passed {
					t.Errorf("%s: no packet was passed to the sockets", c.name)
				}
				if n.packets(reason.DNSAnswered) != 0 {
					t.Errorf("question %d was answered in the ring", i)
				}
			}
			n.check(other.Stop(5 * time.Second))
			var m dns.Msg
			query, err := new(dns.Msg).SetQuestion("unheard.partner.example.", dns.TypeA).Pack()
			n.check(err)
			n.check(m.Unpack(n.ask53("udp", dns4, query)))
			if m.Rcode != dns.RcodeServerFailure {
				t.Errorf("without the other server: %v", &m)
			}
		})
	}
}

// withoutTTL returns a record without its TTL.
func withoutTTL(record string) string {
	fields := strings.Fields(record)
	return strings.Join(slices.Delete(fields, 1, 2), " ")
}

// startPartner runs the other server on the first backend.
func startPartner(n *network) *lab.Process {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "partner.toml")
	n.check(os.WriteFile(path, []byte(partner), 0o600))
	var log lab.Buffer
	p, err := n.backend[0].Start(&log, binary(n.t), "dns", "-c", path, "--listen", backend4(0)+":53")
	n.check(err)
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("log of the other server:\n%s", log.String())
		}
	})
	return p
}
