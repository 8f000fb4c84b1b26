package nat

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// Explanation says in words why a decision is as it is. Texts that do not apply are empty.
type Explanation struct {
	Client     string // how the class of the source was found
	Ranges     string // what the source ranges say
	Policy     string // the traffic policy that holds, and whom it leaves
	Hints      string // by which hints the endpoints are narrowed: "node NAME", "zone NAME" or "off"
	WhyHints   string
	Pin        string // what session affinity does
	Masquerade string // why the source is rewritten, or kept
	Skipped    []Skip // the endpoints of the packet's family that were no candidates, in the order of the topology
}

// Skip is an endpoint that was no candidate.
type Skip struct {
	Endpoint string // address:port; the address alone when it does not serve the port
	Why      string
}

// Explain explains a decision of this table about a packet to a service port. It is for people, and costs accordingly.
func (t *Table) Explain(d *Decision, tu *packet.Tuple) Explanation {
	f := familyOf(tu.Dst)
	e := Explanation{Client: t.explainClient(d.Source), Ranges: explainRanges(d, f)}
	if d.Reason == reason.SourceRange {
		return e
	}
	e.Policy = explainPolicy(d)
	e.Hints, e.WhyHints = t.explainHints(d, f)
	e.Skipped = t.skipped(d, f)
	if d.Verdict == Forward {
		e.Pin = explainPin(d)
		e.Masquerade = t.explainMasquerade(d, f)
	}
	return e
}

func (t *Table) explainClient(s Source) string {
	switch s {
	case PodByAddress:
		return "its address is in gateway.pod_cidrs"
	case PodByInterface:
		return "it came in on one of gateway.pod_interfaces"
	case Node:
		return "a process or an address of the gateway itself"
	}
	return "neither in gateway.pod_cidrs, nor by an interface of pods, nor the gateway's own"
}

// explainRanges says what the source ranges of the service mean for a decision; "" when it has none of this family.
func explainRanges(d *Decision, f family) string {
	r := &d.Port.halves[f].ranges
	fr := front{port: d.Port, kind: d.Front}
	switch {
	case len(r.list) == 0:
		return ""
	case !fr.filtered():
		return "not asked: load_balancer_source_ranges hold for load-balancer VIPs alone"
	case d.Reason != reason.SourceRange:
		return "the source may use the service"
	case r.deny:
		return "the source is in a range that is denied"
	}
	return "the source is in no range that is allowed"
}

// isLocal reports whether the decision was made over the endpoints of this node.
func (d *Decision) isLocal() bool { return d.set != nil && d.set.bit == localSet }

func explainPolicy(d *Decision) string {
	svc := d.Port.Service
	switch {
	case d.set == nil:
		return ""
	case d.Front == reason.ClusterIP && d.isLocal():
		return "internal traffic policy Local: endpoints of this node"
	case d.Front == reason.ClusterIP:
		return "internal traffic policy Cluster: endpoints of all nodes"
	case d.isLocal():
		return "external traffic policy Local: endpoints of this node"
	case svc.ExternalTrafficPolicy == topology.PolicyLocal:
		return "external traffic policy Local does not bind pods and the gateway itself: endpoints of all nodes"
	}
	return "external traffic policy Cluster: endpoints of all nodes"
}

// explainHints says which hints are followed, and why not; "" when neither the service nor its endpoints have any.
func (t *Table) explainHints(d *Decision, f family) (mode, why string) {
	list, ready := eligible(ofFamily(d.Port.backends, f), false)
	svc := d.Port.Service
	if len(list) == 0 || svc.TrafficDistribution == "" && svc.Hints.Reason == "" && !slices.ContainsFunc(list, isHinted) {
		return "", ""
	}
	switch {
	case d.isLocal():
		return "off", "traffic policy Local: hints are not asked"
	case !ready:
		return "off", "no endpoint is ready: hints are not asked"
	}
	gw := t.gateway
	c := chooseHints(list, gw.Node, gw.Zone)
	switch c.mode {
	case nodeHints:
		return "node " + gw.Node, "every ready endpoint has a node hint, and one names this node"
	case zoneHints:
		return "zone " + gw.Zone, c.node.text("node", gw.Node) + "; every ready endpoint has a zone hint, and one names this zone"
	}
	reasons := []string{c.node.text("node", gw.Node), c.zone.text("zone", gw.Zone)}
	if svc.Hints.Reason != "" {
		reasons = append(reasons, "none were computed: "+svc.Hints.Reason)
	}
	return "off", strings.Join(reasons, "; ")
}

