package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

// SliceEndpoint is an endpoint of an EndpointSlice, as it is remembered: who it is, and what of it may change without its
// moving to another slice.
type SliceEndpoint struct {
	Address     netip.Addr `json:"address"`
	Hostname    string     `json:"hostname,omitempty"`
	Pod         string     `json:"pod,omitempty"`
	Node        string     `json:"node,omitempty"`
	Zone        string     `json:"zone,omitempty"`
	Ready       bool       `json:"ready,omitempty"`
	Serving     bool       `json:"serving,omitempty"`
	Terminating bool       `json:"terminating,omitempty"`
	ForZones    []string   `json:"for_zones,omitempty"`
	ForNodes    []string   `json:"for_nodes,omitempty"`
}

// identity is what makes an endpoint the same one as before. The pod is part of it: one that has ended and its successor may
// have one address (kubernetes/kubernetes#115907).
type identity struct {
	addr          netip.Addr
	hostname, pod string
}

func (e *SliceEndpoint) identity() identity { return identity{e.Address, e.Hostname, e.Pod} }

// same reports whether two endpoints of one identity are equal in all but their hints.
func (e *SliceEndpoint) same(o *SliceEndpoint) bool {
	return e.Node == o.Node && e.Zone == o.Zone && e.Ready == o.Ready && e.Serving == o.Serving && e.Terminating == o.Terminating
}

// pack is an EndpointSlice while it is packed.
type pack struct {
	name      string // "" until it has one
	ports     string // see portKey
	endpoints []*SliceEndpoint
}

// plan says what becomes of the slices of one service and family. Each list is in the order of the slices before, then of
// their making.
type plan struct {
	create, update, unchanged, gone []*pack
}

// add appends the lists of another plan.
func (p *plan) add(o plan) {
	p.create, p.update = append(p.create, o.create...), append(p.update, o.update...)
	p.unchanged, p.gone = append(p.unchanged, o.unchanged...), append(p.gone, o.gone...)
}

// group is the endpoints of a service and family that have one port list, each identity once.
type group struct {
	ports     string
	endpoints []*SliceEndpoint
}

// reconcile packs the endpoints of a service and family into slices of at most limit, starting from those that there were
// (k8s.io/endpointslice, reconcileByAddressType): each port list has slices of its own, a slice changes only when it must, and
// nothing moves from one slice to another. Where Kubernetes takes any, this takes the first, so that the result depends on
// what is given alone.
//
// relabelled says that the labels of the service have changed, which changes all of its slices.
func reconcile(previous []*pack, desired []group, limit int, relabelled bool) plan {
	var out plan
	before := map[string][]*pack{}
	for _, p := range previous {
		before[p.ports] = append(before[p.ports], p)
	}
	wanted := map[string]bool{}
	for _, g := range desired {
		wanted[g.ports] = true
		out.add(reconcileGroup(before[g.ports], g, limit, relabelled))
	}
	for _, p := range previous {
		if !wanted[p.ports] {
			out.gone = append(out.gone, p)
		}
	}
	if len(out.gone) == len(previous) && len(out.create) == 0 {
		out.placeholder()
	}
	return out
}

// placeholder adds the empty slice of a family without endpoints, or keeps the one that there is.
func (p *plan) placeholder() {
	if len(p.gone) == 1 && p.gone[0].ports == "" && len(p.gone[0].endpoints) == 0 {
		p.unchanged, p.gone = p.gone, nil
		return
	}
	p.create = append(p.create, &pack{})
}

