package fib

import (
	"net/netip"
	"testing"
)

// The devices of the unit tests: two attached interfaces, a VLAN on the second, one that is not attached, one that is down.
const (
	front, back, vlan, other, down, stacked = 3, 4, 5, 6, 7, 8
)

func mac(last byte) [6]byte { return [6]byte{2, 0, 0, 0, 0, last} }

func testTables() *tables {
	return &tables{
		links: map[int]link{
			front:   {mac: mac(3), mtu: 1500, up: true},
			back:    {mac: mac(4), mtu: 9000, up: true},
			vlan:    {mac: mac(5), mtu: 1496, up: true, parent: back, vlan: 100},
			other:   {mac: mac(6), mtu: 1500, up: true},
			down:    {mac: mac(7), mtu: 1500},
			stacked: {mac: mac(8), mtu: 1492, up: true, parent: vlan, vlan: 7},
		},
		neighbours: map[neighbourKey]neighbour{
			{front, netip.MustParseAddr("198.18.0.1")}:  {mac: mac(0x11), valid: true},
			{front, netip.MustParseAddr("198.18.0.9")}:  {mac: mac(0x19), valid: true},
			{front, netip.MustParseAddr("198.18.0.8")}:  {failed: true},
			{back, netip.MustParseAddr("198.18.0.7")}:   {mac: mac(0x17), valid: true}, // on the wrong link
			{vlan, netip.MustParseAddr("198.18.5.9")}:   {mac: mac(0x59), valid: true},
			{back, netip.MustParseAddr("198.18.1.2")}:   {mac: mac(0x12), valid: true},
			{back, netip.MustParseAddr("198.18.1.3")}:   {failed: true},
			{front, netip.MustParseAddr("fe80::1")}:     {mac: mac(0xf1), valid: true},
			{back, netip.MustParseAddr("2001:db8::9")}:  {mac: mac(0x69), valid: true},
			{front, netip.MustParseAddr("2001:db8::9")}: {mac: mac(0x6a), valid: true},
		},
	}
}

// via returns a route with one path per gateway; "" is on link.
func via(prefix string, metric, link int, gateways ...string) route {
	r := route{prefix: netip.MustParsePrefix(prefix), metric: metric}
	for _, g := range gateways {
		p := path{link: link}
		if g != "" {
			p.gateway = netip.MustParseAddr(g)
		}
		r.paths = append(r.paths, p)
	}
	return r
}

