package nat

import (
	"net/netip"

	"sluice/config/topology"
	"sluice/xdp/packet"
)

// sourceRanges are the load_balancer_source_ranges of one family.
type sourceRanges struct {
	list []prefix // none: every source
	vips []packet.Addr
	deny bool // the list is refused, and all else allowed
}

// newSourceRanges compiles the ranges of svc for family f, where node is this node's primary address of the family.
//
// A list without ranges of the family lifts the restriction for it, as one with a zero CIDR does. When the node's own
// address is in a range, the service's own addresses count as in it: the node reaches a VIP that is bound to it from
// that VIP (kube-proxy's rules for loadBalancerSourceRanges).
func newSourceRanges(svc *topology.Service, f family, node netip.Addr) sourceRanges {
	r := sourceRanges{deny: svc.SourceRangesDeny}
	for _, p := range svc.SourceRanges {
		if familyOfIP(p.Addr()) != f {
			continue
		}
		r.list = append(r.list, prefixFrom(p))
		if p.Contains(node) && r.vips == nil {
			r.vips = addrsOf(svc.LoadBalancerIPs, f)
		}
	}
	return r
}

// allow reports whether a may be the source of a flow.
func (r *sourceRanges) allow(a packet.Addr) bool {
	return len(r.list) == 0 || r.contain(a) != r.deny
}

// contain reports whether a is in the list.
func (r *sourceRanges) contain(a packet.Addr) bool {
	for _, p := range r.list {
		if p.contains(a) {
			return true
		}
	}
	for _, v := range r.vips {
		if v == a {
			return true
		}
	}
	return false
}
