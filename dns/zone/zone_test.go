package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// dotted returns a name in wire form as text that ends in a dot.
func dotted(text string) string {
	var b strings.Builder
	for ; text != "\x00"; text = wire.Parent(text) {
		b.WriteString(text[1 : 1+int(text[0])])
		b.WriteByte('.')
	}
	return b.String()
}

func TestReverseApexes(t *testing.T) {
	for _, tt := range []struct {
		prefix string
		count  int
		first  string
		last   string
	}{
		{"10.96.0.0/16", 1, "96.10.in-addr.arpa.", "96.10.in-addr.arpa."},
		{"10.96.0.0/12", 16, "96.10.in-addr.arpa.", "111.10.in-addr.arpa."},
		{"10.96.0.0/20", 16, "0.96.10.in-addr.arpa.", "15.96.10.in-addr.arpa."},
		{"10.96.240.0/20", 16, "240.96.10.in-addr.arpa.", "255.96.10.in-addr.arpa."},
		{"203.0.113.32/27", 32, "32.113.0.203.in-addr.arpa.", "63.113.0.203.in-addr.arpa."},
		{"203.0.113.7/32", 1, "7.113.0.203.in-addr.arpa.", "7.113.0.203.in-addr.arpa."},
		{"128.0.0.0/1", 128, "128.in-addr.arpa.", "255.in-addr.arpa."},
		{"0.0.0.0/0", 1, "in-addr.arpa.", "in-addr.arpa."},
		{"fd00:96::/112", 1, "0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa.",
			"0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.0.d.f.ip6.arpa."},
		{"2001:db8::/30", 4, "8.b.d.0.1.0.0.2.ip6.arpa.", "b.b.d.0.1.0.0.2.ip6.arpa."},
		{"2001:db8::/33", 8, "0.8.b.d.0.1.0.0.2.ip6.arpa.", "7.8.b.d.0.1.0.0.2.ip6.arpa."},
		{"::/0", 1, "ip6.arpa.", "ip6.arpa."},
	} {
		t.Run(tt.prefix, func(t *testing.T) {
			p := netip.MustParsePrefix(tt.prefix)
			got := reverseApexes(p)
			if len(got) != tt.count || dotted(got[0]) != tt.first || dotted(got[len(got)-1]) != tt.last {
				t.Fatalf("%d zones, %s to %s", len(got), dotted(got[0]), dotted(got[len(got)-1]))
			}
			if slices.Sort(got); len(slices.Compact(got)) != tt.count {
				t.Error("a zone is there twice")
			}
			// Every address of the prefix lies in one of them.
			full := reverseName(p.Addr(), p.Addr().BitLen()/labelBits(p.Addr()))
			if !slices.ContainsFunc(got, func(apex string) bool { return strings.HasSuffix(full, apex) }) {
				t.Errorf("%s lies outside", dotted(full))
			}
		})
	}
}

func TestReversed(t *testing.T) {
	for _, addr := range []string{"10.96.4.10", "0.0.0.0", "255.255.255.255", "2001:db8::a:1", "::", "fd42:172:24:5:6:7:8:9"} {
		a := netip.MustParseAddr(addr)
		if got, ok := reversed(reverseName(a, a.BitLen()/labelBits(a))); !ok || got != a {
			t.Errorf("%s: %v %v", addr, got, ok)
		}
		if got, ok := reversed(reverseName(a, a.BitLen()/labelBits(a)-1)); ok {
			t.Errorf("a part of %s is %v", addr, got)
		}
	}
	for _, name := range []string{"\x01x\x010\x010\x0210\x07in-addr\x04arpa\x00", "\x00", "\x04arpa\x00"} {
		if got, ok := reversed(name); ok {
			t.Errorf("%q is %v", name, got)
		}
	}
}

