package nat

import (
	"net/netip"

	"sluice/config/topology"
	"sluice/nat/maglev"
	"sluice/xdp/packet"
)

// Port is a compiled service port.
type Port struct {
	// ID is the number of the port in counters and flows, from 1; it is the same in every generation that has a port
	// of this name and protocol, and is never given to another.
	ID       uint32
	Service  *topology.Service
	Name     string // of the port; "" when the service has one unnamed port
	Proto    uint8  // packet.ProtoTCP, packet.ProtoUDP or packet.ProtoSCTP
	Port     uint16
	NodePort uint16 // 0: none

	key      string
	routed   bool       // a route leads here
	backends []*Backend // every endpoint of the port, usable or not, sorted
	halves   [families]half
	pins     pinScope // of session affinity
	affinity int64    // how long a pin lasts, in nanoseconds
}

// String returns "namespace/name:port", or "namespace/name" for an unnamed port.
func (p *Port) String() string { return p.key }

// Backends returns every endpoint of the port in whatever state, of both families, sorted by address and port. The
// caller must not change the slice.
func (p *Port) Backends() []*Backend { return p.backends }

// Backend is an endpoint of a service port.
type Backend struct {
	// ID is the number of the backend in counters and flows, from 1. It belongs to the pair of service port and
	// endpoint address: the same endpoint behind two service ports has two. It is the same in every generation, and
	// never given to another.
	ID       uint32
	Addr     packet.Addr
	AddrPort netip.AddrPort
	Port     uint16 // transport port on the endpoint
	Weight   int    // 0 drains: no new flows
	Local    bool   // on this gateway's node
	Down     bool   // by its health check
	Endpoint *topology.Endpoint

	owner *Port
	in    setBit // which sets of its port's half it is in
}

// setBit names a set of a half.
type setBit uint8

const (
	clusterSet setBit = 1 << iota
	localSet
)

// half is what a service port is in one IP family: the families of a service are independent of each other.
type half struct {
	served bool // the service has a ClusterIP of this family, without which it does not exist in it
	usable bool // an endpoint that may take new flows exists, on whatever node
	ranges sourceRanges
	// The sets new flows are spread over, by traffic policy. One that no policy of the service asks for is empty.
	cluster, local set
}

// set is a set of backends with its Maglev table.
type set struct {
	backends []*Backend
	table    *maglev.Table // nil with fewer than two backends
	bit      setBit
	// byAddr has the backends by address where clients stick to the same one at every port of the service; of several
	// with one address the first. It is nil otherwise.
	byAddr map[packet.Addr]*Backend
}

// pick returns the backend that hash belongs to. The set is not empty.
func (s *set) pick(hash uint64) *Backend {
	if s.table == nil {
		return s.backends[0]
	}
	return s.backends[s.table.Lookup(hash)]
}

// addrsOf returns the addresses of family f.
func addrsOf(list []netip.Addr, f family) []packet.Addr {
	var out []packet.Addr
	for _, a := range list {
		if familyOfIP(a) == f {
			out = append(out, packet.AddrFrom(a))
		}
	}
	return out
}
