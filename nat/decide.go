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

// source says where a packet comes from, as far as the rules care.
type source uint8

const (
	outside source = iota
	pod
	node
)

// Decide says what becomes of the first packet of a flow, whose tuple is tu. fromNode says that a process of the
// gateway itself has sent it; packets whose source is an address of the gateway count as such too.
//
// The backend is chosen by the hash of the whole tuple, source port included, so that the connections of one client
// spread like those of many. Decide knows TCP and UDP; ICMP to service addresses is answered or related to flows
// before it is asked, and it drops what is left. Whether the packet may be the first of a flow at all (a TCP segment
// without SYN may not) is the caller's to judge.
//
// It does not allocate.
func (t *Table) Decide(tu *packet.Tuple, fromNode bool) Decision {
	f, ok := t.find(tu)
	if !ok {
		return t.decideUnmatched(tu)
	}
	if f.route != nil {
		if refusal, ok := f.enter(tu); !ok {
			return refusal
		}
	}
	d := Decision{Reason: f.kind, Port: f.port, Share: f.share}
	h := &f.port.halves[familyOf(tu.Dst)]
	if f.kind == reason.LoadBalancer && !h.ranges.allow(tu.Src) {
		d.Reason = reason.SourceRange
		return d
	}
	if !h.usable {
		d.Verdict, d.Reason = Reject, reason.NoEndpoints
		return d
	}
	s, snat := t.route(f, familyOf(tu.Dst), t.sourceOf(tu.Src, fromNode))
	if len(s.backends) == 0 {
		d.Reason = reason.NoLocalEndpoints
		return d
	}
	d.Backend, d.Candidates, d.SNAT = s.pick(tu.Hash(choiceSeed)), s.backends, snat
	return t.masquerade(d, tu)
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
// or that a service of another proxy uses too, is only partly ours: the rest of it is the kernel's.
func (t *Table) decideUnmatched(tu *packet.Tuple) Decision {
	use := t.addrs[tu.Dst]
	_, own := t.local[tu.Dst]
	switch {
	case own || use&foreign != 0:
		return Decision{Verdict: Pass, Reason: reason.NotOurs}
	case use&served != 0 && (tu.Proto == packet.ProtoTCP || tu.Proto == packet.ProtoUDP):
		return Decision{Verdict: Reject, Reason: reason.UnknownPort}
	case use&served != 0:
		return Decision{Reason: reason.UnsupportedProtocol}
	case t.ranges.contains(tu.Dst):
		return Decision{Reason: reason.Unallocated}
	}
	return Decision{Verdict: Pass, Reason: reason.NotOurs}
}

// sourceOf classifies the source of a packet. Pods come first, as in kube-proxy: an address of the gateway inside
// pod_cidrs (that of a bridge) is reached by pods' replies like a pod.
func (t *Table) sourceOf(src packet.Addr, fromNode bool) source {
	if t.pods.contains(src) {
		return pod
	}
	if _, own := t.local[src]; own || fromNode {
		return node
	}
	return outside
}

// route returns the set of backends for a packet from src to f, and whether its source is rewritten.
//
// A ClusterIP obeys the internal traffic policy. It keeps the source of pods; others would get the reply from an
// address they never spoke to, unless nobody can tell pods from others (no pod_cidrs of the family).
//
// All other fronts obey the external traffic policy: Cluster rewrites every source. Local keeps it and uses the
// endpoints of this node, save for pods and for the node itself, which behave as inside the cluster and may use any
// endpoint; only the node's source is rewritten.
func (t *Table) route(f front, v family, src source) (*set, bool) {
	svc, h := f.port.Service, &f.port.halves[v]
	if f.kind == reason.ClusterIP {
		snat := t.masqueradeAll || len(t.pods[v]) > 0 && src != pod
		if svc.InternalTrafficPolicy == topology.PolicyLocal {
			return &h.local, snat
		}
		return &h.cluster, snat
	}
	if svc.ExternalTrafficPolicy != topology.PolicyLocal {
		return &h.cluster, true
	}
	switch src {
	case pod:
		return &h.cluster, false
	case node:
		return &h.cluster, true
	}
	return &h.local, false
}

// masquerade completes a decision to forward: a backend that is its own client must see another source, or it would
// answer itself directly; and where the source is rewritten there must be an address to rewrite it to.
func (t *Table) masquerade(d Decision, tu *packet.Tuple) Decision {
	if d.Backend.Addr == tu.Src {
		d.SNAT, d.Reason = true, reason.Hairpin
	}
	f := familyOf(tu.Dst)
	if d.SNAT && !t.hasSNAT[f] {
		return Decision{Reason: reason.NoSNATAddress, Port: d.Port, Share: d.Share, Candidates: d.Candidates}
	}
	if d.SNAT {
		d.SNATAddr = t.snat[f]
	}
	d.Verdict = Forward
	return d
}
