package explain_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/explain"
	"sluice/dns/zone"
)

// verdictOf returns what a reply comes to.
func verdictOf(r *dns.Result) explain.Verdict {
	switch {
	case r.RCode == "REFUSED":
		return explain.Refused
	case r.RCode == "NXDOMAIN":
		return explain.NoName
	case len(r.Authority) > 0: // the SOA of a negative answer
		return explain.NoData
	}
	return explain.Answered
}

// pod is the address of a pod in namespace ops, whose search path may be followed.
var pod = netip.MustParseAddr("172.24.4.9")

// agree asks for a name as nobody in particular.
func agree(t testing.TB, x *explain.Explainer, z *zone.Zones, name, qtype string) []explain.Step {
	t.Helper()
	return agreeWith(t, x, z, netip.Addr{}, name, qtype)
}

// agreeWith asks for a name and holds the explanation to the reply: the verdict, and an object for each record. It returns the steps.
func agreeWith(t testing.TB, x *explain.Explainer, z *zone.Zones, client netip.Addr, name, qtype string) []explain.Step {
	t.Helper()
	r, err := dns.Lookup(z, client, name, qtype)
	if err != nil {
		t.Fatal(err)
	}
	e, err := x.Explain(name, qtype, r)
	if err != nil {
		t.Fatal(err)
	}
	if want := verdictOf(r); e.Verdict != want {
		t.Errorf("%s %s: %q, the reply is %q: %+v\n%+v", name, qtype, e.Verdict, want, e.Steps, r)
	}
	records := 0
	for _, s := range e.Steps {
		if s.Stage == "" || s.Result == "" || s.Stage != "reply" && s.Why == "" {
			t.Errorf("%s %s: a step is not complete: %+v", name, qtype, s)
		}
		if s.Stage == "record" {
			records++
			if strings.Contains(s.Why, "no object") {
				t.Errorf("%s %s: %+v", name, qtype, s)
			}
		}
	}
	if records != len(r.Answer) {
		t.Errorf("%s %s: %d records are explained of %d", name, qtype, records, len(r.Answer))
	}
	if last := e.Steps[len(e.Steps)-1]; last.Stage != "reply" || last.Result != r.RCode {
		t.Errorf("%s %s: ends with %+v", name, qtype, last)
	}
	return e.Steps
}

// TestCases holds explanations to the replies of all cases that 'sluice dig' can ask for, which those of class CH and such are not.
func TestCases(t *testing.T) {
	asked := 0
	for _, c := range append(dnstest.Cases(t), dnstest.Completed(t)...) {
		if _, known := mdns.StringToType[c.QType]; !known || c.Query.Class != "" {
			continue
		}
		asked++
		t.Run(c.ID, func(t *testing.T) {
			z := c.Zones(t)
			agreeWith(t, explain.New(c.Topology(t), z), z, c.Client, c.QName, c.QType)
		})
	}
	if asked < 170 {
		t.Errorf("only %d cases", asked)
	}
}

// settings are tables of [dns] that change which names there are.
func settings() map[string]func(*topology.DNSInput) {
	return map[string]func(*topology.DNSInput){
		"plain":           func(*topology.DNSInput) {},
		"insecure, zonal": func(d *topology.DNSInput) { d.Pods, d.Zonal, d.ExternalZone = "insecure", true, "out.example" },
		"verified, compat": func(d *topology.DNSInput) {
			d.Pods, d.CoreDNSCompat, d.ExternalZone, d.Zonal = "verified", true, "ext.grid.example", true
		},
		"others": func(d *topology.DNSInput) {
			d.Forward, d.Autopath, d.ExternalZone, d.Pods = []string{"198.18.0.53"}, true, "out.example", "verified"
			d.Search = []string{"out.example"}
		},
		"few": func(d *topology.DNSInput) {
			d.NoEndpoints, d.IgnoreEmptyServices, d.Namespaces = true, true, []string{"shop"}
		},
		"pod names": func(d *topology.DNSInput) {
			d.EndpointPodNames, d.ReverseZones = true, []string{"10.96.0.0/20", "10.0.0.0/8", "172.16.0.0/12", "198.51.100.20/32", "fd42::/15"}
		},
	}
}

// contents returns the names of all zones as text, with those that lie above them.
func contents(z *zone.Zones) (names []string) {
	seen := map[string]bool{}
	for _, apex := range z.Apexes() {
		for text := range z.Contents(z.Zone(apex)) {
			labels := []string{}
			for at := 0; text[at] != 0; at += 1 + int(text[at]) {
				labels = append(labels, text[at+1:at+1+int(text[at])])
			}
			for i := range labels {
				if name := strings.Join(labels[i:], "."); !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// changed returns names that are near one that exists.
func changed(name string) []string {
	first, rest, _ := strings.Cut(name, ".")
	return []string{name, "x." + name, first + "x." + rest, strings.ToUpper(name), "_" + name, rest, "10-1-2-3." + name,
		"--1." + name, name + ".shop.svc.grid.example", name + ".ops.svc.grid.example",
		strings.TrimSuffix(name, ".svc.grid.example") + ".ops.svc.grid.example", "*." + rest}
}

// ofSwarm reports whether a name is that of one of the endpoints of shop/swarm.
func ofSwarm(name string) bool {
	return strings.HasSuffix(name, ".swarm.shop.svc.grid.example") ||
		strings.HasSuffix(name, ".10.24.172.in-addr.arpa") || strings.HasSuffix(name, ".11.24.172.in-addr.arpa")
}

// TestEveryName holds explanations to the replies for all names that there are, and for some near each.
func TestEveryName(t *testing.T) {
	for name, set := range settings() {
		t.Run(name, func(t *testing.T) {
			in := dnstest.Input()
			set(&in.DNS)
			z := dnstest.Compile(t, in)
			x := explain.New(dnstest.Resolve(t, in), z)
			n, swarm := 0, 0
			for _, existing := range contents(z) {
				if ofSwarm(existing) {
					if swarm++; swarm%60 != 0 {
						continue // 300 of a kind
					}
				}
				n++
				for _, qtype := range []string{"A", "AAAA", "SRV", "PTR", "ANY", "CNAME", "NS", "SOA", "TXT", "MX", "AXFR"} {
					agree(t, x, z, existing, qtype)
				}
				for _, name := range changed(existing) {
					if _, err := dns.Query(name, "A"); err != nil {
						continue // too long a name
					}
					agree(t, x, z, name, "A")
					agree(t, x, z, name, "SRV")
					agreeWith(t, x, z, pod, name, "A")
				}
			}
			if n < 50 {
				t.Errorf("only %d names", n)
			}
		})
	}
}
