package nat

import (
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/xdp/packet"
)

// What follows is what the rules of the XDP program are made of: which packets are to be taken off the wire.

// ServiceAddrs returns the service addresses, sorted: everything sent to them is ours.
func (t *Table) ServiceAddrs() []netip.Addr {
	var out []netip.Addr
	for a, use := range t.addrs {
		if use&served != 0 {
			out = append(out, a.Netip())
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// ServiceCIDRs returns the ranges of which addresses without a service are ours too, to be dropped: none when
// cluster.unallocated leaves them to the kernel. The caller must not change the slice.
func (t *Table) ServiceCIDRs() []netip.Prefix {
	if t.cluster.Unallocated == "pass" {
		return nil
	}
	return t.cluster.ServiceCIDRs
}

// NodePortAddrs returns the gateway's addresses on which NodePorts are served. The caller must not change the slice.
func (t *Table) NodePortAddrs() []netip.Addr { return t.gateway.NodePortAddresses }

// ProtoPort is a transport protocol and a port.
type ProtoPort struct {
	Proto uint8 // packet.ProtoTCP, packet.ProtoUDP or packet.ProtoSCTP
	Port  uint16
}

// NodePorts returns the NodePorts in the order of the topology.
func (t *Table) NodePorts() []ProtoPort {
	var out []ProtoPort
	for _, p := range t.ports {
		if p.NodePort != 0 {
			out = append(out, ProtoPort{p.Proto, p.NodePort})
		}
	}
	return out
}

// Endpoint is the transport address of a backend.
type Endpoint struct {
	Addr  netip.Addr
	Proto uint8
	Port  uint16
}

// PreservingEndpoints returns the endpoints, each once and sorted, that may get flows with the client's own source.
// Their replies are addressed to the client and not to the gateway, and are ours by where they come from.
//
// That is every endpoint of a service with a way in that may keep the source: a ClusterIP (for pods; for everybody
// without pod_cidrs), unless masquerade_all; or any other address under external traffic policy Local. Endpoints that
// take no new flows, whatever their state, are among them for the flows that they still have; for the same reason the
// locality that the policy asks for is not looked at. Those of endpoints that have left the topology are not, because
// this table does not know them: whoever replaces the rules keeps them while flows refer to them.
func (t *Table) PreservingEndpoints() []Endpoint {
	var out []Endpoint
	for _, p := range t.ports {
		for _, b := range p.backends {
			if f := familyOf(b.Addr); p.halves[f].served && t.preserves(p, f) {
				out = append(out, Endpoint{b.AddrPort.Addr(), p.Proto, b.Port})
			}
		}
	}
	slices.SortFunc(out, compareEndpoints)
	return slices.Compact(out)
}

// preserves reports whether a way into p in family f may keep the client's source.
func (t *Table) preserves(p *Port, f family) bool {
	return !t.masqueradeAll || p.Service.ExternalTrafficPolicy == topology.PolicyLocal && isExternal(p, f)
}

// compareEndpoints orders by address, protocol and port.
func compareEndpoints(a, b Endpoint) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	return (int(a.Proto)<<16 | int(a.Port)) - (int(b.Proto)<<16 | int(b.Port))
}

// BackendAddrs returns the addresses of all endpoints, each once and sorted, whose next hops are worth keeping
// resolved.
func (t *Table) BackendAddrs() []netip.Addr {
	seen := map[packet.Addr]struct{}{}
	var out []netip.Addr
	for _, p := range t.ports {
		for _, b := range p.backends {
			if _, twice := seen[b.Addr]; !twice && p.halves[familyOf(b.Addr)].served {
				seen[b.Addr] = struct{}{}
				out = append(out, b.AddrPort.Addr())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}
