package topology

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// ownerKey is what two services cannot both have: an address, protocol and port; or with port 0 a whole address.
type ownerKey struct {
	addr  netip.Addr
	proto Protocol
	port  uint16
}

// owners remembers who has which address and port.
type owners struct {
	fronts    map[ownerKey]string
	clusterIP map[netip.Addr]string
	nodePort  map[uint16]string // by number alone: one number belongs to one service whatever the protocol
	// healthPort are those of nodePort that are asked for as health check ports.
	healthPort map[uint16]bool
	nodeAddr   map[netip.Addr]string
	podAddr    map[netip.Addr]string
	podCIDRs   []netip.Prefix
	external   map[netip.Addr]bool // addresses of some service that are reached from outside
}

func newOwners() owners {
	return owners{
		fronts:     map[ownerKey]string{},
		clusterIP:  map[netip.Addr]string{},
		nodePort:   map[uint16]string{},
		healthPort: map[uint16]bool{},
		nodeAddr:   map[netip.Addr]string{},
		podAddr:    map[netip.Addr]string{},
		external:   map[netip.Addr]bool{},
	}
}

// requested takes the addresses and node ports that a service asks for.
func (r *resolver) requested(s serviceAt) {
	if s.out.Type == ExternalName {
		return
	}
	if !s.out.Headless {
		r.requestedClusterIPs(s)
	}
	s.out.ExternalIPs = r.frontAddrs(s, "external_ips", s.in.ExternalIPs)
	s.out.LoadBalancerIPs = r.frontAddrs(s, "load_balancer_ips", s.in.LoadBalancerIPs)
	for i := range s.in.Ports {
		r.requestedNodePort(s, i)
	}
	r.requestedHealthPort(s)
}

func (r *resolver) requestedClusterIPs(s serviceAt) {
	path := s.path + ".cluster_ips"
	list, paths := r.addrs(path, s.in.ClusterIPs)
	if len(list) > 2 || len(list) == 2 && list[0].Is4() == list[1].Is4() {
		r.fault(path, "%d addresses: expected one, or one of each family", len(list))
		return
	}
	for i, a := range list {
		at := paths[i]
		cidr, ok := containing(a, r.out.Cluster.ServiceCIDRs)
		switch {
		case !ok && !r.rangesKnown():
		case !ok:
			r.fault(at, "%v is not in cluster.service_cidrs", a)
		case !r.isHost(a):
			r.fault(at, "%v is the network or broadcast address of %v", a, cidr)
		case r.owners.clusterIP[a] != "":
			r.fault(at, "%v belongs to service %s already", a, r.owners.clusterIP[a])
		default:
			r.owners.clusterIP[a] = s.out.Key()
		}
	}
	s.out.ClusterIPs = list
}

// rangesKnown reports whether all service ranges could be read. When not, a fault says so, and that there is no address for a
// service would be a fault because of it.
func (r *resolver) rangesKnown() bool {
	return len(r.out.Cluster.ServiceCIDRs) == len(r.in.Cluster.ServiceCIDRs)
}

// isHost reports whether a is an address that a service can have in at least one of the service ranges: they may overlap.
func (r *resolver) isHost(a netip.Addr) bool {
	return slices.ContainsFunc(r.out.Cluster.ServiceCIDRs, func(p netip.Prefix) bool { return p.Contains(a) && usable(a, p) })
}

// frontAddrs parses external or load-balancer addresses and claims those for the ports of the service that are nobody's by
// nature.
func (r *resolver) frontAddrs(s serviceAt, key string, list []string) []netip.Addr {
	path := s.path + "." + key
	addrs, paths := r.addrs(path, list)
	for i, a := range addrs {
		at := paths[i]
		if !hostAddr(a) {
			r.fault(at, "%v cannot be a service address", a)
			continue
		}
		if whose := r.foreign(a); whose != "" {
			r.fault(at, "%v is %s", a, whose)
			continue
		}
		if key == "external_ips" && r.outsideExternal(a) {
			r.fault(at, "%v is in none of cluster.external_ip_cidrs", a)
			continue
		}
		r.claim(s, at, a)
	}
	return addrs
}

// claim takes an address for each port of a service: two services may share one if their ports differ.
func (r *resolver) claim(s serviceAt, path string, a netip.Addr) {
	r.owners.external[a] = true
	for _, p := range s.out.Ports {
		k := ownerKey{a, p.Protocol, p.Port}
		if owner := r.owners.fronts[k]; owner != "" && owner != s.out.Key() {
			r.fault(path, "%s %s/%d belongs to service %s already", a, p.Protocol, p.Port, owner)
			continue
		}
		r.owners.fronts[k] = s.out.Key()
	}
}

