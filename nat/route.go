package nat

import (
	"fmt"
	"math/bits"

	"sluice/config/topology"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// routeSeed seeds the hash of the tuple that chooses the share of a route. It differs from choiceSeed, so that the flows of
// one share spread over all backends of its service. Like that, it is the same on every gateway.
const routeSeed = 0x726f757465

// Share is a backend of a route, with what the compiler has made of it.
type Share struct {
	Route  *topology.Route
	Index  int   // into Route.Backends
	Weight int   // out of Total
	Total  int   // sum of the weights of the route
	Port   *Port // nil: there is no such service port, and the share is refused
}

// Backend returns the backend of the topology that the share is.
func (s *Share) Backend() *topology.RouteBackend { return &s.Route.Backends[s.Index] }

// route is a compiled route. It spreads flows over service ports by weight; what happens behind a service port is the same as
// for a flow to an external IP of its service.
type route struct {
	route  *topology.Route
	shares []Share
	total  uint64
}

// choose returns the share that hash belongs to, nil when no share has weight. Each share gets its part of all hashes, to
// within one hash.
func (r *route) choose(hash uint64) *Share {
	at, _ := bits.Mul64(hash, r.total) // hash scaled to 0 to total-1
	for i := range r.shares {
		s := &r.shares[i]
		if at < uint64(s.Weight) {
			return s
		}
		at -= uint64(s.Weight)
	}
	return nil
}

// enter chooses the share for a flow to a route and makes f the front of its service port. When that share is refused, it
// returns the decision about the flow, and false. A share is never taken over by others: a fault of one service must
// not load another one more than it is meant to bear (Gateway API, TCPRouteRule.backendRefs).
func (f *front) enter(tu *packet.Tuple) (refusal Decision, ok bool) {
	s := f.route.choose(tu.Hash(routeSeed))
	refusal = Decision{Verdict: refuse(tu.Proto), Reason: reason.RouteBackendInvalid, Share: s}
	if s == nil || s.Port == nil {
		return refusal, false
	}
	f.port, f.share = s.Port, s
	if !s.Port.halves[familyOf(tu.Dst)].usable {
		refusal.Port, refusal.Reason = s.Port, reason.NoEndpoints
		return refusal, false
	}
	return refusal, true
}

// refuse returns what becomes of flows of a refused share: TCP connections are rejected, all else is dropped (Gateway API,
// TCPRouteRule.backendRefs and UDPRouteRule.backendRefs).
func refuse(proto uint8) Verdict {
	if proto == packet.ProtoTCP {
		return Reject
	}
	return Drop
}

// Leads reports whether a flow with the forward tuple tu, under this generation, can have been opened to the service port
// with this number: it is addressed to that port, or to a route that has it, whatever the weight. It does not allocate.
func (t *Table) Leads(tu *packet.Tuple, port uint32) bool {
	f, ok := t.find(tu)
	if !ok || f.route == nil {
		return ok && f.port.ID == port
	}
	for i := range f.route.shares {
		if p := f.route.shares[i].Port; p != nil && p.ID == port {
			return true
		}
	}
	return false
}

// routedKey names a service port in a route.
type routedKey struct {
	service, port string
	proto         topology.Protocol
}

// routedPorts returns the service ports that routes lead to.
func routedPorts(t *topology.Topology) map[routedKey]bool {
	out := map[routedKey]bool{}
	for i := range t.Routes {
		r := &t.Routes[i]
		for _, b := range r.Backends {
			if b.Problem == "" {
				out[routedKey{b.Service, b.Port, r.Protocol}] = true
			}
		}
	}
	return out
}

// addRoutes adds the fronts of all routes. The ports of all services are there.
func (c *compiler) addRoutes() error {
	if len(c.top.Routes) == 0 {
		return nil
	}
	ports := make(map[routedKey]*Port, len(c.table.ports))
	for _, p := range c.table.ports {
		for _, proto := range []topology.Protocol{topology.TCP, topology.UDP} {
			if n, err := protocolNumber(proto); err == nil && n == p.Proto {
				ports[routedKey{p.Service.Key(), p.Name, proto}] = p
			}
		}
	}
	for i := range c.top.Routes {
		if err := c.addRoute(&c.top.Routes[i], ports); err != nil {
			return fmt.Errorf("route %s: %w", c.top.Routes[i].Key(), err)
		}
	}
	return nil
}

// addRoute adds the fronts of a route.
func (c *compiler) addRoute(tr *topology.Route, ports map[routedKey]*Port) error {
	if tr.Protocol != topology.TCP && tr.Protocol != topology.UDP {
		return fmt.Errorf("protocol %q: must be TCP or UDP", tr.Protocol)
	}
	proto, err := protocolNumber(tr.Protocol)
	if err != nil {
		return err
	}
	r := &route{route: tr, shares: make([]Share, len(tr.Backends))}
	for i, b := range tr.Backends {
		r.shares[i] = Share{Route: tr, Index: i, Weight: b.Weight}
		if b.Problem == "" {
			r.shares[i].Port = ports[routedKey{b.Service, b.Port, tr.Protocol}]
		}
		r.total += uint64(b.Weight)
	}
	for i := range r.shares {
		r.shares[i].Total = int(r.total)
	}
	for _, l := range tr.Listen {
		key := frontKey{packet.AddrFrom(l.Addr()), l.Port(), proto}
		if _, taken := c.table.fronts[key]; taken {
			return fmt.Errorf("listener %s/%s is taken", l, tr.Protocol)
		}
		c.table.fronts[key] = front{kind: reason.Route, route: r}
		c.table.addrs[key.addr] |= served
	}
	return nil
}
