package zone

import (
	"fmt"
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// externalServer is the name of the server in the external zone, without the apex. It differs from that of the others since both
// stand for addresses of their own.
const externalServer = "\x03ns1\x03dns"

// externalApex returns the apex of the zone of the addresses that services have outside, "" if there is to be none.
func externalApex(t *topology.Topology) (string, error) {
	if t.DNS.ExternalZone == "" {
		return "", nil
	}
	apex, err := wire.Name(t.DNS.ExternalZone)
	if err != nil {
		return "", fmt.Errorf("dns.external_zone: %w", err)
	}
	return apex, nil
}

// externals adds the names of all services that are shown and have something outside, and of their namespaces.
func (c *compiler) externals() error {
	if c.external == "" {
		return nil
	}
	for _, ns := range c.top.Namespaces {
		if !c.top.DNS.Shows(ns.Name) || !c.only.namespace(ns.Name) {
			continue
		}
		text, err := under(c.external, ns.Name)
		if err != nil {
			return fmt.Errorf("namespace %s in dns.external_zone: %w", ns.Name, err)
		}
		c.level(text)
	}
	for i := range c.top.Services {
		s := &c.top.Services[i]
		if !c.top.DNS.Shows(s.Namespace) || !c.only.service(s) && !slices.ContainsFunc(externalAddrs(s), c.shared) {
			continue
		}
		if err := c.outside(s); err != nil {
			return fmt.Errorf("service %s in dns.external_zone: %w", s.Key(), err)
		}
	}
	return nil
}

// outside adds the records of one service: its addresses with their PTR records, or where it has none the name that a cloud gave to
// its load balancer.
func (c *compiler) outside(s *topology.Service) error {
	addrs := externalAddrs(s)
	if len(addrs) == 0 && len(s.LoadBalancerHostnames) == 0 {
		return nil
	}
	text, err := under(c.external, s.Namespace, s.Name)
	if err != nil {
		return err
	}
	if len(addrs) == 0 {
		return c.balancer(s, text)
	}
	for _, a := range addrs {
		if c.only.service(s) || c.shared(a) {
			c.ptr(a, text)
		}
	}
	if !c.only.service(s) {
		return nil
	}
	hosts := addressHosts(text, s, addrs)
	c.addresses(c.ensure(text), hosts)
	return c.srv(text, s.Ports, hosts)
}

// balancer adds the records of a service whose load balancer has a name and no address. A name can be an alias of one other.
func (c *compiler) balancer(s *topology.Service, text string) error {
	target, err := wire.Name(s.LoadBalancerHostnames[0])
	if err != nil {
		return fmt.Errorf("load_balancer_hostnames[0]: %w", err)
	}
	c.set(c.ensure(text), wire.TypeCNAME, c.ttl, rr{target: target})
	return c.portSRV(text, s.Ports, []host{{name: target, ports: servicePorts(s)}})
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
