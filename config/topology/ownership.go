package topology

import (
	"fmt"
	"net/netip"
	"slices"
)

// reserve notes the addresses of nodes and pods: they are kept out of the hands of services.
func (r *resolver) reserve() {
	for _, n := range r.out.Nodes {
		for _, a := range n.Addresses {
			r.owners.nodeAddr[a] = n.Name
		}
	}
	r.owners.podCIDRs = slices.Clone(r.out.Gateway.PodCIDRs)
	for _, n := range r.out.Nodes {
		r.owners.podCIDRs = append(r.owners.podCIDRs, n.PodCIDRs...)
	}
	for i := range r.in.Pods {
		p := &r.in.Pods[i]
		for _, text := range p.Addresses {
			r.reservePod(text, p.Namespace+"/"+p.Name)
		}
	}
	for i := range r.in.Services {
		s := &r.in.Services[i]
		for _, e := range s.Endpoints {
			if e.Pod != "" {
				r.reservePod(e.Address, s.Namespace+"/"+e.Pod)
			}
		}
	}
}

// reservePod notes the address of a pod; one that cannot be read is reported where it is resolved.
func (r *resolver) reservePod(text, name string) {
	if a, err := netip.ParseAddr(text); err == nil {
		r.owners.podAddr[a] = name
	}
}

// foreign says whose an address is by nature, "" when services may have it. An address of a node, a pod or another service's
// ClusterIP, which those of DNS are too, must not be claimed: whoever may create services could take over traffic that is not
// theirs (CVE-2020-8554).
func (r *resolver) foreign(a netip.Addr) string {
	if n, taken := r.owners.nodeAddr[a]; taken {
		return fmt.Sprintf("an address of node %q", n)
	}
	if cidr, in := containing(a, r.out.Cluster.ServiceCIDRs); in {
		return fmt.Sprintf("inside the service range %v, which is for ClusterIPs", cidr)
	}
	if p, taken := r.owners.podAddr[a]; taken {
		return "an address of pod " + p
	}
	if cidr, in := containing(a, r.owners.podCIDRs); in {
		return fmt.Sprintf("inside the pod range %v", cidr)
	}
	return ""
}

// outsideExternal reports whether an address is in none of the ranges that external IPs are kept to. With a range that could
// not be read it is not known, and the range has been reported.
func (r *resolver) outsideExternal(a netip.Addr) bool {
	given, read := r.in.Cluster.ExternalIPCIDRs, r.out.Cluster.ExternalIPCIDRs
	if len(given) == 0 || len(read) < len(given) {
		return false
	}
	_, in := containing(a, read)
	return !in
}
