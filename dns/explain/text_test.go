package explain_test

import (
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/dns/dnstest"
	"sluice/dns/explain"
)

// explained returns a line for each step of a question on the topology of dnstest, with settings of [dns].
func explained(t *testing.T, set func(*topology.DNSInput), name, qtype string) (lines []string) {
	t.Helper()
	input := dnstest.Input()
	if set != nil {
		set(&input.DNS)
	}
	z := dnstest.Compile(t, input)
	for _, s := range agree(t, explain.New(dnstest.Resolve(t, input), z), z, name, qtype) {
		lines = append(lines, s.Stage+" | "+s.Result+" | "+s.Why)
	}
	return lines
}

// The steps that many explanations begin with, and the end of those of names that do not exist.
const (
	svc  = "zone | grid.example | cluster.domain\nlabel | svc | names of services are below it\n"
	shop = svc + "namespace | shop | 24 services\n"
	none = "reply | NXDOMAIN | the name does not exist, with whatever type"
)

// text is a question with its explanation.
type text struct {
	name, qtype, want string
	set               func(*topology.DNSInput) // of [dns]; nil: as it is
}

// texts are explanations of all kinds.
func texts() []text {
	insecure := func(d *topology.DNSInput) { d.Pods = "insecure" }
	verified := func(d *topology.DNSInput) { d.Pods = "verified" }
	compat := func(d *topology.DNSInput) { d.CoreDNSCompat = true }
	zonal := func(d *topology.DNSInput) { d.Zonal = true }
	few := func(d *topology.DNSInput) {
		d.Namespaces, d.NoEndpoints, d.IgnoreEmptyServices = []string{"shop"}, true, true
	}
	external := func(d *topology.DNSInput) { d.ExternalZone = "out.example" }
	cart := shop + "service | shop/cart | ClusterIP 10.96.4.10; 2 of 2 endpoints ready\n"
	multi := shop + "service | shop/multi | ClusterIP 10.96.4.13; 0 of 0 endpoints ready\nprotocol | _tcp | named ports by TCP are below it\n"
	sts := shop + "service | shop/sts | headless; 2 of 3 endpoints ready\n"
	racked := shop + "service | shop/racked | headless; 3 of 3 endpoints ready\n"
	ring := shop + "service | shop/ring | headless; 6 of 6 endpoints ready\nendpoint | 172.24.1.23, 172.24.1.24 | of service shop/ring\n"
	in172 := "zone | 24.172.in-addr.arpa | dns.reverse_zones, range 172.24.0.0/16\n"
	in10 := "zone | 96.10.in-addr.arpa | dns.reverse_zones, range 10.96.0.0/16\n"
	pods := "zone | grid.example | cluster.domain\nlabel | pod | names of pods are below it\n"
	return []text{
		// Services.
		{"cart.shop.svc.grid.example", "A", cart + "record | A 10.96.4.10 | ClusterIP of service shop/cart\nreply | NOERROR | 1 record", nil},
		{"cart.shop.svc.grid.example", "AAAA", cart +
			"reply | NOERROR | the name exists, and has no AAAA records: its addresses are IPv4 only", nil},
		{"cart6.shop.svc.grid.example", "A", shop + "service | shop/cart6 | ClusterIP fd42:96::1; 0 of 0 endpoints ready\n" +
			"reply | NOERROR | the name exists, and has no A records: its addresses are IPv6 only", nil},
		{"cart.shop.svc.grid.example", "MX", cart + "reply | NOERROR | the name exists, and has no MX records, only A and SRV", nil},
		{"crat.shop.svc.grid.example", "A", shop + "missing | crat | service \"shop/crat\" does not exist; near: cart\n" + none, nil},
		{"loop-c.shop.svc.grid.example", "A", shop + "missing | loop-c | service \"shop/loop-c\" does not exist; near: loop-a, loop-b\n" + none, nil},
		{"cart.ops.svc.grid.example", "A", svc + "namespace | ops | 2 services\nmissing | cart | service \"ops/cart\" does not exist\n" +
			"perhaps | cart.shop.svc.grid.example | a service of that name in another namespace\n" + none, nil},
		{"hollow.shop.svc.grid.example", "A", shop +
			"missing | hollow | service \"shop/hollow\" has no name: it is headless, and no endpoint is ready (not ready: 172.24.2.30)\n" + none, nil},
		{"ring.shop.svc.grid.example", "A", shop +
			"missing | ring | service \"shop/ring\" has no name: it is headless, and dns.no_endpoints is set\n" + none, few},
		{"idle.shop.svc.grid.example", "A", shop + "missing | idle | service \"shop/idle\" has no name: " +
			"dns.ignore_empty_services is set, and no endpoint is ready (not ready: 172.24.1.99)\n" + none, few},
		{"noport.shop.svc.grid.example", "SRV", shop + "service | shop/noport | headless; 1 of 1 endpoint ready\n" +
			"reply | NOERROR | the name exists, and has no SRV records: the service has no port that leads anywhere", nil},
		{"*.shop.svc.grid.example", "A", shop + "missing | * | there are no wildcards\n" + none, nil},

		// Namespaces.
		{"shop.svc.grid.example", "A", shop + "reply | NOERROR | a namespace exists, and has no records itself", nil},
		{"cart.shp.svc.grid.example", "A", svc + "missing | shp | namespace \"shp\" does not exist; near: shop\n" +
			"perhaps | cart.shop.svc.grid.example | the same with the name that is near\n" + none, nil},
		{"secret.vault.svc.grid.example", "A", svc +
			"missing | vault | namespace \"vault\": dns.namespaces does not list it, and hides it\n" + none, few},

		// Ports and endpoints.
		{"_http._tcp.multi.shop.svc.grid.example", "SRV", multi + "port | http/TCP | of service shop/multi\n" +
			"record | SRV 0 100 80 multi.shop.svc.grid.example. | port http/TCP: ClusterIP of service shop/multi\nreply | NOERROR | 1 record", nil},
		{"_htpt._tcp.multi.shop.svc.grid.example", "SRV", multi +
			"missing | _htpt | no such named port; ports of service \"shop/multi\": http/TCP, metrics/TCP, dns/UDP; near: _http\n" + none, nil},
		{"_dns._udp.cart.shop.svc.grid.example", "SRV", cart +
			"missing | _udp | no such protocol with named ports; ports of service \"shop/cart\": http/TCP\n" + none, nil},
		{"twin.ring.shop.svc.grid.example", "A", ring + "record | A 172.24.1.23 | endpoint 172.24.1.23 of service shop/ring (ready)\n" +
			"record | A 172.24.1.24 | endpoint 172.24.1.24 of service shop/ring (ready)\nreply | NOERROR | 2 records", nil},
		{"_peer._tcp.twin.ring.shop.svc.grid.example", "SRV", ring +
			"missing | _tcp | nothing is below the name of an endpoint: ports are below that of the service\n" + none, nil},
		{"db-2.sts.shop.svc.grid.example", "A", sts + "missing | db-2 | endpoint 172.24.2.12 of service \"shop/sts\" is not ready\n" + none, nil},
		{"172-24-2-12.sts.shop.svc.grid.example", "A", sts +
			"missing | 172-24-2-12 | endpoint 172.24.2.12 is not ready; when it is, it has the name \"db-2\"\n" + none, nil},
		{"172-24-2-10.sts.shop.svc.grid.example", "A", sts +
			"missing | 172-24-2-10 | endpoint 172.24.2.10 has the name \"db-0\" instead\n" + none, nil},
		{"crew-0.crew.shop.svc.grid.example", "A", shop + "service | shop/crew | headless; 3 of 3 endpoints ready\n" +
			"endpoint | 172.24.8.1 | of service shop/crew\nrecord | A 172.24.8.1 | endpoint 172.24.8.1 of service shop/crew (pod crew-0, ready)\n" +
			"reply | NOERROR | 1 record", func(d *topology.DNSInput) { d.EndpointPodNames = true }},

		// Topology zones.
		{"rack-1.pin._zone.racked.shop.svc.grid.example", "A", racked + "zonal | _zone | endpoints by topology zone are below it\n" +
			"zonal | pin | those of a topology zone and no others\ntopology zone | rack-1 | has endpoints of service shop/racked\n" +
			"record | A 172.24.6.1 | endpoint 172.24.6.1 of service shop/racked (ready)\nreply | NOERROR | 1 record", zonal},
		{"rack-9.pin._zone.racked.shop.svc.grid.example", "A", racked + "zonal | _zone | endpoints by topology zone are below it\n" +
			"zonal | pin | those of a topology zone and no others\ntopology zone | rack-9 | no endpoint of service shop/racked is in it\n" +
			"reply | NOERROR | the name exists, and has no records itself", zonal},
		{"rack-1.pin._zone.racked.shop.svc.grid.example", "A", racked +
			"missing | _zone | names by topology zone are off: dns.zonal is not set\n" + none, nil},

		// Aliases.
		{"legacy.shop.svc.grid.example", "A", shop + "service | shop/legacy | ExternalName: an alias of old.partner.example\n" +
			"alias | old.partner.example | where legacy.shop.svc.grid.example leads\n" +
			"zone | none | the alias leads out of the zones of this topology: the client asks elsewhere\n" +
			"record | CNAME old.partner.example. | external_name of service shop/legacy\nreply | NOERROR | 1 record", nil},
		{"alias.shop.svc.grid.example", "A", shop + "service | shop/alias | ExternalName: an alias of cart.shop.svc.grid.example\n" +
			"alias | cart.shop.svc.grid.example | where alias.shop.svc.grid.example leads\n" + cart +
			"record | CNAME cart.shop.svc.grid.example. | external_name of service shop/alias\n" +
			"record | A 10.96.4.10 | ClusterIP of service shop/cart\nreply | NOERROR | 2 records", nil},
		{"selfie.shop.svc.grid.example", "A", shop + "service | shop/selfie | ExternalName: an alias of selfie.shop.svc.grid.example\n" +
			"alias | selfie.shop.svc.grid.example | where selfie.shop.svc.grid.example leads\n" + shop +
			"service | shop/selfie | ExternalName: an alias of selfie.shop.svc.grid.example\n" +
			"reply | NOERROR | the aliases lead back to selfie.shop.svc.grid.example: a loop, which is not handed out", nil},
		{"dangling.shop.svc.grid.example", "A", shop + "service | shop/dangling | ExternalName: an alias of nope.shop.svc.grid.example\n" +
			"alias | nope.shop.svc.grid.example | where dangling.shop.svc.grid.example leads\n" + shop +
			"missing | nope | service \"shop/nope\" does not exist\n" +
			"record | CNAME nope.shop.svc.grid.example. | external_name of service shop/dangling\n" +
			"reply | NXDOMAIN | the alias leads to a name that does not exist", nil},
		{"x.legacy.shop.svc.grid.example", "A", shop + "service | shop/legacy | ExternalName: an alias of old.partner.example\n" +
			"missing | x | a service of type ExternalName is an alias: nothing is below it, neither endpoints nor ports\n" + none, nil},

		// Pods.
		{"172-24-4-9.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"disabled\"\n" +
			"missing | 172-24-4-9 | pods have no names: dns.pods is \"disabled\"\n" + none, nil},
		{"1-2-3-4.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"insecure\"\n" +
			"pod | 1.2.3.4 | spelled by the label: dns.pods is \"insecure\"\nrecord | A 1.2.3.4 | spelled by the name\nreply | NOERROR | 1 record", insecure},
		{"1-2-3-400.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"insecure\"\n" +
			"missing | 1-2-3-400 | pods have names that spell an address, like 172-24-4-9\n" + none, insecure},
		{"172-24-4-9.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"verified\"\npod | 172.24.4.9 | pod ops/probe-pod\n" +
			"record | A 172.24.4.9 | pod ops/probe-pod\nreply | NOERROR | 1 record", verified},
		{"172-24-4-10.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"verified\"\n" +
			"missing | 172-24-4-10 | pod ops/done has ended (Succeeded), and has given the address back\n" + none, verified},
		{"172-24-4-200.ops.pod.grid.example", "A", pods + "namespace | ops | dns.pods is \"verified\"\n" +
			"missing | 172-24-4-200 | no pod of namespace \"ops\" has the address 172.24.4.200; near: 172-24-4-9\n" + none, verified},

		// The zones themselves.
		{"grid.example", "NS", "zone | grid.example | cluster.domain\n" +
			"record | NS ns.dns.grid.example. | name server of the zone\nreply | NOERROR | 1 record", nil},
		{"ns.dns.grid.example", "A", "zone | grid.example | cluster.domain\nlabel | dns | is here since other names are below it\n" +
			"name server | ns.dns | dns.address\nrecord | A 10.96.0.10 | dns.address\nreply | NOERROR | 1 record", nil},
		{"dns.grid.example", "A", "zone | grid.example | cluster.domain\n" +
			"missing | dns | dns.coredns_compat: a name that only has others below it does not exist\n" + none, compat},
		{"dns-version.grid.example", "A", "zone | grid.example | cluster.domain\nversion | dns-version | of the Kubernetes DNS specification\n" +
			"reply | NXDOMAIN | dns.coredns_compat: dns-version exists for TXT only", compat},
		{"grid.example", "ANY", "zone | grid.example | cluster.domain\n" +
			"record | HINFO \"ANY obsoleted\" \"See RFC 8482\" | stands for all types (RFC 8482): ask for one of them\nreply | NOERROR | 1 record", nil},
		{"cart.shop.out.example", "A", "zone | out.example | dns.external_zone\nnamespace | shop | 24 services\n" +
			"service | shop/cart | outside: 198.51.100.20\nrecord | A 198.51.100.20 | external IP or load-balancer address of service shop/cart\n" +
			"reply | NOERROR | 1 record", external},
		{"dual.shop.out.example", "A", "zone | out.example | dns.external_zone\nnamespace | shop | 24 services\n" +
			"missing | dual | service \"shop/dual\" has nothing outside: no external IP, no load-balancer address and no name of one\n" + none, external},

		// Reverse names.
		{"10.4.96.10.in-addr.arpa", "PTR", in10 + "address | 10.96.4.10 | spelled by the name\n" +
			"record | PTR cart.shop.svc.grid.example. | ClusterIP of service shop/cart\nreply | NOERROR | 1 record", nil},
		{"77.4.96.10.in-addr.arpa", "PTR", in10 + "missing | 10.96.4.77 | it is in the service range 10.96.0.0/16, and not allocated\n" + none, nil},
		{"4.96.10.in-addr.arpa", "PTR", in10 + "addresses | 10.96.4.0/24 | the name is not complete, and names of single addresses are below it\n" +
			"reply | NOERROR | the name exists, and has no records itself", nil},
		{"12.2.24.172.in-addr.arpa", "PTR", in172 +
			"missing | 172.24.2.12 | it has no PTR record: endpoint 172.24.2.12 of service shop/sts is not ready\n" + none, nil},
		{"1.7.24.172.in-addr.arpa", "PTR", in172 + "missing | 172.24.7.1 | it has no PTR record: " +
			"endpoint 172.24.7.1 of service vault/secret is in a namespace that dns.namespaces hides\n" + none, few},
		{"10.4.24.172.in-addr.arpa", "PTR", in172 +
			"missing | 172.24.4.10 | it has no PTR record: pod ops/done has it, which is no endpoint of a service\n" + none, nil},
		{"9.9.24.172.in-addr.arpa", "PTR", in172 + "missing | 172.24.9.9 | no service and no endpoint has it\n" + none, nil},
	}
}