// reconcileGroup packs the endpoints of one port list, in three passes (k8s.io/endpointslice, reconcileByPortMapping).
func reconcileGroup(previous []*pack, g group, limit int, relabelled bool) (out plan) {
	left := newRemainder(g.endpoints)
	for _, p := range previous { // 1: each slice drops what is not wanted any more, and takes over what has changed
		kept, changed := left.claim(p)
		switch {
		case changed && len(kept.endpoints) == 0:
			out.gone = append(out.gone, p)
		case changed || relabelled:
			out.update = append(out.update, kept)
		default:
			out.unchanged = append(out.unchanged, kept)
		}
	}
	fullest := slices.Clone(out.update)
	slices.SortStableFunc(fullest, func(a, b *pack) int { return cmp.Compare(len(b.endpoints), len(a.endpoints)) })
	for _, p := range fullest { // 2: slices that are written anyway are filled, the fullest first
		left.fill(p, limit)
	}
	for left.len() > 0 { // 3: what is left goes into one more slice if it fits there, else into new ones
		p := bestFit(out.unchanged, left.len(), limit)
		if p == nil {
			p = &pack{ports: g.ports}
			out.create = append(out.create, p)
		} else {
			out.unchanged = slices.DeleteFunc(out.unchanged, func(o *pack) bool { return o == p })
			out.update = append(out.update, p)
		}
		left.fill(p, limit)
	}
	return out
}

// bestFit returns the slice that is closest to full with n more endpoints, nil when none has room for all of them.
func bestFit(list []*pack, n, limit int) (best *pack) {
	if n >= limit {
		return nil
	}
	least := limit
	for _, p := range list {
		if room := limit - n - len(p.endpoints); room >= 0 && room < least {
			best, least = p, room
		}
	}
	return best
}

// remainder is the endpoints that are in no slice yet, in order.
type remainder struct {
	order []*SliceEndpoint
	byID  map[identity]*SliceEndpoint
}

func newRemainder(list []*SliceEndpoint) *remainder {
	r := &remainder{order: list, byID: make(map[identity]*SliceEndpoint, len(list))}
	for _, e := range list {
		r.byID[e.identity()] = e
	}
	return r
}

func (r *remainder) len() int { return len(r.byID) }

// claim takes out the endpoints that slice p had, and returns them as its new state, with the hints they had. changed says
// whether it is another one, hints aside.
func (r *remainder) claim(p *pack) (kept *pack, changed bool) {
	kept = &pack{name: p.name, ports: p.ports}
	for _, was := range p.endpoints {
		now, ok := r.byID[was.identity()]
		if !ok {
			changed = true
			continue
		}
		delete(r.byID, was.identity())
		changed = changed || !now.same(was)
		now.ForZones, now.ForNodes = was.ForZones, was.ForNodes
		kept.endpoints = append(kept.endpoints, now)
	}
	return kept, changed
}

// fill moves endpoints into p until it has limit.
func (r *remainder) fill(p *pack, limit int) {
	for len(r.order) > 0 && len(p.endpoints) < limit {
		e := r.order[0]
		r.order = r.order[1:]
		if _, left := r.byID[e.identity()]; left {
			delete(r.byID, e.identity())
			p.endpoints = append(p.endpoints, e)
		}
	}
}

// finalize turns pairs of a new slice and one to delete into an update, which keeps the name, and returns the slices that there
// are afterwards: those from before in their order, then the new ones, whose names name gives.
func (p *plan) finalize(previous []*pack, name func(ports string) string) []*pack {
	for len(p.gone) > 0 && len(p.create) > 0 {
		last := len(p.create) - 1
		p.create[last].name = p.gone[0].name
		p.update = append(p.update, p.create[last])
		p.create, p.gone = p.create[:last], p.gone[1:]
	}
	position := make(map[string]int, len(previous))
	for i, q := range previous {
		position[q.name] = i
	}
	out := slices.Concat(p.unchanged, p.update)
	slices.SortFunc(out, func(a, b *pack) int { return cmp.Compare(position[a.name], position[b.name]) })
	for _, q := range p.create {
		q.name = name(q.ports)
	}
	return append(out, p.create...)
}

// sliceName makes the name of a slice, as Kubernetes generates them but the same each time. n counts the names of the service,
// so that none is used again.
func sliceName(service *Service, family, ports string, n int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789" // no vowels, nothing that looks like another
	h := hash(fmt.Sprintf("%s %s %s %d", service.Key(), family, ports, n))
	suffix := make([]byte, 5)
	for i := range suffix {
		suffix[i] = letters[h%uint64(len(letters))]
		h /= uint64(len(letters))
	}
	return service.Name + "-" + string(suffix)
}
