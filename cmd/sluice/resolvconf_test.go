package main

import (
	"net/netip"
	"strings"
	"testing"

	"sluice/config/topology"
)

func TestResolvConf(t *testing.T) {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "grid.example"},
		Namespaces: []topology.Namespace{{Name: "shop"}, {Name: "ops"}},
		DNS: topology.DNS{Search: []string{"corp.example", "example"},
			Addresses: []netip.Addr{netip.MustParseAddr("198.19.0.10"), netip.MustParseAddr("2001:db8:96::a")}}}
	conf, err := resolvConfOf(top, "shop")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := conf.print(&b); err != nil {
		t.Fatal(err)
	}
	const want = "nameserver 198.19.0.10\nnameserver 2001:db8:96::a\n" +
		"search shop.svc.grid.example svc.grid.example grid.example corp.example example\noptions ndots:5\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
	if _, err := resolvConfOf(top, "shops"); err == nil || !strings.Contains(err.Error(), `namespace "shops" is not in the topology, which has ops, shop`) {
		t.Errorf("unknown namespace: %v", err)
	}
	top.DNS.Addresses = nil
	if _, err := resolvConfOf(top, "shop"); err == nil || !strings.Contains(err.Error(), "set dns.address") {
		t.Errorf("no address: %v", err)
	}
}
