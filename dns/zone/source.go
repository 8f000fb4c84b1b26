package zone

import (
	"encoding/binary"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	"sluice/config/topology"
)

// source is what the zones were compiled from: of a topology what names and records depend on, in few blocks of memory. Whoever keeps the
// zones does not keep the topology, which is many times as large.
type source struct {
	dns             topology.DNS
	domain, node    string
	namespaces      []string
	inside, outside []netip.Addr // see serverAddrs
	services        []byte       // see appendService, in the order of the topology
	starts          []uint32     // where each begins in services
	sorted          bool         // services are in the order of their keys, each once
	pods            []byte       // see appendPod; none unless something depends on them
	nodes           []netip.Addr // addresses of nodes, for search paths that are followed
}

// sourceOf takes over a topology, which will have about the size of the one before; nil if there is none.
func sourceOf(t *topology.Topology, before *source) *source {
	s := &source{dns: t.DNS, domain: t.Cluster.Domain, node: t.Gateway.Node, sorted: true, starts: make([]uint32, 0, len(t.Services))}
	if before != nil {
		s.services, s.pods = alike(before.services), alike(before.pods)
	}
	s.inside, s.outside = serverAddrs(t)
	s.inside, s.outside = slices.Clone(s.inside), slices.Clone(s.outside)
	for i := range t.Namespaces {
		s.namespaces = append(s.namespaces, t.Namespaces[i].Name)
	}
	for i := range t.Services {
		s.starts = append(s.starts, uint32(len(s.services)))
		s.services = appendService(s.services, &t.DNS, &t.Services[i])
		s.sorted = s.sorted && (i == 0 || compareKeys(keyOf(&t.Services[i-1]), keyOf(&t.Services[i])) < 0)
	}
	if t.DNS.Pods == topology.PodsVerified || t.DNS.Autopath {
		for i := range t.Pods {
			s.pods = appendPod(s.pods, &t.Pods[i])
		}
	}
	for i := range t.Nodes {
		if t.DNS.Autopath {
			s.nodes = append(s.nodes, t.Nodes[i].Addresses...)
		}
	}
	s.services, s.pods = trim(s.services), trim(s.pods)
	return s
}

// alike returns room for what is about as long as b.
func alike(b []byte) []byte { return make([]byte, 0, len(b)+len(b)/64+512) }

// trim gives back the room that was left for more, if it is much.
func trim(b []byte) []byte {
	if cap(b)-len(b) <= len(b)/16+1024 {
		return b
	}
	return slices.Clone(b)
}

// compareKeys compares as Service.Key does. No namespace has a slash.
func compareKeys(a, b serviceKey) int {
	if a.namespace == b.namespace {
		return strings.Compare(a.name, b.name)
	}
	return strings.Compare(a.namespace+"/", b.namespace+"/")
}

// sameRules reports whether the names of two topologies follow the same rules, so that what differs between both can be told object by
// object.
func (s *source) sameRules(o *source) bool {
	return s.domain == o.domain && s.node == o.node && s.sorted && o.sorted && reflect.DeepEqual(&s.dns, &o.dns)
}

// service returns the i-th service as bytes.
func (s *source) service(i int) []byte {
	if i+1 < len(s.starts) {
		return s.services[s.starts[i]:s.starts[i+1]]
	}
	return s.services[s.starts[i]:]
}

// key returns the key of the i-th service.
func (s *source) key(i int) serviceKey {
	r := reader{s.service(i)}
	return serviceKey{r.text(), r.text()}
}

// find returns the position of a service.
func (s *source) find(key serviceKey) (int, bool) {
	low, high := 0, len(s.starts)
	for low < high {
		middle := (low + high) / 2
		switch order := compareKeys(s.key(middle), key); {
		case order == 0:
			return middle, true
		case order < 0:
			low = middle + 1
		default:
			high = middle
		}
	}
	return 0, false
}

// selected returns a topology of what is selected. Pods have no names of their own.
func (s *source) selected(only *selection) *topology.Topology {
	t := &topology.Topology{DNS: s.dns, Cluster: topology.Cluster{Domain: s.domain}}
	for _, name := range s.namespaces {
		t.Namespaces = append(t.Namespaces, topology.Namespace{Name: name})
	}
	var at []int
	for key := range only.services {
		if i, ok := s.find(key); ok {
			at = append(at, i)
		}
	}
	slices.Sort(at)
	for _, i := range at {
		r := reader{s.service(i)}
		t.Services = append(t.Services, r.service())
	}
	if len(only.podAddrs.all) == 0 {
		return t
	}
	for rest := s.pods; len(rest) > 0; {
		var one []byte
		one, rest = cutPod(rest)
		if podHas(one, only.podAddrs) {
			r := reader{one[podHead:]}
			t.Pods = append(t.Pods, r.pod())
		}
	}
	return t
}

// podHas reports whether a pod has one of some addresses.
func podHas(pod []byte, addrs *addrSet) bool {
	r := reader{pod[podHead:]}
	r.take(int(r.number())) // its namespace
	for range r.number() {
		if addrs.has(r.addr()) {
			return true
		}
	}
	return false
}

// podHead is the length of what stands before a pod: its own length in two bytes.
const podHead = 2

// cutPod returns the first of a list of pods, and the rest.
func cutPod(list []byte) (first, rest []byte) {
	n := podHead + int(binary.BigEndian.Uint16(list))
	return list[:n], list[n:]
}
