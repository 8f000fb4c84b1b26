package fib

import (
	"cmp"
	"net/netip"
	"slices"

	"sluice/xdp/packet"
)

// tables is what is known of the kernel's routing, in plain types.
type tables struct {
	links      map[int]link
	routes     []route
	neighbours map[neighbourKey]neighbour
}

// link is a network device.
type link struct {
	mac    [6]byte
	mtu    int
	up     bool
	parent int    // the device below a VLAN device
	vlan   uint16 // 0 unless a VLAN device with 802.1Q tags
}

// routeKind says what a route does with a packet.
type routeKind uint8

const (
	unicast routeKind = iota
	local
	unreachable // blackhole, prohibit and unreachable; also what we cannot send over
)

// route is one route of the kernel.
type route struct {
	prefix netip.Prefix
	metric int
	kind   routeKind
	mtu    int // 0: that of the link
	paths  []path
}

// path is one of the ways of a route.
type path struct {
	link    int
	gateway netip.Addr // invalid: the destination is on the link
	dead    bool       // the kernel does not use it
	down    bool       // its link has no carrier
}

// neighbourKey names a neighbour. The same address may exist on several links.
type neighbourKey struct {
	link int
	addr netip.Addr
}

// neighbour is what the kernel knows of a neighbour.
type neighbour struct {
	mac    [6]byte
	valid  bool // mac may be used
	failed bool // asked for in vain
	fixed  bool // set by hand, or on a link without resolution: never probed
}

// build makes the snapshot of t for interfaces with the given kernel indices.
//
// Of routes to the same prefix the lowest metric wins, as in the kernel. Of the ways of a multipath route one is taken for
// all flows: the first whose neighbour is known, else the first that may become so.
func build(t *tables, attached []int, generation uint64) *Snapshot {
	r := resolver{tables: t, attached: attached}
	b := newBuilder(generation)
	slices.SortStableFunc(t.routes, compareRoutes)
	for i := 0; i < len(t.routes); {
		next := i + 1
		for next < len(t.routes) && t.routes[next].prefix == t.routes[i].prefix {
			next++
		}
		b.insert(t.routes[i].prefix, r.best(t.routes[i:next]))
		i = next
	}
	r.addNeighbours(b)
	return b.snapshot
}

// compareRoutes sorts by prefix, then local routes first (the kernel looks into its local table first), then by metric.
func compareRoutes(a, b route) int {
	return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()),
		cmp.Compare(rank(a), rank(b)), cmp.Compare(a.metric, b.metric))
}

func rank(r route) int {
	if r.kind == local {
		return 0
	}
	return 1
}

// resolver turns routes into next hops.
type resolver struct {
	*tables
	attached []int
}

// best returns the next hop of routes to one prefix, sorted.
func (r *resolver) best(routes []route) NextHop {
	for i := range routes {
		switch routes[i].kind {
		case local:
			return NextHop{State: Local}
		case unreachable:
			return NextHop{State: NoRoute}
		}
		if hop, ok := r.unicast(&routes[i]); ok {
			return hop
		}
	}
	return NextHop{State: NoRoute}
}

// unicast returns the best way of a route; ok is false when all of them are dead.
func (r *resolver) unicast(rt *route) (best NextHop, ok bool) {
	score := -1
	for _, p := range rt.paths {
		if p.dead || !r.links[p.link].up {
			continue
		}
		hop := r.hop(p.link, p.gateway, rt.mtu)
		if s := merit(&hop, p.down); s > score {
			best, score = hop, s
		}
	}
	return best, score >= 0
}

// merit ranks the ways of a multipath route.
func merit(h *NextHop, down bool) int {
	switch {
	case h.State == NotAttached:
		return 0
	case down:
		return 1
	case h.Failed:
		return 2
	case h.State == Incomplete:
		return 3
	}
	return 4
}

// hop returns the way out over a device to a gateway, or to whatever is on its link when the gateway is invalid.
func (r *resolver) hop(index int, gateway netip.Addr, mtu int) NextHop {
	l := r.links[index]
	hop := NextHop{State: Incomplete, SrcMAC: l.mac, MTU: l.mtu, Link: index}
	hop.Iface = slices.Index(r.attached, index)
	if hop.Iface < 0 && l.vlan != 0 {
		hop.Iface, hop.VLAN = slices.Index(r.attached, l.parent), l.vlan
	}
	if hop.Iface < 0 {
		return NextHop{State: NotAttached}
	}
	if mtu != 0 {
		hop.MTU = min(mtu, hop.MTU)
	}
	if gateway.IsValid() {
		hop.Gateway = packet.AddrFrom(gateway)
		r.complete(&hop, r.neighbours[neighbourKey{index, gateway}])
	}
	return hop
}

// complete fills in what is known of the neighbour.
func (r *resolver) complete(hop *NextHop, n neighbour) {
	if n.valid {
		hop.State, hop.DstMAC = Ready, n.mac
	}
	hop.Failed = n.failed
}

// addNeighbours puts a host route for each known neighbour on top of the network it is in, so that one lookup finds both.
func (r *resolver) addNeighbours(b *builder) {
	keys := make([]neighbourKey, 0, len(r.neighbours))
	for k, n := range r.neighbours {
		if n.valid || n.failed {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b neighbourKey) int {
		return cmp.Or(a.addr.Compare(b.addr), cmp.Compare(a.link, b.link))
	})
	for _, k := range keys {
		hop := *b.snapshot.At(b.snapshot.Find(packet.AddrFrom(k.addr)))
		if hop.State != Incomplete || hop.Gateway != (packet.Addr{}) || hop.Link != k.link {
			continue // not on this link by the routes
		}
		hop.Gateway = packet.AddrFrom(k.addr)
		r.complete(&hop, r.neighbours[k])
		b.insert(netip.PrefixFrom(k.addr, k.addr.BitLen()), hop)
	}
}

// same reports whether both snapshots answer alike. It relies on build being deterministic.
func (s *Snapshot) same(o *Snapshot) bool {
	return slices.Equal(s.hops, o.hops) && s.table.Equal(&o.table)
}
