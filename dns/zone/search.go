package zone

import (
	"net/netip"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// search knows the search paths of pods, for a server that follows them (autopath). It is immutable; nil when that is off.
type search struct {
	first *addrTable // which of elements is the first of a pod's path, by its address
	// elements are these in wire form, one for each namespace, behind one that stands for none: of an address that is of two
	// namespaces, or of a node whose network pods share, nothing is known of who asks.
	elements []string
	rest     []string // what follows in all paths, the root at the end
	ttl      uint32
}

// searchPaths gathers the search paths.
func searchPaths(t *topology.Topology, domain string) (*search, error) {
	if !t.DNS.Autopath {
		return nil, nil
	}
	s := &search{ttl: t.DNS.TTL, first: newAddrTable(len(t.Pods)), elements: []string{""}, rest: []string{"\x03svc" + domain, domain}}
	for _, text := range t.DNS.Search {
		name, err := wire.Name(text)
		if err != nil {
			return nil, err
		}
		s.rest = append(s.rest, name)
	}
	s.rest = append(s.rest, "\x00")
	known := map[string]uint32{}
	for i := range t.Pods {
		if p := &t.Pods[i]; !p.Ended() {
			s.pod(p, known, domain)
		}
	}
	for i := range t.Nodes {
		for _, a := range t.Nodes[i].Addresses {
			*s.first.put(a) = 0
		}
	}
	return s, nil
}

// pod adds the addresses of a pod. known has the numbers of elements by namespace.
func (s *search) pod(p *topology.Pod, known map[string]uint32, domain string) {
	number, ok := known[p.Namespace]
	if !ok {
		number = uint32(len(s.elements))
		known[p.Namespace] = number
		s.elements = append(s.elements, label(p.Namespace)+"\x03svc"+domain)
	}
	for _, a := range p.Addresses {
		before := s.first.count
		if element := s.first.put(a); s.first.count > before {
			*element = number
		} else if *element != number {
			*element = 0
		}
	}
}

// Searched returns what a user inside a pod has typed, in wire form without the root, if the name asked for is that with the first
// element of the pod's search path behind it. It is nil for clients that are no pods, and when search paths are not followed.
func (z *Zones) Searched(q *wire.Question, client netip.Addr) (typed []byte) {
	if z.search == nil {
		return nil
	}
	first := z.search.elements[z.search.first.get(client)]
	name := q.Name()
	cut := len(name) - len(first)
	if first == "" || cut <= 0 || string(name[cut:]) != first {
		return nil
	}
	at := 0
	for at < cut {
		at += 1 + int(name[at])
	}
	if at != cut { // the end of a longer label looks like the first one of the element
		return nil
	}
	return name[:cut]
}

// SearchRest returns the elements of a search path behind the first, in wire form, the root at the end, and for how many seconds a client
// may remember what was found by them.
func (z *Zones) SearchRest() (elements []string, ttl uint32) {
	if z.search == nil {
		return nil, 0
	}
	return z.search.rest, z.search.ttl
}
