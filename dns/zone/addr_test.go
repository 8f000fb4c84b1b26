package zone

import (
	"net/netip"
	"testing"
)

// TestAddrTable fills a table beyond the room that was asked for.
func TestAddrTable(t *testing.T) {
	table := newAddrTable(3)
	for i := range 10_000 {
		*table.put(podAddr(i)) = uint32(i + 1)
	}
	*table.put(podAddr(7)) = 70
	for i := range 20_000 {
		want := uint32(i + 1)
		if i == 7 {
			want = 70
		} else if i >= 10_000 {
			want = 0
		}
		if got := table.get(podAddr(i)); got != want {
			t.Fatalf("%v: %d, want %d", podAddr(i), got, want)
		}
	}
	if table.count != 10_000 || table.get(netip.Addr{}) != 0 {
		t.Errorf("%d addresses", table.count)
	}
}

// TestAddrSet tells addresses apart that end in the same bits.
func TestAddrSet(t *testing.T) {
	set := newAddrSet()
	a, same, six := netip.MustParseAddr("10.1.2.3"), netip.MustParseAddr("10.9.2.3"), netip.MustParseAddr("2001:db8::203")
	if set.has(a) {
		t.Error("an empty set has an address")
	}
	set.add(a)
	set.add(six)
	if !set.has(a) || !set.has(six) || set.has(same) || set.has(netip.MustParseAddr("2001:db8:1::203")) || set.has(netip.Addr{}) {
		t.Errorf("%v", set.all)
	}
}
