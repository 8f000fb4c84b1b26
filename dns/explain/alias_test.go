package explain_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/dns/dnstest"
	"sluice/dns/explain"
)

// alias describes a service of type ExternalName in namespace shop.
func alias(name, target string) topology.ServiceInput {
	var s topology.ServiceInput
	s.SetDefaults()
	s.Namespace, s.Name, s.Type, s.ExternalName = "shop", name, string(topology.ExternalName), target
	return s
}

// followed is an alias into another zone where other servers are asked too, and so the server follows it itself.
const followed = `service | shop/across | ExternalName: an alias of cart.shop.out.example
alias | cart.shop.out.example | where across.shop.svc.grid.example leads
zone | out.example | dns.external_zone
namespace | shop | 43 services
service | shop/cart | outside: 198.51.100.20
record | CNAME cart.shop.out.example. | external_name of service shop/across
record | A 198.51.100.20 | external IP or load-balancer address of service shop/cart
reply | NOERROR | 2 records`

// TestAliases covers aliases into other zones, to names that only a question makes, and more in a row than an answer follows.
func TestAliases(t *testing.T) {
	in := dnstest.Input()
	in.DNS.ExternalZone, in.DNS.Pods, in.DNS.Zonal = "out.example", "insecure", true
	in.Services = append(in.Services, alias("across", "cart.shop.out.example"), alias("nowhere", "x.y.out.example"),
		alias("pod", "1-2-3-4.shop.pod.grid.example"),
		alias("top", "grid.example"), alias("between", "svc.grid.example"))
	for i := range 14 {
		in.Services = append(in.Services, alias(fmt.Sprintf("hop-%d", i), fmt.Sprintf("hop-%d.shop.svc.grid.example", i+1)))
	}
	for i, server := range []string{"", "", "198.18.0.53", "198.18.0.53"} {
		if in.DNS.CoreDNSCompat = i%2 == 1; server != "" {
			in.DNS.Forward = []string{server}
		}
		z := dnstest.Compile(t, in)
		x := explain.New(dnstest.Resolve(t, in), z)
		for _, name := range []string{"across", "nowhere", "pod", "top", "between", "hop-0", "hop-4", "hop-5", "hop-13", "loop-a", "dangling"} {
			for _, qtype := range []string{"A", "AAAA", "CNAME", "SOA", "NS", "ANY", "SRV"} {
				agree(t, x, z, name+".shop.svc.grid.example", qtype)
			}
		}
		var got []string
		for _, s := range agree(t, x, z, "across.shop.svc.grid.example", "A")[3:] {
			got = append(got, s.Stage+" | "+s.Result+" | "+s.Why)
		}
		want := `service | shop/across | ExternalName: an alias of cart.shop.out.example
alias | cart.shop.out.example | where across.shop.svc.grid.example leads
zone | out.example | another zone of this topology: the client asks there
record | CNAME cart.shop.out.example. | external_name of service shop/across
reply | NOERROR | 1 record`
		if server != "" {
			want = followed
		}
		if strings.Join(got, "\n") != want {
			t.Errorf("got\n%s", strings.Join(got, "\n"))
		}
	}
}
