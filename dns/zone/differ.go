package zone

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"sluice/config/topology"
)

// sameRules reports whether the names of two topologies follow the same rules, so that what differs between both can be told object by
// object.
func sameRules(a, b *topology.Topology) bool {
	return reflect.DeepEqual(&a.DNS, &b.DNS) && a.Cluster.Domain == b.Cluster.Domain && a.Gateway.Node == b.Gateway.Node
}

// differ selects what differs between two topologies of the same rules. It may select more. ok is false when services are not in
// order, by which those that belong together are found.
func differ(a, b *topology.Topology) (s *selection, ok bool) {
	s = newSelection()
	if !s.differingServices(a, b) {
		return nil, false
	}
	if a.DNS.Pods == topology.PodsVerified {
		s.differingPods(a.Pods, b.Pods)
	}
	s.differingNamespaces(a.Namespaces, b.Namespaces)
	return s, true
}

// differingNamespaces selects the namespaces that one side alone has.
func (s *selection) differingNamespaces(a, b []topology.Namespace) {
	same := func(a, b topology.Namespace) bool { return a.Name == b.Name }
	if slices.EqualFunc(a, b, same) {
		return
	}
	sides := map[string]int{}
	for i := range a {
		sides[a[i].Name] |= 1
	}
	for i := range b {
		sides[b[i].Name] |= 2
	}
	for name, in := range sides {
		if in != 3 {
			s.namespaces[name] = true
		}
	}
}

// differingServices walks along both lists, which are sorted by key.
func (s *selection) differingServices(t, u *topology.Topology) (sorted bool) {
	a, b := t.Services, u.Services
	if !inOrder(a) || !inOrder(b) {
		return false
	}
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = compareKeys(&a[0], &b[0])
		}
		switch {
		case order < 0:
			s.services[keyOf(&a[0])] = true
			a = a[1:]
		case order > 0:
			s.services[keyOf(&b[0])] = true
			b = b[1:]
		default:
			if !sameService(&t.DNS, &a[0], &b[0]) {
				s.services[keyOf(&a[0])] = true
			}
			a, b = a[1:], b[1:]
		}
	}
	return true
}

func inOrder(list []topology.Service) bool {
	for i := 1; i < len(list); i++ {
		if compareKeys(&list[i-1], &list[i]) >= 0 {
			return false
		}
	}
	return true
}

// compareKeys compares as Service.Key does. No namespace has a slash.
func compareKeys(a, b *topology.Service) int {
	if a.Namespace == b.Namespace {
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.Namespace+"/", b.Namespace+"/")
}

// sameService reports whether two services have the same names and records.
func sameService(d *topology.DNS, a, b *topology.Service) bool {
	if a.Type != b.Type || a.Headless != b.Headless || a.PublishNotReady != b.PublishNotReady || a.ExternalName != b.ExternalName ||
		!slices.Equal(a.ClusterIPs, b.ClusterIPs) || !slices.Equal(a.ExternalIPs, b.ExternalIPs) ||
		!slices.Equal(a.LoadBalancerIPs, b.LoadBalancerIPs) || !slices.Equal(a.LoadBalancerHostnames, b.LoadBalancerHostnames) ||
		!slices.EqualFunc(a.Ports, b.Ports, samePort) || len(a.Endpoints) != len(b.Endpoints) {
		return false
	}
	if len(a.Endpoints) == 0 || &a.Endpoints[0] == &b.Endpoints[0] {
		return true // topologies do not change
	}
	var ports samePorts
	for i := range a.Endpoints {
		if !sameEndpoint(d, &a.Endpoints[i], &b.Endpoints[i]) || !ports.equal(a.Endpoints[i].Ports, b.Endpoints[i].Ports) {
			return false
		}
	}
	return true
}

func samePort(a, b topology.Port) bool {
	return a.Name == b.Name && a.Protocol == b.Protocol && a.Port == b.Port
}

// sameEndpoint reports whether two endpoints have the same names and records, but for their ports.
func sameEndpoint(d *topology.DNS, a, b *topology.Endpoint) bool {
	return a.Address == b.Address && a.Ready == b.Ready && a.Hostname == b.Hostname &&
		(a.Pod == b.Pod || !d.PodNames) && (a.Zone == b.Zone || !d.Zonal)
}

// samePorts compares the ports of endpoints, which the endpoints of a service share for the most part: a pair of maps that is there again
// is not compared again.
type samePorts struct{ a, b uintptr }

func (p *samePorts) equal(a, b map[string]uint16) bool {
	now := samePorts{reflect.ValueOf(a).Pointer(), reflect.ValueOf(b).Pointer()}
	if now == *p && now.a != 0 {
		return true
	}
	*p = now
	return maps.Equal(a, b)
}

// resync is how far a pod is looked for that is not where it was.
const resync = 8

// differingPods walks along both lists, which are in the order of their source, and selects the addresses of the pods that it does not
// find in the other one.
func (s *selection) differingPods(a, b []topology.Pod) {
	for len(a) > 0 && len(b) > 0 {
		if samePod(&a[0], &b[0]) {
			a, b = a[1:], b[1:]
			continue
		}
		gone, more := 1, 1
		for k := 1; k <= resync; k++ {
			if k < len(a) && samePod(&a[k], &b[0]) {
				gone, more = k, 0
				break
			}
			if k < len(b) && samePod(&a[0], &b[k]) {
				gone, more = 0, k
				break
			}
		}
		s.addPods(a[:gone])
		s.addPods(b[:more])
		a, b = a[gone:], b[more:]
	}
	s.addPods(a)
	s.addPods(b)
}

// samePod reports whether two pods have the same names.
func samePod(a, b *topology.Pod) bool {
	return a.Namespace == b.Namespace && ended(a) == ended(b) && (ended(a) || slices.Equal(a.Addresses, b.Addresses))
}

// addPods selects the names of pods.
func (s *selection) addPods(list []topology.Pod) {
	for i := range list {
		for _, a := range list[i].Addresses {
			s.podAddrs.add(a)
		}
	}
}
