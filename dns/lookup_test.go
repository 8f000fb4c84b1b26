package dns_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"sluice/dns"
	"sluice/dns/dnstest"
)

func TestLookup(t *testing.T) {
	const soa = `grid.example. 5 IN SOA ns.dns.grid.example. hostmaster.grid.example. 1700000000 7200 1800 86400 5`
	z := dnstest.Zones(t)
	for _, tt := range []struct{ name, qname, qtype, want string }{
		{"address", "cart.shop.svc.grid.example", "a",
			`{"rcode":"NOERROR","aa":true,"tc":false,"answer":["cart.shop.svc.grid.example. 5 IN A 10.96.4.10"],"authority":[],"additional":[]}`},
		{"text", "dns-version.grid.example.", "TXT",
			`{"rcode":"NOERROR","aa":true,"tc":false,"answer":["dns-version.grid.example. 28800 IN TXT \"1.1.0\""],"authority":[],"additional":[]}`},
		{"missing", "nosuch.shop.svc.grid.example.", "TYPE65",
			`{"rcode":"NXDOMAIN","aa":true,"tc":false,"answer":[],"authority":["` + soa + `"],"additional":[]}`},
		{"outside", "www.partner.example.", "AAAA",
			`{"rcode":"REFUSED","aa":false,"tc":false,"answer":[],"authority":[],"additional":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := dns.Lookup(z, netip.Addr{}, tt.qname, tt.qtype)
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(r); string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestLookupRefusesNonsense(t *testing.T) {
	for _, tt := range []struct{ name, qname, qtype string }{
		{"type", "cart.shop.svc.grid.example", "NONSENSE"},
		{"type number", "cart.shop.svc.grid.example", "TYPE1x"},
		{"empty name", "", "A"},
		{"empty label", "cart..example", "A"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if r, err := dns.Lookup(dnstest.Zones(t), netip.Addr{}, tt.qname, tt.qtype); err == nil {
				t.Errorf("got %+v, want an error", r)
			}
		})
	}
}
