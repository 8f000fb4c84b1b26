package zone

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// services adds the records of all namespaces and services that are shown.
func (c *compiler) services() error {
	svc, pod := "\x03svc"+c.domain, "\x03pod"+c.domain
	c.level(svc)
	c.level(pod)
	for _, ns := range c.top.Namespaces {
		if !c.top.DNS.Shows(ns.Name) || !c.only.namespace(ns.Name) {
			continue
		}
		for _, parent := range []string{svc, pod} {
			text, err := under(parent, ns.Name)
			if err != nil {
				return fmt.Errorf("namespace %s: %w", ns.Name, err)
			}
			c.level(text)
		}
	}
	for i := range c.top.Services {
		s := &c.top.Services[i]
		if !c.top.DNS.Shows(s.Namespace) {
			continue
		}
		if !c.only.service(s) {
			c.sharedPTRs(s, svc)
			continue
		}
		text, err := under(svc, s.Namespace, s.Name)
		if err == nil {
			err = c.service(s, text)
		}
		if err != nil {
			return fmt.Errorf("service %s: %w", s.Key(), err)
		}
	}
	c.clusterPTRs()
	return nil
}

// level adds a name that exists without records.
func (c *compiler) level(text string) *name {
	n := c.ensure(text)
	n.level = true
	return n
}

// under returns the name whose labels, the leftmost last, stand before parent.
func under(parent string, labels ...string) (string, error) {
	for _, l := range labels {
		if len(l) == 0 || len(l) > wire.MaxLabel {
			return "", fmt.Errorf("label %q: %w", l, wire.ErrLabel)
		}
		parent = string(byte(len(l))) + l + parent
	}
	if len(parent) > wire.MaxName {
		return "", fmt.Errorf("%q and its parents: %w", labels[len(labels)-1], wire.ErrName)
	}
	return parent, nil
}

// service adds the records of one service, whose name is text. A headless one whose endpoints are all unready has no name.
func (c *compiler) service(s *topology.Service, text string) error {
	if s.Type == topology.ExternalName {
		target, err := wire.Name(s.ExternalName)
		if err != nil {
			return fmt.Errorf("external name: %w", err)
		}
		c.set(c.ensure(text), wire.TypeCNAME, c.ttl, rr{target: target})
		return nil
	}
	if !s.Headless {
		if c.top.DNS.IgnoreEmpty && !slices.ContainsFunc(s.Endpoints, published(s)) {
			return nil
		}
		c.ensure(text) // also without an address
	}
	hosts, err := c.endpoints(s, text)
	if err != nil {
		return err
	}
	if !s.Headless {
		hosts = addressHosts(text, s, s.ClusterIPs)
	}
	if len(hosts) > 0 {
		c.addresses(c.ensure(text), hosts)
	}
	if err := c.srv(text, s.Ports, hosts); err != nil || !s.Headless {
		return err
	}
	return c.zonal(s, text, hosts)
}

// published returns what tells the endpoints of a service that have names from those that have none.
func published(s *topology.Service) func(topology.Endpoint) bool {
	return func(e topology.Endpoint) bool { return e.Ready || s.PublishNotReady }
}

// addressHosts returns a host for each address of a service itself, whose name is text.
func addressHosts(text string, s *topology.Service, addrs []netip.Addr) (hosts []host) {
	for _, a := range addrs {
		hosts = append(hosts, host{name: text, addr: a, ports: servicePorts(s)})
	}
	return hosts
}

// host is one address that SRV records lead to: the name that has it, and its port for each port of the service by name.
type host struct {
	name  string
	addr  netip.Addr
	zone  string // topology zone, "" when unknown
	ports map[string]uint16
}

func servicePorts(s *topology.Service) map[string]uint16 {
	ports := make(map[string]uint16, len(s.Ports))
	for _, p := range s.Ports {
		ports[p.Name] = p.Port
	}
	return ports
}

// addresses adds the A and AAAA records of hosts. One outside the cluster, of which the name alone is known, has none.
func (c *compiler) addresses(n *name, hosts []host) {
	for _, h := range hosts {
		if h.addr.IsValid() {
			c.address(n, h.addr)
		}
	}
}

