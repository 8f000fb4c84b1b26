package topology

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// Resolve validates an input and turns it into a Topology: defaults are filled in, addresses and ports allocated, names
// looked up. It reports every fault that it finds; with any, the Topology is nil.
//
// The result depends on the input alone: an unchanged topology gets the same addresses and ports each time.
func Resolve(in *Input) (*Topology, []Fault) {
	out, _, faults := ResolveFrom(in, nil)
	return out, faults
}

// ResolveFrom is Resolve for a topology that follows another: what its services had according to previous they keep, as far as
// that is theirs to have. previous may be nil: there is none. The State that it returns is the previous of the next time; with
// any fault it is nil, and the one before stays valid.
func ResolveFrom(in *Input, previous *State) (*Topology, *State, []Fault) {
	r := &resolver{in: in, out: &Topology{}, nodes: map[string]*Node{}, owners: newOwners(), share: newSharer(),
		state: &State{Version: StateVersion, Services: map[string]ServiceState{}}}
	if previous != nil {
		r.kept = previous.Services
	}
	r.cluster()
	r.allNodes()
	r.gateway()
	r.conntrack()
	r.dns()
	r.namespaces()
	r.pods()
	r.services()
	if len(r.faults) > 0 {
		return nil, nil, r.faults
	}
	slices.SortFunc(r.out.Services, func(a, b Service) int { return strings.Compare(a.Key(), b.Key()) })
	return r.out, r.state, nil
}

func (r *resolver) cluster() {
	in, out := &r.in.Cluster, &r.out.Cluster
	out.Domain = strings.ToLower(strings.TrimSuffix(in.Domain, "."))
	if !isSubdomain(out.Domain) {
		r.fault("cluster.domain", "%q is not a DNS name: expected one like \"cluster.local\"", in.Domain)
	}
	var paths []string
	out.ServiceCIDRs, paths = r.prefixesAt("cluster.service_cidrs", in.ServiceCIDRs)
	for i, p := range out.ServiceCIDRs {
		r.addressRange(paths[i], p)
		if p.Addr().Is6() && p.Bits() < 64 {
			r.fault(paths[i], "%v is too large: an IPv6 service range has 64 bits of prefix or more", p)
		}
	}
	out.SliceSize = in.SliceSize
	out.NodePortRange = r.portRange("cluster.node_port_range", in.NodePortRange)
	out.LoadBalancerPools, paths = r.prefixesAt("cluster.load_balancer_pools", in.LoadBalancerPools)
	for i, p := range out.LoadBalancerPools {
		r.addressRange(paths[i], p)
		if o, ok := overlapping(p, out.ServiceCIDRs); ok {
			r.fault(paths[i], "%v overlaps the service range %v", p, o)
		}
	}
	out.ExternalIPCIDRs = r.prefixes("cluster.external_ip_cidrs", in.ExternalIPCIDRs)
	r.oneOf("cluster.unknown_port", in.UnknownPort, "reject", "pass")
	r.oneOf("cluster.unallocated", in.Unallocated, "drop", "pass")
	out.UnknownPort, out.Unallocated, out.SliceSize = in.UnknownPort, in.Unallocated, in.SliceSize
	if in.SliceSize < 1 || in.SliceSize > maxSliceSize {
		r.fault("cluster.max_endpoints_per_slice", "%d is out of range: expected 1 to %d", in.SliceSize, maxSliceSize)
	}
}

// maxSliceSize bounds the endpoints of an EndpointSlice, as Kubernetes' validation does.
const maxSliceSize = 1000

// addressRange checks that a range from which services get addresses is one of host addresses.
func (r *resolver) addressRange(path string, p netip.Prefix) {
	for _, reserved := range []string{"0.0.0.0/32", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "::/128", "::1/128", "fe80::/10", "ff00::/8"} {
		if q := netip.MustParsePrefix(reserved); p.Overlaps(q) {
			r.fault(path, "%v overlaps %v, which services cannot have addresses of", p, q)
			return
		}
	}
}

// overlapping returns the first of list that overlaps p.
func overlapping(p netip.Prefix, list []netip.Prefix) (netip.Prefix, bool) {
	for _, q := range list {
		if p.Overlaps(q) {
			return q, true
		}
	}
	return netip.Prefix{}, false
}

func (r *resolver) allNodes() {
	owner := map[netip.Addr]string{}
	for i := range r.in.Nodes {
		in, path := &r.in.Nodes[i], fmt.Sprintf("node[%d]", i)
		if in.Name == "" {
			r.fault(path+".name", "missing: expected the name of the node, as in gateway.node")
		} else if !isSubdomain(in.Name) {
			r.fault(path+".name", "node name %q is not a DNS name: expected lower-case labels", in.Name)
		} else if r.nodes[in.Name] != nil {
			r.fault(path+".name", "node %q is there twice", in.Name)
		}
		n := Node{Name: in.Name, Zone: in.Zone, Ready: in.Ready, ControlPlane: in.ControlPlane, CPU: in.CPU}
		if in.Zone != "" && !isLabelValue(in.Zone) {
			r.fault(path+".zone", "%q is not the name of a zone: expected up to 63 letters, digits, '-', '_' and '.'", in.Zone)
		}
		if !(in.CPU >= 0) || math.IsInf(in.CPU, 0) { // not a number is neither less nor more
			r.fault(path+".cpu", "%v is not a number of processors: expected 0 or more, like 8 or 7.5", in.CPU)
		}
		n.PodCIDRs = r.podCIDRs(path+".pod_cidrs", in.PodCIDRs)
		r.nodeAddresses(path, in.Addresses, &n, owner)
		r.out.Nodes = append(r.out.Nodes, n)
		if r.nodes[n.Name] == nil {
			r.nodes[n.Name] = &n
		}
	}
}

