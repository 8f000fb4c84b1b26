package zone

import (
	"net/netip"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// search knows the search paths of pods, for a server that follows them (autopath). It is empty when that is off.
type search struct {
	first map[netip.Addr]string // the first element of a pod's path in wire form, by its address
	rest  []string              // what follows in all paths, the root at the end
	ttl   uint32
}

// searchPaths gathers the search paths. An address of two namespaces, or of a node whose network pods share, says nothing of who asks.
func searchPaths(t *topology.Topology, domain string) (search, error) {
	if !t.DNS.Autopath {
		return search{}, nil
	}
	s := search{ttl: t.DNS.TTL, first: map[netip.Addr]string{}, rest: []string{"\x03svc" + domain, domain}}
	for _, text := range t.DNS.Search {
		name, err := wire.Name(text)
		if err != nil {
			return search{}, err
		}
		s.rest = append(s.rest, name)
	}
	s.rest = append(s.rest, "\x00")
	for i := range t.Pods {
		s.pod(&t.Pods[i], domain)
	}
	for i := range t.Nodes {
		for _, a := range t.Nodes[i].Addresses {
			delete(s.first, a)
		}
	}
	for a, first := range s.first {
		if first == "" {
			delete(s.first, a)
		}
	}
	return s, nil
}

// pod adds the addresses of a pod. Those of two namespaces are marked by an empty element.
func (s *search) pod(p *topology.Pod, domain string) {
	if p.Ended() {
		return
	}
	first := label(p.Namespace) + "\x03svc" + domain
	for _, a := range p.Addresses {
		if other, ok := s.first[a]; ok && other != first {
			s.first[a] = ""
		} else {
			s.first[a] = first
		}
	}
}

// Searched returns what a user inside a pod has typed, in wire form without the root, if the name asked for is that with the first
// element of the pod's search path behind it. It is nil for clients that are no pods, and when search paths are not followed.
func (z *Zones) Searched(q *wire.Question, client netip.Addr) (typed []byte) {
	first, ok := z.search.first[client]
	name := q.Name()
	cut := len(name) - len(first)
	if !ok || cut <= 0 || string(name[cut:]) != first {
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
func (z *Zones) SearchRest() (elements []string, ttl uint32) { return z.search.rest, z.search.ttl }
