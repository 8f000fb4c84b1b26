package fib

import (
	"net/netip"
)

// Route is a prefix and the way to it.
type Route struct {
	Prefix netip.Prefix
	Hop    NextHop
}

// Static returns a snapshot of given routes: for tests, and for running packets through the engine without a network. The
// longest prefix wins, and of equal ones the last. A hop whose Gateway is "::" means that each destination is its own
// neighbour.
func Static(generation uint64, routes ...Route) *Snapshot {
	b := newBuilder(generation)
	for _, r := range routes {
		b.insert(r.Prefix, r.Hop)
	}
	return b.snapshot
}

// builder fills a snapshot, storing equal next hops once.
type builder struct {
	snapshot *Snapshot
	index    map[NextHop]uint32
}

func newBuilder(generation uint64) *builder {
	none := NextHop{Iface: -1}
	return &builder{
		snapshot: &Snapshot{generation: generation, hops: []NextHop{none}, macs: map[[6]byte]struct{}{}},
		index:    map[NextHop]uint32{none: 0},
	}
}

// insert adds a prefix, replacing what it had.
func (b *builder) insert(p netip.Prefix, hop NextHop) {
	if hop.State != Ready && hop.State != Incomplete {
		hop = NextHop{State: hop.State, Iface: -1}
	}
	i, ok := b.index[hop]
	if !ok {
		i = uint32(len(b.snapshot.hops))
		b.snapshot.hops = append(b.snapshot.hops, hop)
		b.index[hop] = i
		if hop.State == Ready || hop.State == Incomplete {
			b.snapshot.macs[hop.SrcMAC] = struct{}{}
		}
	}
	b.snapshot.table.Insert(p.Masked(), i)
}
