package zone

import (
	"bytes"
	"slices"
)

// differ selects what differs between two sources of the same rules. It may select more.
func differ(a, b *source) *selection {
	s := newSelection()
	s.differingServices(a, b)
	s.differingPods(a.pods, b.pods)
	s.differingNamespaces(a.namespaces, b.namespaces)
	return s
}

// differingServices walks along both lists, which are sorted by key.
func (s *selection) differingServices(a, b *source) {
	i, j := 0, 0
	for i < len(a.starts) && j < len(b.starts) {
		if bytes.Equal(a.service(i), b.service(j)) {
			i, j = i+1, j+1
			continue
		}
		was, is := a.key(i), b.key(j)
		order := compareKeys(was, is)
		if order <= 0 {
			s.services[was] = true
			i++
		}
		if order >= 0 {
			s.services[is] = true
			j++
		}
	}
	for ; i < len(a.starts); i++ {
		s.services[a.key(i)] = true
	}
	for ; j < len(b.starts); j++ {
		s.services[b.key(j)] = true
	}
}

// resync is how far a pod is looked for that is not where it was.
const resync = 8

// differingPods walks along both lists, which are in the order of their source, and selects the addresses of the pods that it does not
// find in the other one.
func (s *selection) differingPods(a, b []byte) {
	for len(a) > 0 && len(b) > 0 {
		x, restA := cutPod(a)
		y, restB := cutPod(b)
		if bytes.Equal(x, y) {
			a, b = restA, restB
			continue
		}
		switch {
		case ahead(restA, y):
			s.addPod(x)
			a = restA
		case ahead(restB, x):
			s.addPod(y)
			b = restB
		default:
			s.addPod(x)
			s.addPod(y)
			a, b = restA, restB
		}
	}
	for _, list := range [][]byte{a, b} {
		for len(list) > 0 {
			var one []byte
			one, list = cutPod(list)
			s.addPod(one)
		}
	}
}

// ahead reports whether a pod is one of the next few.
func ahead(list, pod []byte) bool {
	for n := 0; n < resync && len(list) > 0; n++ {
		var one []byte
		if one, list = cutPod(list); bytes.Equal(one, pod) {
			return true
		}
	}
	return false
}

// addPod selects the names of a pod.
func (s *selection) addPod(pod []byte) {
	r := reader{pod[podHead:]}
	for _, a := range r.pod().Addresses {
		s.podAddrs.add(a)
	}
}

// addAddrs selects the addresses of the services that are selected so far, for their PTR records. What else has a part in these is found
// by gathering them, see grow; so it need not be done again for the addresses alone.
func (s *selection) addAddrs(from *source) {
	for key := range s.services {
		i, ok := from.find(key)
		if !ok {
			continue
		}
		r := reader{from.service(i)}
		service := r.service()
		for _, a := range slices.Concat(service.ClusterIPs, service.ExternalIPs, service.LoadBalancerIPs) {
			s.addrs.add(a)
		}
		for i := range service.Endpoints {
			s.addrs.add(service.Endpoints[i].Address)
		}
	}
}

// differingNamespaces selects the namespaces that one side alone has.
func (s *selection) differingNamespaces(a, b []string) {
	sides := map[string]int{}
	for _, name := range a {
		sides[name] |= 1
	}
	for _, name := range b {
		sides[name] |= 2
	}
	for name, in := range sides {
		if in != 3 {
			s.namespaces[name] = true
		}
	}
}
