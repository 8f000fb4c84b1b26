package zone

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

// world makes topologies out of few names and addresses, so that objects meet: services and pods share addresses, and aliases lead to
// each other.
type world struct {
	*rand.Rand
	top *topology.Topology
}

func newWorld(seed uint64) *world {
	w := &world{Rand: rand.New(rand.NewPCG(seed, 1)), top: &topology.Topology{}}
	w.top.Cluster.Domain, w.top.DNS.TTL = "grid.example", 5
	w.options()
	for range 12 {
		w.edit()
	}
	return w
}

func pick[T any](w *world, list ...T) T { return list[w.IntN(len(list))] }

func (w *world) chance(percent int) bool { return w.IntN(100) < percent }

// options sets all options of DNS anew.
func (w *world) options() {
	d := &w.top.DNS
	*d = topology.DNS{TTL: 5, Compat: w.chance(30), IgnoreEmpty: w.chance(20), NoEndpoints: w.chance(10), PodNames: w.chance(30),
		Zonal: w.chance(30), Autopath: w.chance(30), Search: []string{"corp.example"}, Pods: pick(w, topology.PodsDisabled, topology.PodsInsecure, topology.PodsVerified, topology.PodsVerified),
		ExternalZone: pick(w, "", "out.example", "ext.grid.example", "example", "svc.grid.example", "b.svc.grid.example", "pod.grid.example", "1.10.in-addr.arpa")}
	for _, p := range []string{"10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/23", "10.1.2.3/32", "fd00::/16", "198.18.0.0/15"} {
		if w.chance(50) {
			d.ReverseZones = append(d.ReverseZones, netip.MustParsePrefix(p))
		}
	}
	if w.chance(30) {
		d.Namespaces = []string{"a", "b", "ns", "kube-system"}
	}
	if w.chance(20) {
		d.Addresses = []netip.Addr{netip.MustParseAddr("10.1.0.53")}
	}
}

func (w *world) namespace() string { return pick(w, "a", "b", "c", "dns", "grid", "a-b") }
func (w *world) label() string     { return pick(w, "w", "x", "y", "ns1", "svc", "10-1-2-3") }

func (w *world) addr() netip.Addr {
	if w.chance(25) {
		return netip.MustParseAddr(pick(w, "fd00::1", "fd00::2", "fd00:0:1::", "2001:db8::1"))
	}
	return netip.AddrFrom4([4]byte{10, byte(1 + w.IntN(2)), byte(1 + w.IntN(3)), byte(1 + w.IntN(4))})
}

func (w *world) addrs(most int) (out []netip.Addr) {
	for range w.IntN(most + 1) {
		out = append(out, w.addr())
	}
	return out
}

// name returns a name that may be one of another object, or of none.
func (w *world) name() string {
	switch ns, l := w.namespace(), w.label(); w.IntN(12) {
	case 0:
		return "elsewhere.example.org"
	case 1:
		return pick(w, "grid.example", "ns.dns.grid.example", "dns-version.grid.example", "dns.grid.example", "svc.grid.example", "no.grid.example")
	case 2:
		return ns + pick(w, ".svc.grid.example", ".pod.grid.example", ".out.example")
	case 3:
		return strings.ReplaceAll(w.addr().String(), ".", "-") + "." + ns + ".pod.grid.example"
	case 4:
		return pick(w, "_tcp.", "_http._tcp.", "h.", "10-1-2-3.", "r.pin._zone.", "_zone.") + l + "." + ns + ".svc.grid.example"
	case 5:
		return l + "." + ns + pick(w, ".out.example", ".ext.grid.example", ".example")
	case 6:
		return pick(w, "3.2.1.10.in-addr.arpa", "2.1.10.in-addr.arpa")
	default:
		return l + "." + ns + ".svc.grid.example"
	}
}

