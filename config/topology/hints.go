package topology

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// The modes of HintsStatus.
const (
	hintsNone       = "none"
	hintsTopology   = "topology"
	preferSameZone  = "PreferSameZone"
	preferSameNode  = "PreferSameNode"
	preferClose     = "PreferClose" // the older name of PreferSameZone
	topologyMode    = "service.kubernetes.io/topology-mode"
	topologyModeOld = "service.kubernetes.io/topology-aware-hints"
)

// hintsMode returns the mode that a service asks for. The annotation wins over traffic_distribution, and of the two annotations
// the older one, as in Kubernetes.
func hintsMode(s *Service) string {
	v, ok := s.Annotations[topologyModeOld]
	if !ok {
		v = s.Annotations[topologyMode]
	}
	switch {
	case v == "Auto" || v == "auto":
		return hintsTopology
	case s.TrafficDistribution == preferSameNode:
		return preferSameNode
	case s.TrafficDistribution == preferSameZone || s.TrafficDistribution == preferClose:
		return preferSameZone
	}
	return hintsNone
}

// overload is how much more than its share an endpoint may get, so that hints need not change with each endpoint (KEP-2433).
const overload = 0.2

// zoneShares is the part of the cluster's processors that each zone has.
type zoneShares struct {
	byZone  map[string]float64
	problem string // why there are none; "" when there are
}

// shareZones adds up the processors of nodes that are ready and not of the control plane. One of them without zone or
// processors spoils it for all: what it adds to its zone is not known (k8s.io/endpointslice, SetNodes).
func shareZones(nodes []Node) zoneShares {
	byZone, total := map[string]float64{}, 0.0
	for _, n := range nodes {
		switch {
		case n.ControlPlane || !n.Ready:
			continue
		case n.Zone == "":
			return zoneShares{problem: fmt.Sprintf("node %q has no zone", n.Name)}
		case n.CPU <= 0:
			return zoneShares{problem: fmt.Sprintf("node %q has no cpu", n.Name)}
		}
		byZone[n.Zone] += n.CPU
		total += n.CPU
	}
	switch len(byZone) {
	case 0:
		return zoneShares{problem: "no node is ready and not of the control plane"}
	case 1:
		return zoneShares{problem: "all nodes that count are in one zone"}
	}
	for zone := range byZone {
		byZone[zone] /= total
	}
	return zoneShares{byZone: byZone}
}

// allocation is how many of the ready endpoints a zone is to have. Below the minimum they would be overloaded.
type allocation struct {
	minimum, maximum int
	desired          float64
}

// allocate distributes n ready endpoints over the zones (k8s.io/endpointslice, getAllocations), or says why it cannot.
func (z zoneShares) allocate(n int) (map[string]allocation, string) {
	if z.problem != "" {
		return nil, z.problem
	}
	if n < len(z.byZone) {
		return nil, fmt.Sprintf("fewer ready endpoints than zones: %d and %d", n, len(z.byZone))
	}
	out, sum := make(map[string]allocation, len(z.byZone)), 0
	for zone, share := range z.byZone {
		desired := share * float64(n)
		minimum := int(math.Ceil(desired * (1 / (1 + overload))))
		out[zone] = allocation{minimum: minimum, desired: max(desired, float64(minimum))}
		sum += minimum
	}
	if sum > n {
		return nil, fmt.Sprintf("%d ready endpoints cannot be spread over %d zones without overload: %d are needed",
			n, len(z.byZone), sum)
	}
	for zone, a := range out {
		a.maximum = a.minimum + n - sum
		out[zone] = a
	}
	return out, ""
}

// balance returns how many hints each zone gives away and receives, for the numbers that the zones have now
// (k8s.io/endpointslice, getGivingAndReceivingZones).
func balance(wanted map[string]allocation, have map[string]int) (give, receive map[string]int) {
	surplus, need := map[string]float64{}, map[string]float64{}
	for zone, a := range wanted {
		if d := float64(have[zone]) - a.desired; d > 0 {
			surplus[zone] = d
		} else if d < 0 {
			need[zone] = -d
		}
	}
	give, receive = map[string]int{}, map[string]int{}
	for {
		from, most := largest(surplus)
		to, least := largest(need)
		if from == "" || to == "" || most < 1 && least < 1 || most < 0.5 || least < 0.5 {
			return give, receive
		}
		surplus[from]--
		need[to]--
		give[from]++
		receive[to]++
	}
}

// largest returns the zone with the largest number above 0, of equals the first by name; "" for none.
func largest(of map[string]float64) (zone string, n float64) {
	for _, z := range slices.Sorted(maps.Keys(of)) {
		if of[z] > n {
			zone, n = z, of[z]
		}
	}
	return zone, n
}