func isHinted(b *Backend) bool { return len(b.Endpoint.ForZones) > 0 || len(b.Endpoint.ForNodes) > 0 }

func explainPin(d *Decision) string {
	switch d.Pin {
	case PinnedNew:
		return "the client is pinned to this choice, by its address alone"
	case PinnedOld:
		return "the client has this backend from before"
	}
	return ""
}

// explainMasquerade says by which rule the source is rewritten or kept.
func (t *Table) explainMasquerade(d *Decision, f family) string {
	local := d.Port.Service.ExternalTrafficPolicy == topology.PolicyLocal
	switch {
	case d.Reason == reason.Hairpin:
		return "the backend is the packet's own source: it would answer itself directly"
	case d.Front == reason.ClusterIP && d.SNAT && t.masqueradeAll:
		return "gateway.masquerade_all"
	case d.Front == reason.ClusterIP && d.SNAT:
		return "the client is no pod: the reply would come from an address that it never spoke to"
	case d.Front == reason.ClusterIP && !t.tellsPods(f):
		return "without pod_cidrs and pod_interfaces a ClusterIP rewrites nobody's source"
	case d.Front == reason.ClusterIP:
		return "a ClusterIP keeps the source of pods"
	case d.SNAT && local:
		return "external traffic policy Local rewrites the source of the gateway itself alone"
	case d.SNAT:
		return "external traffic policy Cluster rewrites every source"
	}
	return "external traffic policy Local keeps the source"
}

// skipped lists the endpoints that were no candidates.
func (t *Table) skipped(d *Decision, f family) (out []Skip) {
	list, _ := eligible(ofFamily(d.Port.backends, f), false)
	mode := chooseHints(list, t.gateway.Node, t.gateway.Zone).mode
	svc := d.Port.Service
	for i := range svc.Endpoints {
		if e := &svc.Endpoints[i]; familyOfIP(e.Address) == f {
			if s := d.skip(e, mode); s.Why != "" {
				out = append(out, s)
			}
		}
	}
	return out
}

// skip says why an endpoint was no candidate; Why is "" for one that was.
func (d *Decision) skip(e *topology.Endpoint, mode hintMode) Skip {
	port := e.Ports[d.Port.Name]
	if port == 0 {
		return Skip{e.Address.Unmap().String(), "does not serve this port"}
	}
	addr := netip.AddrPortFrom(e.Address.Unmap(), port)
	i := slices.IndexFunc(d.Port.backends, func(b *Backend) bool { return b.AddrPort == addr })
	b := d.Port.backends[i]
	switch {
	case b.Endpoint != e:
		return Skip{addr.String(), "another entry has this address"}
	case slices.Contains(d.Candidates, b):
		return Skip{}
	}
	return Skip{addr.String(), b.whySkipped(d.isLocal(), mode)}
}

// whySkipped says why a backend is not in a set, that of this node's if local, in the order in which eligible and near ask.
func (b *Backend) whySkipped(local bool, mode hintMode) string {
	switch e := b.Endpoint; {
	case b.Down:
		return "down: health check"
	case b.Weight == 0:
		return "weight 0"
	case local && !b.Local:
		return "not on this node"
	case e.Ready && mode == nodeHints:
		return "hints name other nodes"
	case e.Ready:
		return "hints name other zones"
	case e.Terminating && !e.Serving:
		return "terminating and not serving"
	case e.Terminating:
		return "terminating"
	}
	return "not ready"
}

// String returns "endpoint: why".
func (s Skip) String() string { return fmt.Sprintf("%s: %s", s.Endpoint, s.Why) }
