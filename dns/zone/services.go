package zone

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// services adds the records of all namespaces and services.
func (c *compiler) services(domain string) error {
	svc, pod := "\x03svc"+domain, "\x03pod"+domain
	c.ensure(svc)
	c.ensure(pod)
	for _, ns := range c.top.Namespaces {
		for _, parent := range []string{svc, pod} {
			text, err := under(parent, ns.Name)
			if err != nil {
				return fmt.Errorf("namespace %s: %w", ns.Name, err)
			}
			c.ensure(text)
		}
	}
	for i := range c.top.Services {
		s := &c.top.Services[i]
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
		c.clusterIP(s, text)
	}
	hosts, err := c.endpoints(s, text)
	if err != nil {
		return err
	}
	if s.Headless {
		return c.srv(text, s.Ports, hosts)
	}
	var own []host
	for range s.ClusterIPs {
		own = append(own, host{text, servicePorts(s)})
	}
	return c.srv(text, s.Ports, own)
}

// host is one address that SRV records lead to: the name that has it, and its port for each port of the service by name.
type host struct {
	name  string
	ports map[string]uint16
}

func servicePorts(s *topology.Service) map[string]uint16 {
	ports := make(map[string]uint16, len(s.Ports))
	for _, p := range s.Ports {
		ports[p.Name] = p.Port
	}
	return ports
}

func (c *compiler) clusterIP(s *topology.Service, text string) {
	n := c.ensure(text)
	for _, a := range s.ClusterIPs {
		c.address(n, a)
	}
}

// endpoints adds the names of the ready endpoints; they exist under services with a ClusterIP as well, which goes beyond the
// specification and is relied on. Addresses without a hostname are named after themselves.
func (c *compiler) endpoints(s *topology.Service, text string) (hosts []host, err error) {
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if !e.Ready && !s.PublishNotReady {
			continue
		}
		label := e.Hostname
		if label == "" {
			label = dashed(e.Address)
		}
		h := host{ports: e.Ports}
		if h.name, err = under(text, label); err != nil {
			return nil, fmt.Errorf("endpoint %v: %w", e.Address, err)
		}
		c.address(c.ensure(h.name), e.Address)
		if s.Headless {
			c.address(c.ensure(text), e.Address)
		}
		c.ptr(e.Address, h.name)
		hosts = append(hosts, h)
	}
	c.hostSRV(s, hosts)
	return hosts, nil
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
	s := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	return s
}

// srv adds the SRV records of a service: for each named port under _port._protocol, and for all ports, unnamed ones included,
// under the service itself, which is an extension that peer finders use.
func (c *compiler) srv(text string, ports []topology.Port, hosts []host) error {
	if len(hosts) == 0 {
		return nil
	}
	c.srvSet(text, ports, hosts)
	for i, p := range ports {
		if p.Name == "" {
			continue
		}
		at, err := under(text, "_"+strings.ToLower(string(p.Protocol)), "_"+p.Name)
		if err != nil {
			return fmt.Errorf("SRV record of port %s: %w", p.Name, err)
		}
		c.srvSet(at, ports[i:i+1], hosts)
	}
	return nil
}

// srvSet adds an SRV record for each pair of a host and a port, if there are any. Priority is 0. Every pair has the same weight,
// 100 shared by all; two addresses of one host are two pairs and one record.
func (c *compiler) srvSet(at string, ports []topology.Port, hosts []host) {
	var rrs []rr
	for _, h := range hosts {
		for _, p := range ports {
			if number, ok := h.ports[p.Name]; ok {
				rrs = append(rrs, rr{data: string([]byte{0, 0, 0, 0, byte(number >> 8), byte(number)}), target: h.name})
			}
		}
	}
	if len(rrs) == 0 {
		return
	}
	var weight [2]byte
	binary.BigEndian.PutUint16(weight[:], uint16(max(1, 100/len(rrs))))
	for i := range rrs {
		rrs[i].data = rrs[i].data[:2] + string(weight[:]) + rrs[i].data[4:]
	}
	c.set(c.ensure(at), wire.TypeSRV, c.ttl, rrs...)
}
