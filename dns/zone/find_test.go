package zone

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// asked returns the question for a dotted name.
func asked(t *testing.T, dottedName string) *wire.Question {
	t.Helper()
	name, err := wire.Name(dottedName)
	if err != nil {
		t.Fatal(err)
	}
	var q wire.Question
	msg := slices.Concat([]byte{0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0}, []byte(name), []byte{0, 1, 0, 1})
	if wire.Peek(msg, &q) != wire.Query {
		t.Fatal("not a query")
	}
	return &q
}

// find looks a dotted name up, and says what it found: the zone, and whether the name exists.
func find(t *testing.T, z *Zones, dottedName string) string {
	t.Helper()
	node, in := z.Find(asked(t, dottedName))
	switch {
	case in == nil:
		return "outside"
	case node == nil:
		return "missing in " + dotted(in.Apex())
	case node.answers() == 0:
		return "empty in " + dotted(in.Apex())
	}
	return "name in " + dotted(in.Apex())
}

// TestFind covers which zone a name belongs to, with reverse zones inside each other and of single addresses.
func TestFind(t *testing.T) {
	z := compiled(t, topology.Service{Namespace: "shop", Name: "cart", Type: topology.ClusterIP, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.4.10")}},
		"10.0.0.0/8", "10.96.0.0/16", "203.0.113.7/32", "fd00::/8")
	for _, tt := range []struct{ name, want string }{
		{"grid.example", "name in grid.example."},
		{"cart.shop.svc.grid.example", "name in grid.example."},
		{"svc.grid.example", "empty in grid.example."},
		{"pod.grid.example", "empty in grid.example."},
		{"x.grid.example", "missing in grid.example."},
		{"notgrid.example", "outside"},
		{"example", "outside"},
		{".", "outside"},
		{"10.4.96.10.in-addr.arpa", "name in 96.10.in-addr.arpa."},
		{"4.96.10.in-addr.arpa", "empty in 96.10.in-addr.arpa."},
		{"5.96.10.in-addr.arpa", "missing in 96.10.in-addr.arpa."},
		{"96.10.in-addr.arpa", "name in 96.10.in-addr.arpa."},
		{"97.10.in-addr.arpa", "missing in 10.in-addr.arpa."},
		{"11.in-addr.arpa", "outside"},
		{"7.113.0.203.in-addr.arpa", "name in 7.113.0.203.in-addr.arpa."},
		{"8.113.0.203.in-addr.arpa", "outside"},
		{"1.2.d.f.ip6.arpa", "missing in d.f.ip6.arpa."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := find(t, z, tt.name); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestFindAllocates holds looking for names that are missing to no allocation, in zones with long names and with many of one depth.
func TestFindAllocates(t *testing.T) {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: strings.Repeat("long-label.", 9) + "example"}, DNS: topology.DNS{TTL: 5,
		Pods: topology.PodsInsecure, ReverseZones: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00:96::/110")}}}
	z, err := Compile(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"no.such." + top.Cluster.Domain: "missing in " + top.Cluster.Domain + ".",
		"1.2.3.100.10.in-addr.arpa":     "missing in 100.10.in-addr.arpa.",
		"1.2.3.90.10.in-addr.arpa":      "outside",
		"www.example.org":               "outside",
	} {
		if got := find(t, z, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		q := asked(t, name)
		if n := testing.AllocsPerRun(100, func() { z.Find(q) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// TestNested holds an outer zone to the names of the inner one's apex: what lies above an existing name exists.
func TestNested(t *testing.T) {
	z := compiled(t, topology.Service{Namespace: "shop", Name: "cart", Type: topology.ClusterIP}, "10.0.0.0/8", "10.96.4.0/24")
	if got := find(t, z, "96.10.in-addr.arpa"); got != "empty in 10.in-addr.arpa." {
		t.Error(got)
	}
}
