package explain

import (
	"fmt"
	"net/netip"
	"slices"

	"sluice/config/topology"
)

// externals adds the names of the external zone, if there is one.
func (t *tree) externals() {
	if t.top.DNS.ExternalZone == "" {
		return
	}
	apex := mustName(t.top.DNS.ExternalZone)
	zone := t.ensure(apex)
	zone.below = missingNamespace
	for _, ns := range t.top.Namespaces {
		t.namespace(zone, ns.Name, count(t.servicesOf[ns.Name], "service"), missingService(ns.Name))
	}
	for i := range t.top.Services {
		if s := &t.top.Services[i]; t.top.DNS.Shows(s.Namespace) {
			t.outside(s, under(apex, s.Namespace, s.Name))
		}
	}
}

// outside adds the names of one service in the external zone.
func (t *tree) outside(s *topology.Service, text string) {
	addrs := externalAddrs(s)
	if len(addrs) == 0 && len(s.LoadBalancerHostnames) == 0 {
		t.absent[text] = fmt.Sprintf("service %q has nothing outside: no external IP, no load-balancer address and no name of one", s.Key())
		return
	}
	n := t.ensure(text)
	n.kind, n.object = "service", s.Key()
	n.below = func(string) string { return "no such protocol with named ports; " + ports(s) }
	hosts := addressHosts(text, s, addrs, "external IP or load-balancer address of service "+s.Key())
	if len(addrs) == 0 {
		balancer := dotted(mustName(s.LoadBalancerHostnames[0]))
		n.note = "outside: a load balancer with a name, " + balancer
		n.offer("CNAME", balancer, "load_balancer_hostnames of service "+s.Key())
		hosts = addressHosts(mustName(s.LoadBalancerHostnames[0]), s, []netip.Addr{{}}, "load balancer of service "+s.Key())
	} else {
		n.note = "outside: " + addresses(addrs)
		n.srv(s.Ports, hosts)
	}
	for _, h := range hosts {
		if h.addr.IsValid() {
			n.address(h.addr, h.what)
			t.ptr(h.addr, dotted(text), h.what)
		}
	}
	t.ports(s, text, hosts)
}

// externalAddrs returns the addresses that a service has outside the cluster.
func externalAddrs(s *topology.Service) (out []netip.Addr) {
	for _, a := range slices.Concat(s.ExternalIPs, s.LoadBalancerIPs) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}