// topologyHints gives the ready endpoints of a family zones in proportion to the processors of the zones (k8s.io/endpointslice,
// AddHints). Slices that have not changed keep their hints as long as no zone has more than its maximum. It returns why there
// are none, "" when there are.
func (p *plan) topologyHints(z zoneShares) string {
	wanted, problem := z.allocate(p.ready())
	if problem == "" {
		have := p.keepHints(wanted)
		problem = p.ownZones(have)
		if problem == "" {
			give, receive := balance(wanted, have)
			p.redistribute(give, receive)
			return ""
		}
	}
	p.clearHints()
	return problem
}

// ready counts the ready endpoints.
func (p *plan) ready() (n int) {
	for _, q := range slices.Concat(p.create, p.update, p.unchanged) {
		for _, e := range q.endpoints {
			if e.Ready {
				n++
			}
		}
	}
	return n
}

// clearHints takes all hints away.
func (p *plan) clearHints() {
	for _, q := range slices.Concat(p.create, p.update, p.unchanged) {
		q.clearHints()
	}
}

func (p *pack) clearHints() {
	for _, e := range p.endpoints {
		e.ForZones, e.ForNodes = nil, nil
	}
}

// keepHints counts the hints of unchanged slices by zone. A slice whose hints cannot stay counts as one to update from here on.
func (p *plan) keepHints(wanted map[string]allocation) map[string]int {
	have := map[string]int{}
	var keep []*pack
	for _, q := range p.unchanged {
		own, ok := q.hintsByZone(wanted)
		for zone, n := range own {
			ok = ok && have[zone]+n <= wanted[zone].maximum
		}
		if !ok {
			p.update = append(p.update, q)
			continue
		}
		keep = append(keep, q)
		for zone, n := range own {
			have[zone] += n
		}
	}
	p.unchanged = keep
	return have
}

// hintsByZone counts the hints of a slice; ok is false when a ready endpoint has none, or one for a zone that gets nothing.
func (p *pack) hintsByZone(wanted map[string]allocation) (own map[string]int, ok bool) {
	own = map[string]int{}
	for _, e := range p.endpoints {
		if !e.Ready {
			continue
		}
		if len(e.ForZones) == 0 || len(e.ForNodes) > 0 {
			return nil, false
		}
		for _, zone := range e.ForZones {
			if _, known := wanted[zone]; !known {
				return nil, false
			}
			own[zone]++
		}
	}
	return own, true
}

// ownZones makes each ready endpoint of the slices that are written serve its own zone, and adds them to have.
func (p *plan) ownZones(have map[string]int) (problem string) {
	for _, q := range slices.Concat(p.create, p.update) {
		q.clearHints()
		for _, e := range q.endpoints {
			switch {
			case !e.Ready:
			case e.Zone == "":
				return fmt.Sprintf("endpoint %v has no zone", e.Address)
			default:
				e.ForZones = []string{e.Zone}
				have[e.Zone]++
			}
		}
	}
	return ""
}

// redistribute hands endpoints of zones with too many to zones with too few.
func (p *plan) redistribute(give, receive map[string]int) {
	zones := slices.Sorted(maps.Keys(receive))
	for _, q := range slices.Concat(p.create, p.update) {
		for _, e := range q.endpoints {
			if !e.Ready || give[e.Zone] == 0 {
				continue
			}
			i := slices.IndexFunc(zones, func(z string) bool { return receive[z] > 0 })
			if i < 0 {
				return
			}
			e.ForZones = []string{zones[i]}
			give[e.Zone]--
			receive[zones[i]]--
		}
	}
}

// ownHints makes each ready endpoint serve its own zone, and with nodes its own node (k8s.io/endpointslice, trafficdist). It
// returns why there is no hint, "" when there is one.
func (p *plan) ownHints(nodes bool) string {
	p.clearHints()
	hinted := false
	for _, q := range slices.Concat(p.create, p.update, p.unchanged) {
		for _, e := range q.endpoints {
			if e.Ready && e.Zone != "" {
				e.ForZones, hinted = []string{e.Zone}, true
			}
			if e.Ready && nodes && e.Node != "" {
				e.ForNodes, hinted = []string{e.Node}, true
			}
		}
	}
	switch {
	case hinted:
		return ""
	case p.ready() == 0:
		return "no endpoint is ready"
	case nodes:
		return "no ready endpoint has a node or a zone"
	}
	return "no ready endpoint has a zone"
}
