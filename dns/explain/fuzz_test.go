package explain_test

import (
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/explain"
	"sluice/dns/zone"
)

// FuzzAgree holds explanations to the replies for any name and type.
func FuzzAgree(f *testing.F) {
	type served struct {
		x *explain.Explainer
		z *zone.Zones
	}
	var all []served
	for _, set := range settings() {
		in := dnstest.Input()
		set(&in.DNS)
		z := dnstest.Compile(f, in)
		all = append(all, served{explain.New(dnstest.Resolve(f, in), z), z})
	}
	for _, c := range dnstest.Cases(f) {
		f.Add(c.QName, mdns.StringToType[c.QType])
	}
	for _, name := range []string{".", `\000.shop.svc.grid.example`, `a\.b.shop.svc.grid.example`, `c\097rt.shop.svc.grid.example`,
		"0.0.0.0.0.0.ip6.arpa", "x.in-addr.arpa", "--ffff-102-304.ops.pod.grid.example", "1--2--3.ops.pod.grid.example"} {
		f.Add(name, mdns.TypeA)
	}
	f.Fuzz(func(t *testing.T, name string, qtype uint16) {
		typ := mdns.Type(qtype).String()
		if _, err := dns.Query(name, typ); err != nil {
			return
		}
		for _, s := range all {
			agree(t, s.x, s.z, name, typ)
			agreeWith(t, s.x, s.z, pod, name, typ)
		}
	})
}
