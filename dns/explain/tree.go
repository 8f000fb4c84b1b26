package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// tree has the names of a topology. Names are in wire form and lower case.
type tree struct {
	top    *topology.Topology
	names  map[string]*node
	zones  map[string]string // by apex, the setting that the zone comes from
	absent map[string]string // names that do not exist although an object could have them, and why

	servicesOf map[string]int // number of services of a namespace
}

// node is a name.
type node struct {
	text, zone string
	// kind, object and note are the step by which the first label is read.
	kind, object, note string
	// below says that a label does not exist directly below the name; nil: in general words.
	below  func(label string) string
	offers []offer
	labels map[string]bool // those directly below
	level  bool            // it exists for CoreDNS too when it has no records
	any    *node           // what stands for labels directly below that are no names
	pods   bool            // labels directly below that spell an address are names
}

// offer is a record with the object that it comes from. The data is in the form that canonical returns.
type offer struct{ typ, data, why string }

// newTree reads a topology that serves zones with these apexes.
func newTree(top *topology.Topology, apexes []string) *tree {
	t := &tree{top: top, names: map[string]*node{}, zones: map[string]string{}, absent: map[string]string{}, servicesOf: map[string]int{}}
	for _, apex := range apexes {
		t.zones[apex] = t.zoneSource(apex)
	}
	for _, apex := range apexes {
		t.apex(apex)
	}
	t.services()
	t.pods()
	t.externals()
	return t
}

// zoneSource says which setting a zone comes from.
func (t *tree) zoneSource(apex string) string {
	switch dotted(apex) {
	case t.top.Cluster.Domain:
		return "cluster.domain"
	case t.top.DNS.ExternalZone:
		return "dns.external_zone"
	}
	covered, _ := spelledBy(apex)
	for _, p := range t.top.DNS.ReverseZones {
		if p.Overlaps(covered) {
			return fmt.Sprintf("dns.reverse_zones, range %v", p)
		}
	}
	return "dns.reverse_zones"
}

// apex adds the name of a zone, and that of its server.
func (t *tree) apex(apex string) {
	n := t.ensure(apex)
	n.kind, n.object, n.note = "zone", dotted(apex), t.zones[apex]
	n.level = true
	server := "ns.dns"
	if t.isExternal(apex) {
		server = "ns1.dns"
	}
	n.offer("NS", server+"."+dotted(apex), "name server of the zone")
	n.offer("SOA", "", "the zone")
	host := t.ensure(under(apex, reversed(strings.Split(server, "."))...))
	host.kind, host.object = "name server", server
	addrs, whose := t.serverAddrs(apex)
	host.note = whose
	for _, a := range addrs {
		host.address(a, whose)
	}
	if t.zones[apex] != "cluster.domain" {
		return
	}
	n.below = func(label string) string {
		return fmt.Sprintf("there is no %q here: names of services are below svc, and those of pods below pod", label)
	}
	version := t.ensure(under(apex, "dns-version"))
	version.kind, version.object, version.note = "version", "dns-version", "of the Kubernetes DNS specification"
	version.offer("TXT", `"1.1.0"`, version.note)
}

// serverAddrs returns the addresses of the name server of a zone, and whose they are.
func (t *tree) serverAddrs(apex string) ([]netip.Addr, string) {
	const key = "kube-system/kube-dns"
	service := &topology.Service{}
	if i := slices.IndexFunc(t.top.Services, func(s topology.Service) bool { return s.Key() == key }); i >= 0 {
		service = &t.top.Services[i]
	}
	outside := externalAddrs(service)
	switch {
	case t.isExternal(apex) && len(outside) > 0:
		return outside, "addresses that service " + key + " has outside"
	case len(t.top.DNS.Addresses) > 0:
		return t.top.DNS.Addresses, "dns.address"
	case len(service.ClusterIPs) > 0:
		return service.ClusterIPs, "ClusterIPs of service " + key
	}
	return nil, "no address is known: there is no service " + key
}

func (t *tree) isExternal(apex string) bool { return dotted(apex) == t.top.DNS.ExternalZone }

// ensure returns a name, and makes it and those between it and the apex of its zone if it is new.
func (t *tree) ensure(text string) *node {
	if n := t.names[text]; n != nil {
		return n
	}
	n := &node{text: text, zone: t.zoneOf(text), labels: map[string]bool{}, kind: "label", object: firstLabel(text),
		note: "is here since other names are below it"}
	t.names[text] = n
	if parent := wire.Parent(text); t.zoneOf(parent) != "" {
		t.ensure(parent).labels[n.object] = true
	}
	return n
}

// zoneOf returns the apex of the deepest zone that a name lies in, "" for none.
func (t *tree) zoneOf(text string) string {
	for ; text != "\x00"; text = wire.Parent(text) {
		if _, ok := t.zones[text]; ok {
			return text
		}
	}
	return ""
}

// exists reports whether a name that was gathered exists: CoreDNS knows no names that only have others below them.
func (t *tree) exists(n *node) bool {
	return n != nil && (!t.top.DNS.Compat || n.level || len(n.offers) > 0 || n.any != nil)
}

// level adds a name that exists without records.
func (t *tree) level(text, kind, note string) *node {
	n := t.ensure(text)
	n.level = true
	n.kind, n.object, n.note = kind, firstLabel(text), note
	return n
}

// near returns up to three labels directly below a name that are a few typing errors away from another.
func (t *tree) near(n *node, label string) (out []string) {
	known := slices.Sorted(maps.Keys(n.labels))
	known = slices.DeleteFunc(known, func(l string) bool { return !t.exists(t.names[under(n.text, l)]) })
	for len(out) < 3 {
		l := topology.Nearest(label, known)
		if l == "" {
			return out
		}
		out = append(out, l)
		known = slices.DeleteFunc(known, func(k string) bool { return k == l })
	}
	return out
}

// offer adds a record.
func (n *node) offer(typ, data, why string) { n.offers = append(n.offers, offer{typ, data, why}) }

// address adds an A or AAAA record.
func (n *node) address(a netip.Addr, why string) {
	typ := "A"
	if a.Is6() {
		typ = "AAAA"
	}
	n.offer(typ, a.String(), why)
}

// has reports whether a name has records of a type.
func (n *node) has(typ string) bool {
	return slices.ContainsFunc(n.offers, func(o offer) bool { return o.typ == typ })
}

// types returns the types of the records of a name, in the order of the alphabet.
func (n *node) types() (out []string) {
	for _, o := range n.offers {
		if !slices.Contains(out, o.typ) {
			out = append(out, o.typ)
		}
	}
	slices.Sort(out)
	return out
}
