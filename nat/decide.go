package nat

import (
	"sluice/config/topology"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// choiceSeed seeds the hash of the tuple that chooses the backend. It is fixed, so that every gateway chooses alike;
// changing it moves every flow that has no entry in the flow table yet.
const choiceSeed = 0x736c75696365

// frontKey is what a packet to a service address is looked up by.
type frontKey struct {
	addr  packet.Addr
	port  uint16
	proto uint8
}

// nodePortKey is what a packet to a NodePort address is looked up by.
type nodePortKey struct {
	family family
	proto  uint8
	port   uint16
}

// front is the way into a service port.
type front struct {
	port *Port
	kind reason.Reason // reason.ClusterIP, LoadBalancer, ExternalIP, NodePort or Route

	// Of a route, whose port depends on the flow: enter sets port and share.
	route *route
	share *Share
}

// Decide says what becomes of the first packet of a flow, whose tuple is tu and which comes from where from says.
//
// The backend is chosen by the hash of the whole tuple, source port included, so that the connections of one client
// spread like those of many; with session affinity by the client's address alone, and Stick then honours the pins. What is
// no protocol of services is decided by its addresses. Whether the packet may be the first of a flow at all (a TCP segment
// without SYN may not) is the caller's to judge.
//
// It does not allocate.
func (t *Table) Decide(tu *packet.Tuple, from Origin) Decision {
	f, ok := t.find(tu)
	if !ok {
		return t.decideUnmatched(tu)
	}
	if f.route != nil {
		if refusal, ok := f.enter(tu); !ok {
			return refusal
		}
	}
	d := Decision{Reason: f.kind, Front: f.kind, Port: f.port, Share: f.share, Source: t.sourceOf(tu.Src, from)}
	h := &f.port.halves[familyOf(tu.Dst)]
	if !f.admits(h, tu.Src) {
		d.Reason = reason.SourceRange
		return d
	}
	if !h.usable {
		d.Verdict, d.Reason = Reject, reason.NoEndpoints
		return d
	}
	d.set, d.snat = t.route(f, familyOf(tu.Dst), d.Source)
	d.Candidates = d.set.backends
	if len(d.Candidates) == 0 {
		d.Reason = reason.NoLocalEndpoints
		return d
	}
	return t.masquerade(d, f.port.choose(d.set, tu), tu)
}

// admits reports whether src may be the source of a flow to this front of a service. The ranges are asked before all
// else, so that whoever is refused learns nothing of the endpoints.
func (f *front) admits(h *half, src packet.Addr) bool { return !f.filtered() || h.ranges.allow(src) }

// filtered reports whether the source ranges of the service hold for this front.
func (f *front) filtered() bool {
	return f.kind == reason.LoadBalancer || f.port.Service.SourceRangesAll
}

// Leads reports whether a flow with the forward tuple tu, under this generation, can have been opened to the service port with
// this number: it is addressed to that port, or to a route that has it, whatever the weight. Traffic policies, source ranges
// and the state of endpoints are not asked.
func (t *Table) Leads(tu *packet.Tuple, port uint32) bool {
	_, ok := t.wayTo(tu, port)
	return ok
}

// Admits is Leads for a flow whose client the source ranges have to allow.
func (t *Table) Admits(tu *packet.Tuple, port uint32) bool {
	f, ok := t.wayTo(tu, port)
	return ok && f.admits(&f.port.halves[familyOf(tu.Dst)], tu.Src)
}

// wayTo returns the front that tu is addressed to as the way into the service port with this number, if it is one.
func (t *Table) wayTo(tu *packet.Tuple, port uint32) (front, bool) {
	f, ok := t.find(tu)
	if !ok || f.route == nil {
		return f, ok && f.port.ID == port
	}
	for i := range f.route.shares {
		if p := f.route.shares[i].Port; p != nil && p.ID == port {
			f.port = p
			return f, true
		}
	}
	return front{}, false
}

// find returns the front that tu is addressed to.
func (t *Table) find(tu *packet.Tuple) (front, bool) {
	if f, ok := t.fronts[frontKey{tu.Dst, tu.DstPort, tu.Proto}]; ok {
		return f, true
	}
	if _, ok := t.nodeAddrs[tu.Dst]; !ok {
		return front{}, false
	}
	p, ok := t.nodePorts[nodePortKey{familyOf(tu.Dst), tu.Proto, tu.DstPort}]
	return front{port: p, kind: reason.NodePort}, ok
}

// decideUnmatched decides about a packet that is addressed to no service port. An address that is the gateway's own,
// or that a service of another proxy uses too, is only partly ours: the rest of it is the kernel's. The kernel gets
// the others as well where cluster.unknown_port and cluster.unallocated say so; the reason is the same then.
func (t *Table) decideUnmatched(tu *packet.Tuple) Decision {
	use := t.addrs[tu.Dst]
	_, own := t.local[tu.Dst]
	switch {
	case own || use&foreign != 0:
		return Decision{Verdict: Pass, Reason: reason.NotOurs}
	case use&served != 0 && (tu.Proto == packet.ProtoTCP || tu.Proto == packet.ProtoUDP || tu.Proto == packet.ProtoSCTP):
		return Decision{Verdict: passIf(t.cluster.UnknownPort, Reject), Reason: reason.UnknownPort}
	case use&served != 0:
		return Decision{Verdict: passIf(t.cluster.UnknownPort, Drop), Reason: reason.UnsupportedProtocol}
	case t.ranges.contains(tu.Dst):
		return Decision{Verdict: passIf(t.cluster.Unallocated, Drop), Reason: reason.Unallocated}
	}
	return Decision{Verdict: Pass, Reason: reason.NotOurs}
}

// passIf returns Pass for the setting "pass", and otherwise what is done by default.
func passIf(setting string, otherwise Verdict) Verdict {
	if setting == "pass" {
		return Pass
	}
	return otherwise
}

// route returns the set of backends for a packet from src to f, and whether its source is rewritten.
//
// A ClusterIP obeys the internal traffic policy. It keeps the source of pods; others would get the reply from an
// address they never spoke to, unless nobody can tell pods from others (neither pod_cidrs of the family nor
// pod_interfaces).
//
// All other fronts obey the external traffic policy: Cluster rewrites every source. Local keeps it and uses the
// endpoints of this node, save for pods and for the node itself, which behave as inside the cluster and may use any
// endpoint; only the node's source is rewritten.
func (t *Table) route(f front, v family, src Source) (*set, bool) {
	svc, h := f.port.Service, &f.port.halves[v]
	if f.kind == reason.ClusterIP {
		snat := t.masqueradeAll || t.tellsPods(v) && !src.isPod()
		if svc.InternalTrafficPolicy == topology.PolicyLocal {
			return &h.local, snat
		}
		return &h.cluster, snat
	}
	if svc.ExternalTrafficPolicy != topology.PolicyLocal {
		return &h.cluster, true
	}
	switch {
	case src.isPod():
		return &h.cluster, false
	case src == Node:
		return &h.cluster, true
	}
	return &h.local, false
}

// masquerade completes a decision to forward to b: a backend that is its own client must see another source, or it would
// answer itself directly; and where the source is rewritten there must be an address to rewrite it to.
func (t *Table) masquerade(d Decision, b *Backend, tu *packet.Tuple) Decision {
	d.Verdict, d.Reason, d.Backend, d.SNAT = Forward, d.Front, b, d.snat
	if b.Addr == tu.Src {
		d.SNAT, d.Reason = true, reason.Hairpin
	}
	if !d.SNAT {
		return d
	}
	f := familyOf(tu.Dst)
	if !t.hasSNAT[f] {
		d.Verdict, d.Reason, d.Backend, d.SNAT = Drop, reason.NoSNATAddress, nil, false
		return d
	}
	d.SNATAddr = t.snat[f]
	return d
}
