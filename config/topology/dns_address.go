package topology

import (
	"net/netip"
	"slices"
)

// dnsService is the service by which the pods of a cluster reach its DNS, under the name that every distribution gives it.
const dnsService = "kube-system/kube-dns"

// noDNSAddress is the value of dns.address by which a gateway answers nowhere.
const noDNSAddress = "none"

// requestedDNSAddress reads dns.address and keeps it out of the hands of services that have not asked for it.
func (r *resolver) requestedDNSAddress() {
	text := r.in.DNS.Address
	if text == "" || text == noDNSAddress {
		return
	}
	a, err := netip.ParseAddr(text)
	switch whose, isNode := r.owners.nodeAddr[a]; {
	case err != nil || a.Zone() != "" || a.Is4In6():
		r.fault("dns.address", "%q is not an address: expected one like \"198.19.0.10\", \"none\", or \"\" for the ClusterIP of service %s",
			text, dnsService)
		return
	case !hostAddr(a):
		r.fault("dns.address", "%v cannot be a service address", a)
		return
	case isNode:
		r.hinted("dns.address", "on an address of its own a gateway serves DNS by 'sluice dns --listen'",
			"%v is an address of node %q: expected one that no node has", a, whose)
		return
	}
	if cidr, in := containing(a, r.out.Cluster.ServiceCIDRs); in && !r.isHost(a) {
		r.fault("dns.address", "%v is the network or broadcast address of %v", a, cidr)
		return
	}
	if _, in := containing(a, r.out.Cluster.ServiceCIDRs); in && r.owners.clusterIP[a] == "" {
		r.owners.clusterIP[a] = "dns.address"
	}
	r.out.DNS.Addresses = []netip.Addr{a}
}

// defaultDNSAddress takes the ClusterIPs of the cluster's DNS service where no address is asked for.
func (r *resolver) defaultDNSAddress() {
	if r.in.DNS.Address != "" {
		return
	}
	for i := range r.out.Services {
		if s := &r.out.Services[i]; s.Key() == dnsService {
			r.out.DNS.Addresses = slices.Clone(s.ClusterIPs)
		}
	}
}