// nodeAddresses reads the addresses of a node, which must be nobody else's.
func (r *resolver) nodeAddresses(path string, list []string, n *Node, owner map[netip.Addr]string) {
	var paths []string
	n.Addresses, paths = r.addrs(path+".addresses", list)
	for i, a := range n.Addresses {
		if a.IsUnspecified() || a.IsMulticast() {
			r.fault(paths[i], "%v cannot be an address of a node", a)
		}
		if other, taken := owner[a]; taken {
			r.fault(paths[i], "%v belongs to node %q already", a, other)
		}
		if cidr, in := containing(a, r.out.Cluster.ServiceCIDRs); in {
			r.fault(paths[i], "%v is inside the service range %v, which is for ClusterIPs", a, cidr)
		}
		owner[a] = n.Name
	}
}

func (r *resolver) conntrack() {
	in, out := &r.in.Conntrack, &r.out.Conntrack
	const least, most = 1024, 1 << 26
	if in.MaxFlows < least || in.MaxFlows > most {
		r.fault("conntrack.max_flows", "%d is out of range: expected %d to %d", in.MaxFlows, least, most)
	}
	def := DefaultTimeouts()
	out.MaxFlows, out.TCPLiberal = in.MaxFlows, in.TCPLiberal
	out.Timeouts = Timeouts{
		TCPSyn:         r.duration("conntrack.tcp_syn", in.TCPSyn, def.TCPSyn),
		TCPEstablished: r.duration("conntrack.tcp_established", in.TCPEstablished, def.TCPEstablished),
		TCPHalfClosed:  r.duration("conntrack.tcp_half_closed", in.TCPHalfClosed, def.TCPHalfClosed),
		TCPTimeWait:    r.duration("conntrack.tcp_time_wait", in.TCPTimeWait, def.TCPTimeWait),
		TCPClose:       r.duration("conntrack.tcp_close", in.TCPClose, def.TCPClose),
		UDP:            r.duration("conntrack.udp", in.UDP, def.UDP),
		UDPStream:      r.duration("conntrack.udp_stream", in.UDPStream, def.UDPStream),
		ICMP:           r.duration("conntrack.icmp", in.ICMP, def.ICMP),
		SCTPSetup:      r.duration("conntrack.sctp_setup", in.SCTPSetup, def.SCTPSetup),
		SCTP:           r.duration("conntrack.sctp", in.SCTP, def.SCTP),
		SCTPShutdown:   r.duration("conntrack.sctp_shutdown", in.SCTPShutdown, def.SCTPShutdown),
	}
}

func (r *resolver) dns() {
	in, out := &r.in.DNS, &r.out.DNS
	if in.TTL < 0 || in.TTL > 3600 {
		r.fault("dns.ttl", "%d is out of range: expected 0 to 3600 seconds", in.TTL)
	}
	out.TTL = uint32(max(in.TTL, 0))
	r.dnsNames()
	r.search()
	r.forwarding()
	out.CookieSecrets = r.secrets("dns.cookie_secrets", in.CookieSecrets)
	out.TransferTo = r.hostsOrPrefixes("dns.transfer_to", in.TransferTo)
	out.ReverseZones = r.prefixes("dns.reverse_zones", in.ReverseZones)
	if len(in.ReverseZones) > 0 {
		return
	}
	zones := slices.Concat(r.out.Cluster.ServiceCIDRs, r.out.Gateway.PodCIDRs)
	for _, n := range r.out.Nodes {
		zones = append(zones, n.PodCIDRs...)
	}
	for _, z := range zones {
		if !slices.Contains(out.ReverseZones, z) {
			out.ReverseZones = append(out.ReverseZones, z)
		}
	}
}

func (r *resolver) namespaces() {
	seen := map[string]bool{}
	for i, n := range r.in.Namespaces {
		path := fmt.Sprintf("namespace[%d].name", i)
		r.labels(fmt.Sprintf("namespace[%d].labels", i), n.Labels)
		if !r.label(path, "namespace", n.Name) {
			continue
		}
		if seen[n.Name] {
			r.fault(path, "namespace %q is there twice", n.Name)
		}
		seen[n.Name] = true
		r.out.Namespaces = append(r.out.Namespaces, Namespace(n))
	}
	implied := func(ns string) { // one that only what is in it shows
		if !seen[ns] && isLabel(ns) {
			seen[ns] = true
			r.out.Namespaces = append(r.out.Namespaces, Namespace{Name: ns})
		}
	}
	for i := range r.in.Services {
		implied(r.in.Services[i].Namespace)
	}
	for i := range r.in.Pods {
		implied(r.in.Pods[i].Namespace)
	}
	slices.SortFunc(r.out.Namespaces, func(a, b Namespace) int { return strings.Compare(a.Name, b.Name) })
}