func TestDashed(t *testing.T) {
	for addr, want := range map[string]string{
		"172.24.1.21": "172-24-1-21", "fd42::9": "fd42--9", "fd42:172:24:5:6:7::": "fd42-172-24-5-6-7--0", "::1": "--1",
	} {
		if got := dashed(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
}

// compiled returns the zones of a topology with one service.
func compiled(t *testing.T, s topology.Service, reverse ...string) *Zones {
	t.Helper()
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "grid.example"}, DNS: topology.DNS{TTL: 5}, Services: []topology.Service{s}}
	for _, r := range reverse {
		top.DNS.ReverseZones = append(top.DNS.ReverseZones, netip.MustParsePrefix(r))
	}
	z, err := Compile(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// answer returns the answer of an existing name in wire form.
func answer(t *testing.T, z *Zones, name string, typ uint16) Answer {
	t.Helper()
	r := z.store.get([]byte(name))
	if r == nil {
		t.Fatalf("%q does not exist", name)
	}
	var a Answer
	z.Answer(r.node(), typ, &a)
	return a
}

// TestCompileRefuses checks that names too long for DNS are refused, and that the fault says whose they are.
func TestCompileRefuses(t *testing.T) {
	long := strings.Repeat("a", 63)
	deep := strings.Repeat(long+".", 3) + "example"
	for _, tt := range []struct {
		name, domain string
		service      topology.Service
		want         string
	}{
		{"service", deep, topology.Service{Namespace: long, Name: long}, "namespace " + long},
		{"port", "grid.example", topology.Service{Namespace: "shop", Name: "cart", ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.4.10")},
			Ports: []topology.Port{{Name: long, Protocol: topology.TCP, Port: 80}}}, "service shop/cart: SRV record of port " + long},
		{"endpoint", deep, topology.Service{Namespace: "s", Name: "c", Headless: true,
			Endpoints: []topology.Endpoint{{Address: netip.MustParseAddr("10.64.0.1"), Hostname: long, Ready: true}}}, "service s/c: endpoint 10.64.0.1"},
		{"external name", "grid.example", topology.Service{Namespace: "shop", Name: "x", Type: topology.ExternalName,
			ExternalName: long + "a.example"}, "service shop/x: external name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := &topology.Topology{Cluster: topology.Cluster{Domain: tt.domain}, Services: []topology.Service{tt.service},
				Namespaces: []topology.Namespace{{Name: tt.service.Namespace}}}
			if _, err := Compile(top, 1); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got %v, want %s...", err, tt.want)
			}
		})
	}
}

// TestLongChain ends a chain of aliases after maxChain records.
func TestLongChain(t *testing.T) {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "grid.example"}}
	for i := range maxChain + 5 {
		top.Services = append(top.Services, topology.Service{Namespace: "s", Name: fmt.Sprintf("a%d", i), Type: topology.ExternalName,
			ExternalName: fmt.Sprintf("a%d.s.svc.grid.example", i+1)})
	}
	z, err := Compile(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	a := answer(t, z, "\x02a0\x01s\x03svc\x04grid\x07example\x00", wire.TypeA)
	if a.Records != maxChain || a.Negative || a.RCode != wire.NoError {
		t.Errorf("%+v", a)
	}
	// From nearer to the end the missing last name comes into sight.
	a = answer(t, z, "\x03a14\x01s\x03svc\x04grid\x07example\x00", wire.TypeA)
	if a.Records != 1 || !a.Negative || a.RCode != wire.NXDomain {
		t.Errorf("%+v", a)
	}
}

// TestWeights holds SRV weights to 100 shared by all pairs of address and port, and to 1 at least.
func TestWeights(t *testing.T) {
	for pairs, want := range map[int]int{1: 100, 3: 33, 7: 14, 100: 1, 300: 1} {
		s := topology.Service{Namespace: "shop", Name: "ring", Headless: true, Ports: []topology.Port{{Name: "p", Protocol: topology.TCP, Port: 1}}}
		for i := range pairs {
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: netip.AddrFrom4([4]byte{10, 64, byte(i >> 8), byte(i)}), Ready: true,
				Ports: map[string]uint16{"p": 7001}})
		}
		z := compiled(t, s)
		a := answer(t, z, "\x02_p\x04_tcp\x04ring\x04shop\x03svc\x04grid\x07example\x00", wire.TypeSRV)
		r, _ := wire.ReadRecord(a.Body, 0)
		if got := int(a.Body[r.Data+2])<<8 | int(a.Body[r.Data+3]); got != want || int(a.Records) != pairs {
			t.Errorf("%d pairs: weight %d, want %d; %d records", pairs, got, want, a.Records)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "grid.example"}, DNS: topology.DNS{TTL: 5,
		ReverseZones: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for i := range 10_000 {
		s := topology.Service{Namespace: "shop", Name: fmt.Sprintf("s%d", i), ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
			Ports: []topology.Port{{Name: "http", Protocol: topology.TCP, Port: 80}}}
		for j := range 10 {
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: netip.AddrFrom4([4]byte{10, byte(64 + j), byte(i >> 8), byte(i)}), Ready: true,
				Ports: map[string]uint16{"http": 8080}})
		}
		top.Services = append(top.Services, s)
	}
	b.Run("services=10k/endpoints=100k", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Compile(top, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}
