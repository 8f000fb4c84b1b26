package fib

import (
	"net/netip"
	"testing"

	"sluice/xdp/packet"
)

func addr(s string) packet.Addr { return packet.AddrFrom(netip.MustParseAddr(s)) }

func TestStaticLookup(t *testing.T) {
	router := NextHop{State: Ready, Iface: 1, DstMAC: [6]byte{2, 0, 0, 0, 0, 1}, MTU: 1500, Gateway: addr("198.18.1.1"), Link: 4}
	onLink := NextHop{State: Incomplete, Iface: 0, MTU: 1400, Link: 3}
	s := Static(7,
		Route{netip.MustParsePrefix("0.0.0.0/0"), router},
		Route{netip.MustParsePrefix("198.18.0.0/24"), onLink},
		Route{netip.MustParsePrefix("198.18.0.1/32"), NextHop{State: Local, Iface: 5}},
		Route{netip.MustParsePrefix("198.19.0.0/16"), NextHop{State: NoRoute}},
		Route{netip.MustParsePrefix("2001:db8::/64"), onLink},
		Route{netip.MustParsePrefix("2001:db8:1::/48"), NextHop{State: NotAttached}},
	)
	withGateway := func(h NextHop, gateway string) NextHop { h.Gateway = addr(gateway); return h }
	for _, tc := range []struct {
		name, dst string
		want      NextHop
	}{
		{"default route", "192.0.2.1", router},
		{"on link, the destination is the neighbour", "198.18.0.9", withGateway(onLink, "198.18.0.9")},
		{"local", "198.18.0.1", NextHop{State: Local, Iface: -1}},
		{"blackhole under the default", "198.19.4.4", NextHop{State: NoRoute, Iface: -1}},
		{"IPv6 on link", "2001:db8::5", withGateway(onLink, "2001:db8::5")},
		{"IPv6 not attached", "2001:db8:1::5", NextHop{State: NotAttached, Iface: -1}},
		{"IPv6 without a route", "2001:db8:2::5", NextHop{Iface: -1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := s.Lookup(addr(tc.dst))
			if tc.want.State != Ready && tc.want.State != Incomplete {
				tc.want.Gateway = got.Gateway // means nothing
			}
			if got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
	if s.Generation() != 7 {
		t.Errorf("generation %d, want 7", s.Generation())
	}
}

func TestLookupDoesNotAllocate(t *testing.T) {
	s := Static(1, Route{netip.MustParsePrefix("198.18.0.0/16"), NextHop{State: Ready, Iface: 1}},
		Route{netip.MustParsePrefix("2001:db8::/32"), NextHop{State: Ready, Iface: 0}})
	four, six := addr("198.18.3.4"), addr("2001:db8::1")
	if n := testing.AllocsPerRun(100, func() { s.Lookup(four); s.Lookup(six); s.At(s.Find(six)) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	s := Static(1, Route{netip.MustParsePrefix("0.0.0.0/0"), NextHop{State: Ready}},
		Route{netip.MustParsePrefix("198.18.0.0/16"), NextHop{State: Ready, Iface: 1}},
		Route{netip.MustParsePrefix("198.18.3.4/32"), NextHop{State: Ready, Iface: 1, Link: 1}})
	dst := addr("198.18.3.4")
	for b.Loop() {
		s.Lookup(dst)
	}
}
