package zone

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

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
		Zonal: w.chance(30), Pods: pick(w, topology.PodsDisabled, topology.PodsInsecure, topology.PodsVerified, topology.PodsVerified),
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
	case what < 98:
		w.editNamespace()
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

// contents returns the records of a store by name.
func contents(z *Zones) map[string]string {
	out := map[string]string{}
	for r := range z.store.all() {
		out[string(r.name())] = string(r)
	}
	return out
}

// TestUpdateIsCompile follows topologies through random changes. After each of them the zones must be, byte by byte, what compiling the
// topology from scratch makes of it; and the serial must have moved if and only if a query can tell the difference.
func TestUpdateIsCompile(t *testing.T) {
	const worlds, edits = 60, 100
	updates := 0
	for seed := range uint64(worlds) {
		w := newWorld(seed)
		z, err := Compile(w.top, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range edits {
			w.edit()
			if u, _ := z.update(w.top); u != nil {
				updates++
			}
			next, err := Next(w.top, z, time.Unix(int64(2+i), 0))
			if err != nil {
				t.Fatal(err)
			}
			scratch, err := Compile(w.top, next.serial)
			if err != nil {
				t.Fatal(err)
			}
			if !identical(t, next, scratch) {
				t.Fatalf("world %d, change %d", seed, i)
			}
			if moved := next.serial != z.serial; moved == scratch.withSerial(z.serial).same(z) {
				t.Fatalf("world %d, change %d: the serial has moved: %v", seed, i, moved)
			}
			z = next
		}
	}
	if updates < worlds*edits*9/10 {
		t.Errorf("%d of %d were updates", updates, worlds*edits)
	}
}

// identical reports whether both have the same records, and says what differs.
func identical(t *testing.T, got, want *Zones) bool {
	t.Helper()
	a, b := contents(got), contents(want)
	ok := got.store.names == len(a) && got.below == want.below && maps.EqualFunc(got.chaos, want.chaos, sameAnswer) &&
		slices.Equal(got.Apexes(), want.Apexes()) && slices.Equal(got.depths, want.depths)
	if !ok {
		t.Errorf("%d names, counted as %d; %+v, want %+v", len(a), got.store.names, got.depths, want.depths)
	}
	for i := range want.zones {
		ok = ok && bytes.Equal(got.zones[i].soa.record, want.zones[i].soa.record)
	}
	for text, r := range b {
		if a[text] != r {
			t.Errorf("%s:\n got  %q\n want %q", dotted(text), a[text], r)
			ok = false
		}
		delete(a, text)
	}
	for text := range a {
		t.Errorf("%s is there", dotted(text))
		ok = false
	}
	return ok
}

// TestUpdateShares holds a change of one endpoint to the shards of its names, in zones that others still read.
func TestUpdateShares(t *testing.T) {
	before := large(20_000, 1000)
	z, err := Compile(before, 1)
	if err != nil {
		t.Fatal(err)
	}
	was := contents(z)
	next, err := Next(moved(before), z, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for i := range z.store.shards {
		if &z.store.shards[i].data[0] != &next.store.shards[i].data[0] {
			written++
		}
	}
	// The endpoint that goes and the one that comes with their PTR records and what is above these; the service, and its port.
	if names := 8; written == 0 || written > names {
		t.Errorf("%d of %d shards are written", written, len(z.store.shards))
	}
	if next.serial != 5 || z.serial != 1 || !maps.Equal(was, contents(z)) {
		t.Errorf("serials %d and %d", z.serial, next.serial)
	}
	again, err := Next(moved(before), next, time.Unix(6, 0))
	if err != nil || again.serial != 5 || &again.store.shards[0].data[0] != &next.store.shards[0].data[0] {
		t.Errorf("without a change: serial %d, %v", again.serial, err)
	}
}

// TestUpdateGrows lets the number of names grow beyond what the shards are for, and fall again.
func TestUpdateGrows(t *testing.T) {
	top := large(400, 20)
	z, err := Compile(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		if n >= 30 {
			n = 59 - n
		}
		next := *top
		next.Services = slices.Clone(top.Services)
		for i := range n {
			s := topology.Service{Namespace: "z", Name: fmt.Sprintf("big-%03d", i), Headless: true}
			for j := range 100 {
				s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j)}), Ready: true})
			}
			next.Services = append(next.Services, s)
		}
		if u, _ := z.update(&next); u == nil {
			t.Fatalf("%d: everything is compiled", n)
		}
		if z, err = Next(&next, z, time.Unix(int64(n), 0)); err != nil {
			t.Fatal(err)
		}
		scratch, err := Compile(&next, z.serial)
		if err != nil || !identical(t, z, scratch) {
			t.Fatal(n, err)
		}
		if !z.store.fits() {
			t.Errorf("%d names in %d shards", z.store.names, len(z.store.shards))
		}
	}
}

// large returns a topology of verified pods and services with 15 of them each.
func large(pods, services int) *topology.Topology {
	top := &topology.Topology{Cluster: topology.Cluster{Domain: "cluster.local"}, DNS: topology.DNS{TTL: 5, Pods: topology.PodsVerified,
		ReverseZones: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for i := range pods {
		top.Pods = append(top.Pods, topology.Pod{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("pod-%06d", i),
			Addresses: []netip.Addr{podAddr(i)}, Phase: "Running"})
	}
	ports := map[string]uint16{"http": 8080}
	for i := range services {
		s := topology.Service{Namespace: fmt.Sprintf("team-%02d", i%50), Name: fmt.Sprintf("app-%05d", i),
			ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 250, byte(i >> 8), byte(i)})},
			Ports:      []topology.Port{{Name: "http", Protocol: topology.TCP, Port: 80}}}
		for j := range 15 {
			k := (15*i + j) % pods
			s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: podAddr(k), Pod: top.Pods[k].Name, Ready: true, Ports: ports})
		}
		top.Services = append(top.Services, s)
	}
	for i := range 50 {
		top.Namespaces = append(top.Namespaces, topology.Namespace{Name: fmt.Sprintf("team-%02d", i)})
	}
	slices.SortFunc(top.Services, func(a, b topology.Service) int { return strings.Compare(a.Key(), b.Key()) })
	return top
}

func podAddr(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
}

// moved returns the topology with another address for an endpoint of the service in the middle. It shares nothing with it that a
// topology read anew would not share.
func moved(top *topology.Topology) *topology.Topology {
	next := *top
	next.Services = slices.Clone(top.Services)
	for i := range next.Services {
		next.Services[i].Endpoints = slices.Clone(next.Services[i].Endpoints)
	}
	next.Services[len(next.Services)/2].Endpoints[7].Address = netip.MustParseAddr("10.249.0.1")
	return &next
}