func (w *world) service() topology.Service {
	s := topology.Service{Namespace: w.namespace(), Name: w.label(), Type: topology.ClusterIP}
	if w.chance(10) {
		s.Namespace, s.Name = dnsNamespace, dnsName
	}
	switch w.IntN(5) {
	case 0:
		s.Type, s.ExternalName = topology.ExternalName, w.name()
		return s
	case 1, 2:
		s.Headless = true
	default:
		s.ClusterIPs = w.addrs(2)
	}
	if w.chance(30) && !s.Headless {
		s.Type, s.LoadBalancerIPs = topology.LoadBalancer, w.addrs(1)
		if w.chance(50) {
			s.LoadBalancerHostnames = []string{w.name()}
		}
	}
	if w.chance(20) && !s.Headless {
		s.ExternalIPs = w.addrs(2)
	}
	s.PublishNotReady = w.chance(20)
	for _, name := range []string{"http", "dns"}[:w.IntN(3)] {
		s.Ports = append(s.Ports, topology.Port{Name: name, Protocol: pick(w, topology.TCP, topology.UDP), Port: uint16(80 + w.IntN(2))})
	}
	for range w.IntN(4) {
		s.Endpoints = append(s.Endpoints, w.endpoint())
	}
	return s
}

func (w *world) endpoint() topology.Endpoint {
	return topology.Endpoint{Address: w.addr(), Hostname: pick(w, "", "", "h", "i"), Pod: pick(w, "", "p-1", "p.2"), Zone: pick(w, "", "r", "R2"),
		Ready: w.chance(80), Ports: pick(w, nil, map[string]uint16{"http": 80}, map[string]uint16{"http": 8080, "dns": 53})}
}

func (w *world) pod() topology.Pod {
	return topology.Pod{Namespace: w.namespace(), Name: w.label(), Addresses: w.addrs(2), Phase: pick(w, "Running", "Running", "Failed")}
}

// edit changes one thing in a new topology, which shares the rest with the one before.
func (w *world) edit() {
	next := *w.top
	next.Services, next.Pods, next.Namespaces = slices.Clone(next.Services), slices.Clone(next.Pods), slices.Clone(next.Namespaces)
	w.top = &next
	i := 0
	if len(next.Services) > 0 {
		i = w.IntN(len(next.Services))
	}
	switch what := w.IntN(100); {
	case what < 25 || len(next.Services) < 2:
		next.Services = append(next.Services, w.service())
	case what < 35:
		next.Services = slices.Delete(next.Services, i, i+1)
	case what < 55:
		w.editEndpoint(&next.Services[i])
	case what < 65:
		s := w.service()
		s.Namespace, s.Name = next.Services[i].Namespace, next.Services[i].Name
		next.Services[i] = s
	case what < 80:
		next.Pods = slices.Insert(next.Pods, w.IntN(len(next.Pods)+1), w.pod())
	case what < 90 && len(next.Pods) > 0:
		j := w.IntN(len(next.Pods))
		next.Pods = slices.Delete(next.Pods, j, j+1)
	case what < 96:
		w.editNamespace()
	case what < 98:
		next.Nodes = []topology.Node{{Name: "n", Addresses: w.addrs(2)}}
	default:
		w.options()
	}
	slices.SortStableFunc(next.Services, func(a, b topology.Service) int { return strings.Compare(a.Key(), b.Key()) })
	next.Services = slices.CompactFunc(next.Services, func(a, b topology.Service) bool { return a.Key() == b.Key() })
}

func (w *world) editEndpoint(s *topology.Service) {
	s.Endpoints = slices.Clone(s.Endpoints)
	if len(s.Endpoints) == 0 || w.chance(30) {
		s.Endpoints = append(s.Endpoints, w.endpoint())
		return
	}
	i := w.IntN(len(s.Endpoints))
	if w.chance(30) {
		s.Endpoints = slices.Delete(s.Endpoints, i, i+1)
		return
	}
	s.Endpoints[i] = w.endpoint()
}

func (w *world) editNamespace() {
	name := w.namespace()
	i := slices.IndexFunc(w.top.Namespaces, func(n topology.Namespace) bool { return n.Name == name })
	if i >= 0 {
		w.top.Namespaces = slices.Delete(w.top.Namespaces, i, i+1)
		return
	}
	w.top.Namespaces = append(w.top.Namespaces, topology.Namespace{Name: name})
}
