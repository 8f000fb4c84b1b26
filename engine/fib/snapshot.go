// Package fib answers where a packet goes next: out of which attached interface, in which VLAN, with which link-layer
// addresses. It follows the kernel's main routing table, links and neighbours by netlink, so that whatever sets up the
// machine's routing (static routes, a BGP daemon) also steers translated packets.
//
// A Watcher publishes immutable Snapshots. Not followed are policy routing rules (ip rule), tables other than main and
// local, VRFs, and routes with encapsulation, which count as NoRoute.
//
//	nexthop.go   what a lookup answers
//	snapshot.go  the lookup
//	static.go    a snapshot out of given routes, for tests and offline use
//	build.go     from routes, links and neighbours to a snapshot
//	kernel.go    reading them from the kernel
//	watcher.go   following changes
//	probe.go     asking the kernel to resolve neighbours, and keeping some alive
package fib

import (
	"github.com/gaissmai/bart"

	"sluice/xdp/packet"
)

// Snapshot is an immutable picture of routes and neighbours. All methods are safe for concurrent use and do not allocate.
type Snapshot struct {
	generation uint64
	table      bart.Table[uint32] // prefix -> index into hops; known neighbours are host routes on top of their networks
	macs       map[[6]byte]struct{}
	hops       []NextHop // without duplicates; the first is NoRoute
}

// SendsFrom reports whether some route leaves with this link-layer source.
func (s *Snapshot) SendsFrom(mac [6]byte) bool {
	_, ok := s.macs[mac]
	return ok
}

// Generation grows by one with each published Snapshot that differs from the one before.
func (s *Snapshot) Generation() uint64 { return s.generation }

// Lookup returns the next hop for dst.
func (s *Snapshot) Lookup(dst packet.Addr) NextHop {
	hop := s.hops[s.Find(dst)]
	if hop.Gateway == (packet.Addr{}) {
		hop.Gateway = dst
	}
	return hop
}

// Find returns the index of the next hop for dst, which At takes. It is what a caller may keep, together with the
// generation, to spare itself the next lookup.
func (s *Snapshot) Find(dst packet.Addr) uint32 {
	i, ok := s.table.Lookup(dst.Netip())
	if !ok {
		return 0
	}
	return i
}

// At returns the next hop that Find gave the index of. It is shared: the caller only reads it. Its Gateway is "::" when
// it stands for the unresolved destinations of a whole network; use Lookup for these.
func (s *Snapshot) At(i uint32) *NextHop { return &s.hops[i] }
