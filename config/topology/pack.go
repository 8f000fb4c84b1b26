package topology

import (
	"slices"
	"strings"
)

// endpointsAndSlices computes the endpoints of services with a selector; then it packs the endpoints of all services into
// slices and gives them hints.
func (r *resolver) endpointsAndSlices(all []serviceAt) {
	r.podsByLabel = indexPods(r.out.Pods)
	shares := shareZones(r.out.Nodes)
	for _, s := range all {
		s.out.Hints = HintsStatus{Mode: hintsNone}
		if s.out.Type == ExternalName {
			continue
		}
		if len(s.out.Selector) > 0 {
			r.podEndpoints(s)
		}
		r.pack(s, shares)
	}
}

// packer packs the endpoints of one service.
type packer struct {
	serviceAt
	was    ServiceState  // what is remembered of it
	state  *ServiceState // what is to be
	limit  int           // endpoints of a slice
	shares zoneShares
	mode   string // of hints
	// members are the endpoints as the slices know them, by index into Service.Endpoints: two of one identity are one.
	members []*SliceEndpoint
}

// pack fills in Slices and Hints of a service, the hints of its endpoints, and what is to be remembered of that.
func (r *resolver) pack(s serviceAt, shares zoneShares) {
	p := &packer{serviceAt: s, was: r.kept[s.out.Key()], state: &ServiceState{}, limit: r.sliceSize(), shares: shares,
		mode: hintsMode(s.out)}
	given := slices.ContainsFunc(s.out.Endpoints, func(e Endpoint) bool { return len(e.ForZones) > 0 || len(e.ForNodes) > 0 })
	if given && p.mode != hintsNone {
		s.out.Hints.Reason = "the topology gives the endpoints hints of its own"
		p.mode = hintsNone
	}
	p.state.SliceNames, p.state.Labels = p.was.SliceNames, labelsHash(s.out.Labels)
	problems := map[string]string{}
	families := p.packFamilies()
	for _, family := range families {
		problems[family] = p.packFamily(family)
	}
	if !given {
		p.hintEndpoints(families, problems)
	}
	p.state.keepAllocations(s.out)
	r.state.Services[s.out.Key()] = *p.state
}

// packFamilies returns the families that the service has slices of: with a selector those of the service, else those of
// which endpoints are listed.
func (p *packer) packFamilies() (out []string) {
	for _, four := range []bool{true, false} {
		wanted := len(p.families) == 0 || slices.Contains(p.families, four)
		if len(p.out.Selector) == 0 {
			wanted = slices.ContainsFunc(p.out.Endpoints, func(e Endpoint) bool { return e.Address.Is4() == four })
		}
		if wanted {
			out = append(out, familyName(four))
		}
	}
	return out
}

// packFamily packs the endpoints of one family and returns why they have no hints although the service asks for them.
func (p *packer) packFamily(family string) (problem string) {
	desired, previous := p.groups(family), p.was.packs(p.out, family)
	relabelled := p.was.Labels != p.state.Labels
	var todo plan
	if len(p.out.Selector) > 0 {
		todo = reconcile(previous, desired, p.limit, relabelled)
	} else {
		todo = mirror(previous, desired, relabelled)
	}
	switch p.mode {
	case hintsTopology:
		problem = todo.topologyHints(p.shares)
	case preferSameZone, preferSameNode:
		problem = todo.ownHints(p.mode == preferSameNode)
	default:
		todo.clearHints()
	}
	packs := todo.finalize(previous, func(ports string) string { return p.newName(family, ports) })
	p.publish(family, packs)
	return problem
}

// sliceSize is the most endpoints that a slice gets: 100 by default (kube-controller-manager's --max-endpoints-per-slice), at most
// 1000 (Kubernetes' discovery API).
func (r *resolver) sliceSize() int {
	if r.out.Cluster.SliceSize <= 0 {
		return 100
	}
	return min(r.out.Cluster.SliceSize, 1000)
}

// newName returns a name that no slice of the service has had.
func (p *packer) newName(family, ports string) string {
	for {
		name := sliceName(p.out, family, ports, p.state.SliceNames)
		p.state.SliceNames++
		if !slices.ContainsFunc(p.was.Slices, func(s SliceState) bool { return s.Name == name }) &&
			!slices.ContainsFunc(p.state.Slices, func(s SliceState) bool { return s.Name == name }) {
			return name
		}
	}
}

// groups sorts the endpoints of a family by port list, and fills in members.
func (p *packer) groups(family string) (out []group) {
	if p.members == nil {
		p.members = make([]*SliceEndpoint, len(p.out.Endpoints))
	}
	type key struct {
		ports string
		id    identity
	}
	seen, at := map[key]*SliceEndpoint{}, map[string]int{}
	for i := range p.out.Endpoints {
		e := &p.out.Endpoints[i]
		if familyName(e.Address.Is4()) != family {
			continue
		}
		ports := portKey(p.out.Ports, e.Ports)
		m := memberOf(e)
		if first := seen[key{ports, m.identity()}]; first != nil {
			// There twice: the later counts, unless it is on its way out, as in the data plane.
			if !m.Terminating {
				*first = *m
			}
			p.members[i] = first
			continue
		}
		seen[key{ports, m.identity()}], p.members[i] = m, m
		if _, known := at[ports]; !known {
			at[ports] = len(out)
			out = append(out, group{ports: ports})
		}
		out[at[ports]].endpoints = append(out[at[ports]].endpoints, m)
	}
	slices.SortFunc(out, func(a, b group) int { return strings.Compare(a.ports, b.ports) })
	return out
}

func memberOf(e *Endpoint) *SliceEndpoint {
	return &SliceEndpoint{Address: e.Address, Hostname: e.Hostname, Pod: e.Pod, Node: e.Node, Zone: e.Zone,
		Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating}
}

// publish puts slices into the service, and into what is to be remembered.
func (p *packer) publish(family string, packs []*pack) {
	index := make(map[*SliceEndpoint]int, len(p.members))
	for i, m := range p.members {
		if _, there := index[m]; !there {
			index[m] = i
		}
	}
	for _, q := range packs {
		s := Slice{Name: q.name, Family: family, Ports: map[string]uint16{}}
		kept := SliceState{Name: q.name, Family: family, Ports: q.ports}
		for i, e := range q.endpoints {
			if i < mirrorLimit { // packed ones never have more
				s.Endpoints = append(s.Endpoints, index[e])
			}
			kept.Endpoints = append(kept.Endpoints, *e)
		}
		if len(s.Endpoints) > 0 {
			s.Ports = p.out.Endpoints[s.Endpoints[0]].Ports
		}
		p.out.Slices = append(p.out.Slices, s)
		p.state.Slices = append(p.state.Slices, kept)
	}
}

// hintEndpoints gives the endpoints the hints of their slices, and says what has become of them.
func (p *packer) hintEndpoints(families []string, problems map[string]string) {
	var reasons []string
	for _, family := range families {
		switch problem := problems[family]; {
		case problem == "":
			p.out.Hints.Mode = p.mode
		case len(families) == 1:
			reasons = append(reasons, problem)
		default:
			reasons = append(reasons, family+": "+problem)
		}
	}
	if len(families) == 0 && p.mode != hintsNone {
		reasons = append(reasons, "no endpoint is ready")
	}
	p.out.Hints.Reason = strings.Join(reasons, "; ")
	for i, m := range p.members {
		p.out.Endpoints[i].ForZones, p.out.Endpoints[i].ForNodes = m.ForZones, m.ForNodes
	}
}
