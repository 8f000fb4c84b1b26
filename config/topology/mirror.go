package topology

import (
	"cmp"
	"slices"
)

// mirrorLimit is how many endpoints of one port list Kubernetes mirrors into slices. What is beyond gets flows all the same
// here, and is in no slice.
const mirrorLimit = 1000

// mirror makes the slices of a family for endpoints that are listed by hand, as Kubernetes' mirroring controller does: one for
// each port list, however many endpoints it has, ready ones first.
func mirror(previous []*pack, desired []group, relabelled bool) plan {
	var out plan
	before := map[string]*pack{}
	for _, p := range previous {
		if before[p.ports] == nil {
			before[p.ports] = p
		} else {
			out.gone = append(out.gone, p)
		}
	}
	for _, g := range desired {
		readyFirst(g.endpoints)
		was := before[g.ports]
		delete(before, g.ports)
		if was == nil {
			out.create = append(out.create, &pack{ports: g.ports, endpoints: g.endpoints})
			continue
		}
		kept, changed := newRemainder(g.endpoints).claim(was)
		changed = changed || relabelled || len(kept.endpoints) != len(g.endpoints)
		if kept.endpoints = g.endpoints; changed {
			out.update = append(out.update, kept)
		} else {
			out.unchanged = append(out.unchanged, kept)
		}
	}
	for _, p := range previous {
		if before[p.ports] == p {
			out.gone = append(out.gone, p)
		}
	}
	return out
}

// readyFirst sorts ready endpoints before the others.
func readyFirst(list []*SliceEndpoint) {
	rank := func(e *SliceEndpoint) int {
		if e.Ready {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b *SliceEndpoint) int { return cmp.Compare(rank(a), rank(b)) })
}