// endpoints adds the names of the ready endpoints; they exist under services with a ClusterIP as well, which goes beyond the
// specification and is relied on.
func (c *compiler) endpoints(s *topology.Service, text string) (hosts []host, err error) {
	if c.top.DNS.NoEndpoints {
		return nil, nil
	}
	shown := published(s)
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !shown(*e) {
			continue
		}
		h := host{addr: e.Address, zone: e.Zone, ports: e.Ports}
		if h.name, err = under(text, c.hostLabel(e)); err != nil {
			return nil, fmt.Errorf("endpoint %v: %w", e.Address, err)
		}
		c.address(c.ensure(h.name), e.Address)
		c.ptr(e.Address, h.name)
		hosts = append(hosts, h)
	}
	c.hostSRV(s, hosts)
	return hosts, nil
}

// hostLabel returns the label of an endpoint: its hostname, or its pod's name if that is asked for and one label, or its address.
func (c *compiler) hostLabel(e *topology.Endpoint) string {
	switch {
	case e.Hostname != "":
		return e.Hostname
	case c.top.DNS.PodNames && e.Pod != "" && len(e.Pod) <= wire.MaxLabel && !strings.Contains(e.Pod, "."):
		return e.Pod
	}
	return dashed(e.Address)
}

// hostSRV lets a host answer for its ports under its own name. There are no names of ports below it (kubernetes/dns#184).
func (c *compiler) hostSRV(s *topology.Service, hosts []host) {
	byName := make(map[string][]host, len(hosts))
	for _, h := range hosts {
		byName[h.name] = append(byName[h.name], h)
	}
	for text, same := range byName {
		c.srvSet(text, s.Ports, same)
	}
}

// dashed returns the label for an address: 172-24-1-21, fd42--9. A label may not end in '-', so that one of an IPv6 address
// which ends in "::" gets a 0.
func dashed(a netip.Addr) string {
	var buf [64]byte
	b := a.AppendTo(buf[:0])
	for i, c := range b {
		if c == '.' || c == ':' {
			b[i] = '-'
		}
	}
	if bytes.HasSuffix(b, []byte("-")) {
		b = append(b, '0')
	}
	return string(b)
}

// srv adds the SRV records of a service: for each named port under _port._protocol, and for all ports, unnamed ones included,
// under the service itself, which is an extension that peer finders use.
func (c *compiler) srv(text string, ports []topology.Port, hosts []host) error {
	if len(hosts) == 0 {
		return nil
	}
	c.srvSet(text, ports, hosts)
	return c.portSRV(text, ports, hosts)
}

// portSRV adds the SRV records under the names of ports.
func (c *compiler) portSRV(text string, ports []topology.Port, hosts []host) error {
	for i, p := range ports {
		if p.Name == "" {
			continue
		}
		at, err := under(text, "_"+strings.ToLower(string(p.Protocol)), "_"+p.Name)
		if err != nil {
			return fmt.Errorf("SRV record of port %s: %w", p.Name, err)
		}
		c.srvSet(at, ports[i:i+1], hosts)
		if c.top.DNS.Compat {
			c.addresses(c.ensure(at), hosts)
		}
	}
	return nil
}

// srvSet adds the SRV records of hosts and ports, if there are any.
func (c *compiler) srvSet(at string, ports []topology.Port, hosts []host) {
	if rrs := srvRecords(ports, hosts); len(rrs) > 0 {
		c.set(c.ensure(at), wire.TypeSRV, c.ttl, rrs...)
	}
}

// srvRecords returns an SRV record for each pair of a host and a port. Priority is 0. Every pair has the same weight, 100 shared by
// all; two addresses of one host are two pairs and one record.
func srvRecords(ports []topology.Port, hosts []host) (rrs []rr) {
	for _, h := range hosts {
		for _, p := range ports {
			if number, ok := h.ports[p.Name]; ok {
				rrs = append(rrs, rr{data: string([]byte{0, 0, 0, 0, byte(number >> 8), byte(number)}), target: h.name})
			}
		}
	}
	var weight [2]byte
	binary.BigEndian.PutUint16(weight[:], uint16(max(1, 100/max(1, len(rrs)))))
	for i := range rrs {
		rrs[i].data = rrs[i].data[:2] + string(weight[:]) + rrs[i].data[4:]
	}
	return rrs
}