// requestedNodePort takes the node port that the i-th port of the input asks for.
func (r *resolver) requestedNodePort(s serviceAt, i int) {
	in, path := &s.in.Ports[i], fmt.Sprintf("%s.port[%d].node_port", s.path, i)
	if in.NodePort == 0 {
		return
	}
	np := r.out.Cluster.NodePortRange
	switch {
	case s.out.Type != NodePort && s.out.Type != LoadBalancer:
		r.fault(path, "only for types NodePort and LoadBalancer, this is %s", s.in.Type)
		return
	case in.NodePort < int(np.First) || in.NodePort > int(np.Last):
		r.fault(path, "%d is out of range: expected %d to %d (cluster.node_port_range)", in.NodePort, np.First, np.Last)
		return
	}
	number := uint16(in.NodePort)
	if owner := r.owners.nodePort[number]; owner != "" && (owner != s.out.Key() || r.owners.healthPort[number]) {
		r.fault(path, "%d belongs to service %s already", number, owner)
		return
	}
	for j := range s.out.Ports {
		p := &s.out.Ports[j]
		if p.NodePort == number && p.Protocol == Protocol(in.Protocol) {
			r.fault(path, "%d/%s is there twice", number, p.Protocol)
		}
		if p.Name == in.Name && p.Protocol == Protocol(in.Protocol) && int(p.Port) == in.Port {
			p.NodePort = number
		}
	}
	r.owners.nodePort[number] = s.out.Key()
}

// allocatedFamilies returns the families of which a service gets addresses; ok is false when it gets nothing.
func (r *resolver) allocatedFamilies(s serviceAt) (v4 []bool, ok bool) {
	if s.out.Type == ExternalName || !r.rangesKnown() {
		return nil, false
	}
	return r.families(s)
}

// allocate gives a service what it has not asked for by name, and has not kept.
func (r *resolver) allocate(s serviceAt) {
	if !s.allocates {
		return
	}
	if !s.out.Headless {
		r.allocateClusterIPs(s, s.families)
	}
	if s.out.Type == LoadBalancer && len(s.in.LoadBalancerIPs) == 0 {
		r.allocateVIPs(s, s.families)
	}
	if s.allocatesNodePorts() {
		r.allocateNodePorts(s)
	}
	r.allocateHealthPort(s)
	if s.out.LoadBalancerProxyMode && len(s.out.LoadBalancerIPs) == 0 && len(s.in.LoadBalancerIPs) == 0 {
		r.fault(s.path+".load_balancer_ip_mode", "Proxy on a service that has no load-balancer address")
	}
}

func (r *resolver) allocateClusterIPs(s serviceAt, v4 []bool) {
	if len(v4) == 0 && len(s.in.ClusterIPs) == 0 {
		r.fault(s.path+".cluster_ips", "not given, and cluster.service_cidrs has no range to take one from")
	}
	for _, four := range v4 {
		if slices.ContainsFunc(s.out.ClusterIPs, func(a netip.Addr) bool { return a.Is4() == four }) {
			continue
		}
		a, ok := r.pick(r.out.Cluster.ServiceCIDRs, four, s.out.Key(), true, func(a netip.Addr) bool { return r.owners.clusterIP[a] == "" })
		if !ok {
			r.fault(s.path+".cluster_ips", "no free address left in cluster.service_cidrs")
			continue
		}
		r.owners.clusterIP[a] = s.out.Key()
		s.out.ClusterIPs = append(s.out.ClusterIPs, a)
	}
	byFamily(s.out.ClusterIPs, v4)
}

// byFamily sorts addresses into the order of families: what was kept may be of the second one only.
func byFamily(addrs []netip.Addr, v4 []bool) {
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int {
		return cmp.Compare(slices.Index(v4, a.Is4()), slices.Index(v4, b.Is4()))
	})
}

// allocateVIPs takes an address of each of the service's families from the pools; a family without a pool gets none.
func (r *resolver) allocateVIPs(s serviceAt, v4 []bool) {
	for _, four := range v4 {
		has := slices.ContainsFunc(s.out.LoadBalancerIPs, func(a netip.Addr) bool { return a.Is4() == four })
		if has || !slices.ContainsFunc(r.out.Cluster.LoadBalancerPools, func(p netip.Prefix) bool { return p.Addr().Is4() == four }) {
			continue
		}
		a, ok := r.pick(r.out.Cluster.LoadBalancerPools, four, s.out.Key(), false, r.freeVIP)
		if !ok {
			r.fault(s.path+".load_balancer_ips", "no free address left in cluster.load_balancer_pools")
			continue
		}
		r.claim(s, s.path+".load_balancer_ips", a)
		s.out.LoadBalancerIPs = append(s.out.LoadBalancerIPs, a)
	}
	byFamily(s.out.LoadBalancerIPs, v4)
}

// freeVIP reports whether an address is nobody's. A pool address is given to one service only.
func (r *resolver) freeVIP(a netip.Addr) bool { return !r.owners.external[a] && r.foreign(a) == "" }

// bands splits n values into a static band at the front, which allocation uses last so that it stays free for requests, and
// the dynamic rest: size/divisor values, between least and most; none when there are at most 16 (KEP-3070, KEP-3668).
func bands(n, divisor, least, most uint64) (static uint64) {
	if n <= 16 {
		return 0
	}
	return min(max(n/divisor, least), most)
}

