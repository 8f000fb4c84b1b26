package zone

import (
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// zonal adds the names of a headless service by topology zone: ZONE.pin._zone has the endpoints of that zone and no others, so that
// for a zone without any it exists and has no data; ZONE.prefer._zone has all endpoints then.
func (c *compiler) zonal(s *topology.Service, text string, hosts []host) error {
	if !c.top.DNS.Zonal || len(hosts) == 0 {
		return nil
	}
	pin, err := under(text, "_zone", "pin")
	if err != nil {
		return err
	}
	prefer, err := under(text, "_zone", "prefer")
	if err != nil {
		return err
	}
	c.anyBelow(pin)
	rest := c.anyBelow(prefer)
	c.hostSets(rest, s, hosts)
	byZone := map[string][]host{}
	for _, h := range hosts {
		byZone[strings.ToLower(h.zone)] = append(byZone[strings.ToLower(h.zone)], h)
	}
	for z, some := range byZone {
		for _, parent := range []string{pin, prefer} {
			// A zone whose name is no label cannot be asked for.
			if at, err := under(parent, z); err == nil {
				c.hostSets(c.ensure(at), s, some)
			}
		}
	}
	return nil
}

// hostSets gives a name the addresses of hosts, and the SRV records of all ports of their service.
func (c *compiler) hostSets(n *name, s *topology.Service, hosts []host) {
	c.addresses(n, hosts)
	if rrs := srvRecords(s.Ports, hosts); len(rrs) > 0 {
		c.set(n, wire.TypeSRV, c.ttl, rrs...)
	}
}

// anyBelow returns what stands for every label directly below a name that does not exist as a name of its own.
func (c *compiler) anyBelow(text string) *name {
	n := c.ensure(text)
	n.below = &name{zone: n.zone}
	return n.below
}