func TestText(t *testing.T) {
	for _, tt := range texts() {
		t.Run(tt.name+" "+tt.qtype, func(t *testing.T) {
			if got := strings.Join(explained(t, tt.set, tt.name, tt.qtype), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestOutside covers names in no zone.
func TestOutside(t *testing.T) {
	const zones = "reply | REFUSED | the name is in no zone of this topology: grid.example, reverse of 10.96.0.0/16, " +
		"reverse of 172.24.0.0/16, reverse of fd42:172:24::/64"
	for _, tt := range []struct{ name, qtype, want string }{
		{"www.partner.example", "A", zones},
		{"cart.shop", "A", "perhaps | cart.shop.svc.grid.example | names are written in full: no search path is applied here\n" + zones},
		{"cart", "A", "perhaps | cart.shop.svc.grid.example | names are written in full: no search path is applied here\n" + zones},
		{"cart.shop.svc", "A", "perhaps | cart.shop.svc.grid.example | names are written in full: no search path is applied here\n" + zones},
		{"cart.shop.svc.grid.exmaple", "A", "perhaps | cart.shop.svc.grid.example | the same in the zone that is near\n" + zones},
		{"x.y.grd.example", "A", "perhaps | grid.example | the same in the zone that is near\n" + zones},
		{"1.113.0.203.in-addr.arpa", "PTR", "missing | 203.0.113.1 | in no range of dns.reverse_zones\n" + zones},
		{"10.in-addr.arpa", "PTR", "missing | 10.0.0.0/8 | the zones of dns.reverse_zones are smaller: range 10.96.0.0/16\n" + zones},
		{"version.bind", "TXT", "reply | REFUSED | the name is answered in class CH only, which dig does not ask for: see dns.chaos"},
		{"grid.example", "AXFR", "reply | REFUSED | whole zones are sent to the addresses in dns.transfer_to by TCP, and not by dig"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := strings.Join(explained(t, nil, tt.name, tt.qtype), "\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// TestSearchPath covers an answer that is found under another name on the search path of the pod that asks.
func TestSearchPath(t *testing.T) {
	in := dnstest.Input()
	in.DNS.Autopath = true
	z := dnstest.Compile(t, in)
	var got []string
	for _, s := range agreeWith(t, explain.New(dnstest.Resolve(t, in), z), z, pod, "cart.shop.ops.svc.grid.example", "A") {
		got = append(got, s.Stage+" | "+s.Result+" | "+s.Why)
	}
	const search = "cart.shop.svc.grid.example | the client is a pod, whose search path is followed (dns.autopath)\n"
	want := svc + "namespace | ops | 2 services\nmissing | shop | service \"ops/shop\" does not exist\n" +
		"search | " + search + shop +
		"service | shop/cart | ClusterIP 10.96.4.10; 2 of 2 endpoints ready\n" +
		"record | CNAME cart.shop.svc.grid.example. | the client is a pod, whose search path is followed (dns.autopath)\n" +
		"record | A 10.96.4.10 | ClusterIP of service shop/cart\nreply | NOERROR | 2 records"
	if strings.Join(got, "\n") != want {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// TestForwarded says who is asked for names of no zone.
func TestForwarded(t *testing.T) {
	set := func(d *topology.DNSInput) {
		d.Forward = []string{"198.18.0.53", "/etc/resolv.conf"}
		d.Stub = map[string][]string{"corp.example": {"198.18.0.54:5353"}, "lab.corp.example": {"2001:db8::53"}}
	}
	for name, want := range map[string]string{
		"www.partner.example":   "198.18.0.53:53, /etc/resolv.conf | asked by 'run' and 'dns', not here: dns.forward",
		"xcorp.example":         "198.18.0.53:53, /etc/resolv.conf | asked by 'run' and 'dns', not here: dns.forward",
		"corp.example":          "198.18.0.54:5353 | asked by 'run' and 'dns', not here: dns.stub of corp.example",
		"a.b.corp.example":      "198.18.0.54:5353 | asked by 'run' and 'dns', not here: dns.stub of corp.example",
		"www.lab.corp.example.": "[2001:db8::53]:53 | asked by 'run' and 'dns', not here: dns.stub of lab.corp.example",
	} {
		if got := explained(t, set, name, "A"); got[0] != "forward | "+want {
			t.Errorf("%s: %q, want %q first", name, got, want)
		}
	}
}

// TestSuggested covers names that do not exist and that others, which do, are suggested for.
func TestSuggested(t *testing.T) {
	for name, want := range map[string]string{
		"cart.shop.grid.example":                             "cart.shop.svc.grid.example | services are below svc",
		"cart.svc.grid.example":                              "cart.shop.svc.grid.example | a service of that name in another namespace",
		"cart.shop.svc.grid.example.shop.svc.grid.example":   "cart.shop.svc.grid.example | the name without the domain that stands behind it once more",
		"_http._tcp.cart.shpo.svc.grid.example":              "_http._tcp.cart.shop.svc.grid.example | the same with the name that is near",
		"_http._tpc.cart.shop.svc.grid.example":              "_http._tcp.cart.shop.svc.grid.example | the same with the name that is near",
		"cart.shop.scv.grid.example":                         "cart.shop.svc.grid.example | the same with the name that is near",
		"twin.rng.shop.svc.grid.example":                     "twin.ring.shop.svc.grid.example | the same with the name that is near",
		"probe-pod.probe.shop.svc.grid.example":              "probe-pod.probe.ops.svc.grid.example | a service of that name in another namespace",
		"swarm.shop.svc.grid.example.default.svc.grid.local": "",
		"nothing.like.this.svc.grid.example":                 "",
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, line := range explained(t, nil, name, "A") {
				if text, ok := strings.CutPrefix(line, "perhaps | "); ok {
					got = append(got, text)
				}
			}
			if strings.Join(got, "\n") != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