// pick returns a free address of a family: first from the dynamic bands of the ranges, then from the static ones. The search
// starts where the hash of name says, so that the same services get the same addresses each time. banded is false for
// ranges without a static band.
func (r *resolver) pick(ranges []netip.Prefix, four bool, name string, banded bool, free func(netip.Addr) bool) (netip.Addr, bool) {
	for _, static := range []bool{false, true} {
		for _, p := range ranges {
			if p.Addr().Is4() != four {
				continue
			}
			first, n := hosts(p)
			offset := uint64(0)
			if banded {
				offset = bands(size(p), 16, 16, 256)
			}
			from, count := offset, n-min(offset, n)
			if static {
				from, count = 0, min(offset, n)
			}
			if a, ok := search(first, from, count, name, free); ok {
				return a, true
			}
		}
	}
	return netip.Addr{}, false
}

// search tries count addresses from first+from on, starting at a place that depends on name.
func search(first netip.Addr, from, count uint64, name string, free func(netip.Addr) bool) (netip.Addr, bool) {
	if count == 0 {
		return netip.Addr{}, false
	}
	start := hash(name) % count
	for i := range count {
		if a := add(first, from+(start+i)%count); free(a) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// hash is FNV-1a; it is the same everywhere.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s)) // never fails
	return h.Sum64()
}

// size is the number of addresses of a prefix, at most 2^32: no search goes further.
func size(p netip.Prefix) uint64 { return 1 << min(p.Addr().BitLen()-p.Bits(), 32) }

// hosts returns the first address of a prefix that a service can have, and how many there are: not the network address, nor
// the broadcast address of IPv4.
func hosts(p netip.Prefix) (first netip.Addr, n uint64) {
	switch n = size(p); {
	case n == 1:
		return p.Addr(), 1
	case p.Addr().Is4():
		return p.Addr().Next(), n - 2
	}
	return p.Addr().Next(), n - 1
}

// usable reports whether a is one of the hosts of p.
func usable(a netip.Addr, p netip.Prefix) bool {
	first, n := hosts(p)
	return !a.Less(first) && (n >= 1<<32-1 || !add(first, n-1).Less(a))
}

// add returns the address n after a.
func add(a netip.Addr, n uint64) netip.Addr {
	if a.Is4() {
		b := a.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := a.As16()
	low := binary.BigEndian.Uint64(b[8:])
	binary.BigEndian.PutUint64(b[8:], low+n)
	if low+n < low {
		binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+1)
	}
	return netip.AddrFrom16(b)
}

// containing returns the first prefix that contains a.
func containing(a netip.Addr, list []netip.Prefix) (netip.Prefix, bool) {
	for _, p := range list {
		if p.Contains(a) {
			return p, true
		}
	}
	return netip.Prefix{}, false
}

// allocateNodePorts gives every port a number from the node port range. Ports that have one number
// with different protocols share theirs, as Kubernetes has it for DNS.
func (r *resolver) allocateNodePorts(s serviceAt) {
	shared := map[uint16]uint16{}
	for _, p := range s.out.Ports {
		if p.NodePort != 0 {
			shared[p.Port] = p.NodePort
		}
	}
	for i := range s.out.Ports {
		p := &s.out.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		if number, ok := shared[p.Port]; ok && !hasNodePort(s.out.Ports, p.Protocol, number) {
			p.NodePort = number
			continue
		}
		number, ok := r.newNodePort(fmt.Sprintf("%s:%d", s.out.Key(), p.Port))
		if !ok {
			r.fault(fmt.Sprintf("%s.port[%d].node_port", s.path, i), "no free number left in cluster.node_port_range")
			continue
		}
		p.NodePort, shared[p.Port] = number, number
		r.owners.nodePort[number] = s.out.Key()
	}
}

// hasNodePort reports whether one of the ports has a node port already.
func hasNodePort(ports []Port, proto Protocol, number uint16) bool {
	return slices.ContainsFunc(ports, func(p Port) bool { return p.Protocol == proto && p.NodePort == number })
}

// newNodePort returns a free number of the node port range: from the dynamic band, or from the static one when that is full.
// Where the search starts depends on name.
func (r *resolver) newNodePort(name string) (uint16, bool) {
	np := r.out.Cluster.NodePortRange
	n := uint64(np.Last-np.First) + 1
	static := bands(n, 32, 16, 128)
	if number, ok := r.freeNodePort(uint64(np.First)+static, n-static, name); ok {
		return number, true
	}
	return r.freeNodePort(uint64(np.First), static, name)
}

// freeNodePort searches count numbers from first on.
func (r *resolver) freeNodePort(first, count uint64, name string) (uint16, bool) {
	if count == 0 {
		return 0, false
	}
	start := hash(name) % count
	for i := range count {
		if number := uint16(first + (start+i)%count); r.owners.nodePort[number] == "" {
			return number, true
		}
	}
	return 0, false
}
