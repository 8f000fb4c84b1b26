package healthz

import (
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/nat"
)

// Check is what the health_check_node_port of a service says in one IP family.
type Check struct {
	Namespace, Name string
	Network         string // "tcp4" or "tcp6"
	Port            uint16
	Local           int // endpoints of this family on this node that are ready for new flows
}

// Checks returns the checks of all services with a health_check_node_port, in the order of the table. The families of a
// service are those of its ClusterIPs; each counts its own endpoints only.
//
// An endpoint counts by its IP address: once, however many ports or entries it has. It counts when it is ready; a
// terminating one is not (unless its service publishes endpoints that are not ready), although it still gets new flows while
// no other is left (KEP-1669): load balancers are to turn away before that ends. Beyond Kubernetes, one that fails the health
// check of the gateway does not count, nor does one of weight 0, since no new flow would go to either.
func Checks(t *nat.Table) (out []Check) {
	for s, ports := range t.Services() {
		if s.HealthCheckNodePort == 0 {
			continue
		}
		for _, network := range []string{"tcp4", "tcp6"} {
			if slices.ContainsFunc(s.ClusterIPs, func(a netip.Addr) bool { return networkOf(a) == network }) {
				out = append(out, check(s, ports, network))
			}
		}
	}
	return out
}

// check counts for one service in one family.
func check(s *topology.Service, ports []*nat.Port, network string) Check {
	ready := map[netip.Addr]struct{}{}
	for _, p := range ports {
		for _, b := range p.Backends() {
			a := b.AddrPort.Addr()
			if networkOf(a) == network && b.Local && b.Endpoint.Ready && !b.Down && b.Weight > 0 {
				ready[a] = struct{}{}
			}
		}
	}
	return Check{Namespace: s.Namespace, Name: s.Name, Network: network, Port: s.HealthCheckNodePort, Local: len(ready)}
}

// networkOf returns the name, for package net, of TCP over the family of a.
func networkOf(a netip.Addr) string {
	if a.Unmap().Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// Addresses returns the addresses to listen on for checks: a wildcard for each family of which every address of the node
// serves NodePorts, and else the addresses that do.
func Addresses(g *topology.Gateway) (out []netip.Addr) {
	for network, wildcard := range map[string]netip.Addr{"tcp4": netip.IPv4Unspecified(), "tcp6": netip.IPv6Unspecified()} {
		chosen := ofNetwork(g.NodePortAddresses, network)
		if len(chosen) > 0 && len(chosen) == len(ofNetwork(g.LocalAddresses, network)) {
			chosen = []netip.Addr{wildcard}
		}
		out = append(out, chosen...)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

// ofNetwork returns the addresses of one family.
func ofNetwork(addrs []netip.Addr, network string) (out []netip.Addr) {
	for _, a := range addrs {
		if networkOf(a) == network {
			out = append(out, a.Unmap())
		}
	}
	return out
}
