package zone

import (
	"slices"
	"strings"

	"sluice/dns/wire"
)

// depth is the zones whose apexes have one number of labels.
type depth struct {
	labels int
	tail   string // the labels that all these apexes end in: a name that does not lies in none of them
	single int    // position of the only zone, which tail is the apex of; -1 when there are several
}

// depths returns what is to be looked at to find the zone of a name, the deepest first.
func depths(zones []Zone) (out []depth) {
	for i := range zones {
		apex, labels := zones[i].apex, labelsOf(zones[i].apex)
		at := slices.IndexFunc(out, func(d depth) bool { return d.labels == labels })
		if at < 0 {
			out = append(out, depth{labels: labels, tail: apex, single: i})
			continue
		}
		out[at].single = -1
		for !strings.HasSuffix(apex, out[at].tail) {
			out[at].tail = wire.Parent(out[at].tail)
		}
	}
	slices.SortFunc(out, func(a, b depth) int { return b.labels - a.labels })
	return out
}

// labelsOf returns the number of labels of a name in wire form.
func labelsOf(text string) (n int) {
	for ; text != "\x00"; text = wire.Parent(text) {
		n++
	}
	return n
}

// closest returns the deepest zone that the name asked for lies in, or nil. The name is not an apex itself: it is no node.
func (z *Zones) closest(q *wire.Question) *Zone {
	for i := range z.depths {
		d := &z.depths[i]
		if d.labels >= q.Labels() {
			continue
		}
		suffix := q.Suffix(d.labels)
		head := len(suffix) - len(d.tail)
		if head < 0 || string(suffix[head:]) != d.tail {
			continue
		}
		if d.single >= 0 && head == 0 {
			return &z.zones[d.single]
		}
		if at, ok := z.apexes[string(suffix)]; ok {
			return &z.zones[at]
		}
	}
	return nil
}
