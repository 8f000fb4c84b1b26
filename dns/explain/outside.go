package explain

import (
	"fmt"
	"net/netip"
	"strings"

	"sluice/config/topology"
)

// outsideAll says why a name is in no zone.
func (e *explainer) outsideAll(text string) string {
	if spelled, ok := spelledBy(text); ok {
		e.outsideReverse(spelled)
	}
	e.suggest(e.searched(text), "names are written in full: no search path is applied here")
	e.suggest(e.nearZones(text), "the same in the zone that is near")
	switch name := dotted(text); name {
	case "version.bind", "version.server", "authors.bind", "hostname.bind", "id.server":
		return "the name is answered in class CH only, which dig does not ask for: see dns.chaos"
	}
	why := "the name is in no zone of this topology: " + e.allZones()
	if e.top.DNS.Forwards() {
		why += "; dns.forward and dns.stub say whom 'run' and 'dns' ask"
	}
	return why
}

// outsideReverse notes the addresses that a reverse name outside all zones stands for.
func (e *explainer) outsideReverse(spelled netip.Prefix) {
	if spelled.IsSingleIP() {
		e.step("missing", spelled.Addr().String(), "in no range of dns.reverse_zones")
		return
	}
	why := "no range of dns.reverse_zones is in it"
	for _, p := range e.top.DNS.ReverseZones {
		if spelled.Overlaps(p) {
			why = fmt.Sprintf("the zones of dns.reverse_zones are smaller: range %v", p)
			break
		}
	}
	e.step("missing", spelled.String(), why)
}

// forward returns the zones that are not reverse ones.
func (t *tree) forward() []string {
	if t.top.DNS.ExternalZone == "" {
		return []string{t.top.Cluster.Domain}
	}
	return []string{t.top.Cluster.Domain, t.top.DNS.ExternalZone}
}

// allZones lists the zones as people think of them.
func (t *tree) allZones() string {
	zones := t.forward()
	for _, p := range t.top.DNS.ReverseZones {
		zones = append(zones, "reverse of "+p.String())
	}
	return abridged(zones)
}

// nearZones returns a name with its end replaced by each zone that the end is a few typing errors away from, and the zones.
func (t *tree) nearZones(text string) (out []string) {
	labels := labelsOf(text)
	for _, zone := range t.forward() {
		apex := mustName(zone)
		n := len(labels) - len(labelsOf(apex))
		if n < 0 || topology.Nearest(strings.Join(labels[n:], "."), []string{zone}) == "" {
			continue
		}
		if whole := under(apex, reversed(labels[:n])...); t.exists(t.names[whole]) {
			out = append(out, whole)
		} else {
			out = append(out, apex)
		}
	}
	return out
}
