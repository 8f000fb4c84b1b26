package zone

import (
	"net/netip"
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// selection is the parts of a topology whose names are gathered: these with everything that adds to them. nil stands for all.
type selection struct {
	services   map[serviceKey]bool
	addrs      *addrSet // for their PTR records
	podAddrs   *addrSet // for the names of pods
	namespaces map[string]bool
	apexes     map[string]bool // for the NS records of the zone, and the addresses of its server
}

type serviceKey struct{ namespace, name string }

func keyOf(s *topology.Service) serviceKey { return serviceKey{s.Namespace, s.Name} }

func newSelection() *selection {
	return &selection{map[serviceKey]bool{}, newAddrSet(), newAddrSet(), map[string]bool{}, map[string]bool{}}
}

func (s *selection) service(t *topology.Service) bool {
	return s == nil || len(s.services) > 0 && s.services[keyOf(t)]
}
func (s *selection) podAddr(a netip.Addr) bool  { return s == nil || s.podAddrs.has(a) }
func (s *selection) namespace(name string) bool { return s == nil || s.namespaces[name] }
func (s *selection) apex(apex string) bool      { return s == nil || s.apexes[apex] }

// size returns how much is selected.
func (s *selection) size() int {
	return len(s.services) + len(s.addrs.all) + len(s.podAddrs.all) + len(s.namespaces) + len(s.apexes)
}

// owners adds all that may have a part in a name, and reports whether it lies inside a service, or spells an address.
func (s *selection) owners(c *compiler, text string) (inside bool) {
	if labels := labelsBelow(text, "\x03svc"+c.domain); len(labels) > 0 {
		inside = s.owner(labels)
	}
	if labels := labelsBelow(text, c.external); len(labels) > 0 {
		inside = s.owner(labels) || inside
	}
	if labels := labelsBelow(text, "\x03pod"+c.domain); len(labels) > 0 {
		if len(labels) == 1 {
			s.namespaces[labels[0]] = true
		} else {
			a, ok := undashed([]byte(labels[len(labels)-2]))
			if inside = ok || inside; ok {
				s.podAddrs.add(a)
			}
		}
	}
	if a, ok := reversed(text); ok {
		s.addrs.add(a)
		inside = true
	}
	s.apexOwner(c, text)
	return inside
}

// owner adds the namespace or the service that labels begin with, from the right.
func (s *selection) owner(labels []string) (inside bool) {
	n := len(labels)
	if n == 1 {
		s.namespaces[labels[0]] = true
		return false
	}
	s.services[serviceKey{labels[n-1], labels[n-2]}] = true
	return true
}

// apexOwner adds the zone whose apex or name server a name is.
func (s *selection) apexOwner(c *compiler, text string) {
	for _, server := range []string{"", nameServer, externalServer} {
		if apex, ok := strings.CutPrefix(text, server); ok {
			if _, ok := c.apexes[apex]; ok {
				s.apexes[apex] = true
			}
		}
	}
}

// labelsBelow returns the labels of a name in front of a parent; none if it does not lie below it.
func labelsBelow(text, parent string) (labels []string) {
	if parent == "" || !strings.HasSuffix(text, parent) {
		return nil
	}
	for at := text; at != parent; at = wire.Parent(at) {
		if len(at) < len(parent) || at == "\x00" {
			return nil
		}
		labels = append(labels, at[1:1+int(at[0])])
	}
	return labels
}

// grow adds what has a part in the names that were gathered, and what these refer to. PTR records refer to names without depending
// on them.
func (s *selection) grow(c *compiler) {
	for text, n := range c.names {
		if !n.own {
			continue
		}
		s.owners(c, text)
		for i := range n.sets {
			if n.sets[i].typ == wire.TypePTR {
				continue
			}
			for _, r := range n.sets[i].rrs {
				if r.target == "" || r.target == text {
					continue
				}
				s.owners(c, r.target)
				if n.sets[i].typ == wire.TypeCNAME {
					s.owners(c, wire.Parent(r.target)) // it may have names without number below it
				}
			}
		}
	}
}

// alias is a service whose name is an alias, or whose load balancer is somewhere else, in our zones.
type alias struct {
	key     serviceKey
	targets *selection // what has a part in the name that it leads to
	always  bool       // what that name says does not depend on these alone
}

// aliases returns those of the topology.
func (c *compiler) aliases() (out []alias) {
	for i := range c.top.Services {
		s := &c.top.Services[i]
		text := s.ExternalName
		if s.Type != topology.ExternalName {
			if c.external == "" || len(s.LoadBalancerHostnames) == 0 {
				continue
			}
			text = s.LoadBalancerHostnames[0]
		}
		target, err := wire.Name(text)
		if err != nil || c.zoneOf(target) == nil {
			continue // a fault is found when the service is gathered
		}
		a := alias{key: keyOf(s), targets: newSelection()}
		a.always = !a.targets.owners(c, target)
		a.targets.owners(c, wire.Parent(target))
		out = append(out, a)
	}
	return out
}

// follow adds the services among aliases that lead to what is selected.
func (s *selection) follow(aliases []alias) {
	for again := true; again; {
		again = false
		for i := range aliases {
			if a := &aliases[i]; !s.services[a.key] && (a.always || s.meets(a.targets)) {
				s.services[a.key], again = true, true
			}
		}
	}
}

// meets reports whether something is in both selections, but for zones.
func (s *selection) meets(o *selection) bool {
	return overlap(s.services, o.services) || overlap(s.addrs.all, o.addrs.all) || overlap(s.podAddrs.all, o.podAddrs.all) ||
		overlap(s.namespaces, o.namespaces)
}

func overlap[K comparable](a, b map[K]bool) bool {
	for k := range b {
		if a[k] {
			return true
		}
	}
	return false
}
