package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
)

const reverse4, reverse6 = "\x07in-addr\x04arpa\x00", "\x03ip6\x04arpa\x00"

func isReverse(text string) bool {
	return strings.HasSuffix(text, reverse4) || strings.HasSuffix(text, reverse6)
}

// spelledBy returns the addresses that a reverse name stands for: a single one, or for a name that is not complete all that begin so.
func spelledBy(text string) (netip.Prefix, bool) {
	head, four := strings.CutSuffix(text, reverse4)
	bytes, step, base := make([]byte, 4), 8, 10
	if !four {
		var six bool
		if head, six = strings.CutSuffix(text, reverse6); !six {
			return netip.Prefix{}, false
		}
		bytes, step, base = make([]byte, 16), 4, 16
	}
	labels := reversed(labelsOf(head + "\x00"))
	if len(labels)*step > len(bytes)*8 {
		return netip.Prefix{}, false
	}
	for i, l := range labels {
		n, err := strconv.ParseUint(l, base, step)
		if err != nil || strconv.FormatUint(n, base) != l {
			return netip.Prefix{}, false
		}
		at := i * step
		bytes[at/8] |= byte(n) << (8 - step - at%8)
	}
	a, _ := netip.AddrFromSlice(bytes) // of 4 or 16 bytes
	return netip.PrefixFrom(a, len(labels)*step), true
}

// ptr adds a PTR record if the address lies in a reverse zone.
func (t *tree) ptr(a netip.Addr, target, why string) {
	if n := t.reverse(a); n != nil {
		n.offer("PTR", target, why)
	}
}

// reverse returns the name for an address, nil if no zone is there for it.
func (t *tree) reverse(a netip.Addr) *node {
	if !slices.ContainsFunc(t.top.DNS.ReverseZones, func(p netip.Prefix) bool { return p.Contains(a) }) {
		return nil
	}
	name, err := mdns.ReverseAddr(a.String())
	if err != nil {
		return nil // every address that a topology has, has a name
	}
	n := t.ensure(mustName(name))
	n.kind, n.object, n.note = "address", a.String(), "spelled by the name"
	return n
}

// clusterPTRs adds the PTR records of ClusterIPs, which take the place of those of endpoints.
func (t *tree) clusterPTRs(svc string) {
	for i := range t.top.Services {
		s := &t.top.Services[i]
		if s.Type == topology.ExternalName || !t.top.DNS.Shows(s.Namespace) {
			continue
		}
		for _, a := range s.ClusterIPs {
			if n := t.reverse(a); n != nil {
				n.offers = slices.DeleteFunc(n.offers, func(o offer) bool { return o.typ == "PTR" })
				n.offer("PTR", dotted(under(svc, s.Namespace, s.Name)), "ClusterIP of service "+s.Key())
			}
		}
	}
}

// readReverse notes which address a reverse name spells and who has it. It returns the name's node, nil if it does not exist.
func (e *explainer) readReverse(text string, spelled netip.Prefix) *node {
	n := e.names[text]
	there := e.exists(n)
	switch {
	case text == e.zoneOf(text):
	case !spelled.IsSingleIP() && there:
		e.step("addresses", spelled.String(), "the name is not complete, and names of single addresses are below it")
	case !spelled.IsSingleIP():
		e.step("addresses", spelled.String(), "the name is not complete, and no address that begins so has a name")
	case there:
		e.step("address", spelled.Addr().String(), "spelled by the name")
	default:
		e.step("missing", spelled.Addr().String(), e.nobody(spelled.Addr()))
	}
	if !there {
		return nil
	}
	return n
}

// nobody says why an address has no PTR record.
func (t *tree) nobody(a netip.Addr) string {
	if owners := t.owners(a); len(owners) > 0 {
		return "it has no PTR record: " + strings.Join(owners, "; ")
	}
	for _, p := range t.top.Cluster.ServiceCIDRs {
		if p.Contains(a) {
			return fmt.Sprintf("it is in the service range %v, and not allocated", p)
		}
	}
	for _, n := range t.top.Nodes {
		for _, p := range n.PodCIDRs {
			if p.Contains(a) {
				return fmt.Sprintf("it is in the pod range %v of node %s, and no endpoint has it", p, n.Name)
			}
		}
	}
	for _, p := range t.top.Gateway.PodCIDRs {
		if p.Contains(a) {
			return fmt.Sprintf("it is in the pod range %v of gateway.pod_cidrs, and no endpoint has it", p)
		}
	}
	return "no service and no endpoint has it"
}

// owners says who has an address without a PTR record, and why that makes none.
func (t *tree) owners(a netip.Addr) (out []string) {
	for i := range t.top.Services {
		s := &t.top.Services[i]
		hidden := !t.top.DNS.Shows(s.Namespace)
		switch {
		case hidden && slices.Contains(slices.Concat(s.ClusterIPs, externalAddrs(s)), a):
			out = append(out, fmt.Sprintf("service %s has it, and its namespace is hidden by dns.namespaces", s.Key()))
		case slices.Contains(externalAddrs(s), a):
			out = append(out, fmt.Sprintf("service %s has it outside, and dns.external_zone is not set", s.Key()))
		}
		for j := range s.Endpoints {
			if ep := &s.Endpoints[j]; ep.Address == a {
				out = append(out, t.silent(s, ep))
			}
		}
	}
	for i := range t.top.Pods {
		if p := &t.top.Pods[i]; slices.Contains(p.Addresses, a) && len(out) == 0 {
			out = append(out, fmt.Sprintf("pod %s/%s has it, which is no endpoint of a service", p.Namespace, p.Name))
		}
	}
	for _, n := range t.top.Nodes {
		if slices.Contains(n.Addresses, a) {
			out = append(out, fmt.Sprintf("node %s has it, and nodes have no names", n.Name))
		}
	}
	return slices.Compact(out)
}

// silent says why an endpoint has no name.
func (t *tree) silent(s *topology.Service, e *topology.Endpoint) string {
	why := "is not ready"
	switch {
	case !t.top.DNS.Shows(s.Namespace):
		why = "is in a namespace that dns.namespaces hides"
	case t.top.DNS.NoEndpoints:
		why = "has no name: dns.no_endpoints is set"
	}
	return fmt.Sprintf("endpoint %v of service %s %s", e.Address, s.Key(), why)
}
