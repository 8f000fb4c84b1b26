package control

import (
	"cmp"
	"net/netip"
	"slices"

	"sluice/nat"
	"sluice/xdp"
)

// Rules derives from a service table which packets the XDP program gives to us.
func Rules(t *nat.Table) *xdp.Rules {
	ports := t.SNATPorts()
	r := &xdp.Rules{
		Services:      t.ServiceAddrs(),
		Ranges:        slices.Clone(t.ServiceCIDRs()),
		NodePortAddrs: slices.Clone(t.NodePortAddrs()),
		SNATAddrs:     slices.Clone(t.SNATAddrs()),
		SNATPorts:     xdp.PortRange{First: ports.First, Last: ports.Last},
	}
	for _, p := range t.NodePorts() {
		r.NodePorts = append(r.NodePorts, xdp.ProtoPort(p))
	}
	for _, e := range t.PreservingEndpoints() {
		r.Backends = append(r.Backends, xdp.Backend(e))
	}
	return r
}

func compareBackends(a, b xdp.Backend) int {
	return cmp.Or(a.Addr.Compare(b.Addr), cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port))
}

func comparePorts(a, b xdp.ProtoPort) int {
	return cmp.Or(cmp.Compare(a.Proto, b.Proto), cmp.Compare(a.Port, b.Port))
}

// without returns the elements of a that are not in b, in their order.
func without[T comparable](a, b []T) []T {
	drop := make(map[T]bool, len(b))
	for _, x := range b {
		drop[x] = true
	}
	var out []T
	for _, x := range a {
		if !drop[x] {
			out = append(out, x)
		}
	}
	return out
}

// union returns the elements of both, sorted, each once.
func union[T comparable](a, b []T, compare func(a, b T) int) []T {
	out := slices.Concat(a, b)
	slices.SortFunc(out, compare)
	return slices.Compact(out)
}

// equal reports whether both rules redirect the same packets, given in the same order.
func equal(a, b *xdp.Rules) bool {
	return slices.Equal(a.Services, b.Services) && slices.Equal(a.Ranges, b.Ranges) &&
		slices.Equal(a.NodePortAddrs, b.NodePortAddrs) && slices.Equal(a.NodePorts, b.NodePorts) &&
		slices.Equal(a.SNATAddrs, b.SNATAddrs) && a.SNATPorts == b.SNATPorts && slices.Equal(a.Backends, b.Backends)
}

// both returns rules that redirect what either does. Of two ranges of source ports it takes the span.
func both(a, b *xdp.Rules) *xdp.Rules {
	return &xdp.Rules{
		Services: union(a.Services, b.Services, netip.Addr.Compare),
		Ranges: union(a.Ranges, b.Ranges, func(a, b netip.Prefix) int {
			return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
		}),
		NodePortAddrs: union(a.NodePortAddrs, b.NodePortAddrs, netip.Addr.Compare),
		NodePorts:     union(a.NodePorts, b.NodePorts, comparePorts),
		SNATAddrs:     union(a.SNATAddrs, b.SNATAddrs, netip.Addr.Compare),
		SNATPorts: xdp.PortRange{
			First: min(a.SNATPorts.First, b.SNATPorts.First), Last: max(a.SNATPorts.Last, b.SNATPorts.Last),
		},
		Backends: union(a.Backends, b.Backends, compareBackends),
	}
}