func TestBuild(t *testing.T) {
	tables := testTables()
	narrow := via("198.19.3.0/24", 0, front, "198.18.0.1")
	narrow.mtu = 1280
	dead := via("198.19.4.0/24", 10, front, "198.18.0.1")
	dead.paths[0].dead = true
	noCarrier := via("198.19.8.0/24", 0, front, "198.18.0.1")
	noCarrier.paths[0].down = true
	noCarrier.paths = append(noCarrier.paths, path{link: back, gateway: netip.MustParseAddr("198.18.1.9")})
	tables.routes = []route{
		via("0.0.0.0/0", 200, other, "198.18.9.1"),
		via("0.0.0.0/0", 100, front, "198.18.0.1"),
		via("198.18.0.0/24", 0, front, ""),
		{prefix: netip.MustParsePrefix("198.18.0.2/32"), kind: local},
		via("198.18.0.2/32", 0, back, ""), // a route of the main table does not hide a local address
		via("198.18.1.0/24", 0, back, ""),
		via("198.18.5.0/24", 0, vlan, ""),
		via("198.18.6.0/24", 0, other, ""),
		via("198.18.7.0/24", 0, stacked, ""),
		via("198.18.8.0/24", 0, down, ""),
		{prefix: netip.MustParsePrefix("198.19.0.0/24"), kind: unreachable},
		via("198.19.1.0/24", 0, back, "198.18.1.9", "198.18.1.2"),
		via("198.19.2.0/24", 0, back, "198.18.1.3", "198.18.1.9"),
		narrow, dead, via("198.19.4.0/24", 20, back, "198.18.1.2"),
		via("198.19.5.0/24", 0, vlan, "198.18.5.9"),
		via("198.19.6.0/24", 0, front, "fe80::1"),
		noCarrier,
		via("2001:db8::/64", 0, back, ""),
		via("2001:db8:1::/48", 0, front, "fe80::1"),
	}
	s := build(tables, []int{front, back}, 1)
	ready := func(iface, link int, mtu int, src, dst byte, gateway string) NextHop {
		return NextHop{State: Ready, Iface: iface, Link: link, MTU: mtu, SrcMAC: mac(src), DstMAC: mac(dst), Gateway: addr(gateway)}
	}
	incomplete := func(iface, link int, mtu int, src byte, gateway string) NextHop {
		return NextHop{State: Incomplete, Iface: iface, Link: link, MTU: mtu, SrcMAC: mac(src), Gateway: addr(gateway)}
	}
	failed := incomplete(0, front, 1500, 3, "198.18.0.8")
	failed.Failed = true
	tagged := ready(1, vlan, 1496, 5, 0x59, "198.18.5.9")
	tagged.VLAN = 100
	taggedOther := incomplete(1, vlan, 1496, 5, "198.18.5.8")
	taggedOther.VLAN = 100
	for _, tc := range []struct {
		name, dst string
		want      NextHop
	}{
		{"default, lowest metric", "192.0.2.1", ready(0, front, 1500, 3, 0x11, "198.18.0.1")},
		{"neighbour", "198.18.0.9", ready(0, front, 1500, 3, 0x19, "198.18.0.9")},
		{"unknown neighbour", "198.18.0.10", incomplete(0, front, 1500, 3, "198.18.0.10")},
		{"failed neighbour", "198.18.0.8", failed},
		{"known on another link only", "198.18.0.7", incomplete(0, front, 1500, 3, "198.18.0.7")},
		{"own address", "198.18.0.2", NextHop{State: Local, Iface: -1}},
		{"neighbour in a VLAN", "198.18.5.9", tagged},
		{"unknown in a VLAN", "198.18.5.8", taggedOther},
		{"router in a VLAN", "198.19.5.1", tagged},
		{"not attached", "198.18.6.1", NextHop{State: NotAttached, Iface: -1}},
		{"a VLAN in a VLAN", "198.18.7.1", NextHop{State: NotAttached, Iface: -1}},
		{"link down", "198.18.8.1", NextHop{State: NoRoute, Iface: -1}},
		{"blackhole", "198.19.0.1", NextHop{State: NoRoute, Iface: -1}},
		{"multipath, the known one", "198.19.1.1", ready(1, back, 9000, 4, 0x12, "198.18.1.2")},
		{"multipath, not the failed one", "198.19.2.1", incomplete(1, back, 9000, 4, "198.18.1.9")},
		{"multipath, not the one without carrier", "198.19.8.1", incomplete(1, back, 9000, 4, "198.18.1.9")},
		{"MTU of the route", "198.19.3.1", ready(0, front, 1280, 3, 0x11, "198.18.0.1")},
		{"dead, the next metric", "198.19.4.1", ready(1, back, 9000, 4, 0x12, "198.18.1.2")},
		{"IPv4 over an IPv6 router", "198.19.6.1", ready(0, front, 1500, 3, 0xf1, "fe80::1")},
		{"IPv6 neighbour, the one on the route's link", "2001:db8::9", ready(1, back, 9000, 4, 0x69, "2001:db8::9")},
		{"IPv6 link-local router", "2001:db8:1::5", ready(0, front, 1500, 3, 0xf1, "fe80::1")},
		{"IPv6 without a route", "2001:db9::1", NextHop{Iface: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.Lookup(addr(tc.dst))
			if tc.want.State != Ready && tc.want.State != Incomplete {
				tc.want.Gateway = got.Gateway // means nothing
			}
			if got != tc.want {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestBuildIsDeterministic(t *testing.T) {
	tables := testTables()
	tables.routes = []route{via("198.18.0.0/24", 0, front, ""), via("0.0.0.0/0", 0, back, "198.18.1.2"), via("198.18.1.0/24", 0, back, "")}
	first := build(tables, []int{front, back}, 1)
	for range 20 {
		if !first.same(build(tables, []int{front, back}, 2)) {
			t.Fatal("the same tables gave another snapshot")
		}
	}
	delete(tables.neighbours, neighbourKey{front, netip.MustParseAddr("198.18.0.9")})
	if first.same(build(tables, []int{front, back}, 2)) {
		t.Error("a lost neighbour made no difference")
	}
}
