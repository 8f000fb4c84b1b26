package explain

import (
	"fmt"
	"strings"

	"sluice/config/topology"
)

// zonal adds the names of a headless service by topology zone.
func (t *tree) zonal(s *topology.Service, text string, hosts []host) {
	if !t.top.DNS.Zonal || !s.Headless || len(hosts) == 0 {
		return
	}
	top := t.ensure(under(text, "_zone"))
	top.kind, top.note = "zonal", "endpoints by topology zone are below it"
	fallback := &node{zone: top.zone, kind: "topology zone", note: fmt.Sprintf("no endpoint of service %s is in it: all of them", s.Key())}
	fallback.hostSets(s, hosts)
	for _, kind := range []struct {
		label, note string
		any         *node
	}{
		{"pin", "those of a topology zone and no others", &node{zone: top.zone, kind: "topology zone",
			note: fmt.Sprintf("no endpoint of service %s is in it", s.Key())}},
		{"prefer", "those of a topology zone, or all when it has none", fallback},
	} {
		n := t.ensure(under(top.text, kind.label))
		n.kind, n.note, n.any = "zonal", kind.note, kind.any
		t.topologyZones(n, s, hosts)
	}
}

// topologyZones adds the names of topology zones that have endpoints.
func (t *tree) topologyZones(parent *node, s *topology.Service, hosts []host) {
	for _, h := range hosts {
		label := strings.ToLower(h.zone)
		if len(label) == 0 || len(label) > 63 || len(parent.text)+1+len(label) > 255 {
			continue // no label: it cannot be asked for
		}
		n := t.ensure(under(parent.text, label))
		n.kind, n.object, n.note = "topology zone", label, "has endpoints of service "+s.Key()
		n.hostSets(s, []host{h})
	}
}

// hostSets adds the addresses of hosts, and the SRV records of all ports of their service.
func (n *node) hostSets(s *topology.Service, hosts []host) {
	for _, h := range hosts {
		n.address(h.addr, h.what)
	}
	n.srv(s.Ports, hosts)
}
