package engine

import (
	"cmp"
	"fmt"
	"net/netip"

	"sluice/conntrack"
	"sluice/dns"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// Step is one thing that happened to a traced packet.
type Step struct {
	Stage  string `json:"stage"`
	Result string `json:"result"`
	Why    string `json:"why"`
}

// explanation collects what a Pipeline does to one packet. A nil one costs a comparison per stage.
type explanation struct {
	steps    []Step
	skipped  []nat.Skip
	decision *nat.Decision  // nil when the service table was not asked
	service  uint32         // of the flow: the ID of its service port, 0 without a flow
	backend  netip.AddrPort // of the flow
	source   netip.Addr     // what the flow's packets have as source when they leave; invalid when it is kept
	verdict  nat.Verdict
	reason   reason.Reason
	answer   string // what a rejected packet was answered with: as gateway.reject_with spells it
}

func (e *explanation) step(stage, result, format string, args ...any) {
	e.steps = append(e.steps, Step{stage, result, fmt.Sprintf(format, args...)})
}

func (e *explanation) parsed(in *packet.Info) {
	e.step("parse", "ok", "IPv%d %v", in.Family, in.Tuple)
}

// flow notes that a packet goes along a flow; one that the packet has just opened is told of by decided.
func (e *explanation) flow(f *conntrack.Flow, d conntrack.Direction) {
	forward, reply := f.Tuple(conntrack.Forward), f.Tuple(conntrack.Reply)
	e.service, e.backend = f.Meta().Service, netip.AddrPortFrom(reply.Src.Netip(), reply.SrcPort)
	if reply.Dst != forward.Src || reply.DstPort != forward.SrcPort {
		e.source = reply.Dst.Netip()
	}
	if e.decision == nil {
		e.step("flow table", "hit", "%s direction of %v, which has replies %v", d, forward, reply)
		return
	}
	e.step("flow table", "insert", "%v, replies %v", forward, reply)
}

// decided tells of a decision of the service table, step by step in the order in which the rules ask.
func (e *explanation) decided(t *nat.Table, d *nat.Decision, in *packet.Info) {
	c := *d
	e.decision = &c
	e.step("flow table", "miss", "no flow has this tuple")
	e.share(d.Share)
	if d.Port == nil {
		e.unmatched(d)
		return
	}
	x := t.Explain(d, &in.Tuple)
	e.skipped = x.Skipped
	e.step("service table", d.Port.String(), "%s", d.Front.Text())
	e.step("client", d.Source.String(), "%s", x.Client)
	e.stepIf("source ranges", rangesResult(d), x.Ranges)
	e.stepIf("policy", fmt.Sprintf("%d candidates", len(d.Candidates)), x.Policy)
	e.stepIf("hints", x.Hints, x.WhyHints)
	for _, s := range x.Skipped {
		e.step("skipped", s.Endpoint, "%s", s.Why)
	}
	if d.Backend != nil {
		e.chosen(d, &x)
	}
}

// unmatched tells of a packet that is addressed to no service port.
func (e *explanation) unmatched(d *nat.Decision) {
	why := d.Reason.Text()
	if d.Verdict == nat.Pass && d.Reason != reason.NotOurs {
		setting := "cluster.unknown_port"
		if d.Reason == reason.Unallocated {
			setting = "cluster.unallocated"
		}
		why += "; left to the kernel by " + setting
	}
	e.step("service table", d.Verdict.String(), "%s", why)
}

// chosen tells of the backend, and of what the packet shows it as source.
func (e *explanation) chosen(d *nat.Decision, x *nat.Explanation) {
	how := "Maglev over the tuple"
	if d.Pin != nat.Unpinned {
		how = "Maglev over the client's address"
	}
	switch d.Pin {
	case nat.PinnedNew:
		e.step("affinity", "new", "%s", x.Pin)
	case nat.PinnedOld:
		e.step("affinity", "pinned", "%s", x.Pin)
		how = "by session affinity"
	}
	e.step("choice", d.Backend.AddrPort.String(), "%s, from %d candidates", how, len(d.Candidates))
	if d.SNAT {
		e.step("source", d.SNATAddr.String(), "%s; replies come back to this gateway", x.Masquerade)
		return
	}
	e.step("source", "kept", "%s; the backend's replies must come by way of this gateway", x.Masquerade)
}

// rangesResult is the result of the step about source ranges.
func rangesResult(d *nat.Decision) string {
	if d.Reason == reason.SourceRange {
		return "refused"
	}
	return "passed"
}

// stepIf adds a step that has something to say.
func (e *explanation) stepIf(stage, result, why string) {
	if why != "" {
		e.step(stage, result, "%s", why)
	}
}

// share tells of the choice among the backends of a route; nil: there was none.
func (e *explanation) share(s *nat.Share) {
	if s == nil {
		return
	}
	b := s.Backend()
	name, why := b.Service, "its share of the flows, by the hash of the tuple"
	if b.Port != "" {
		name += ":" + b.Port
	}
	if s.Port == nil {
		why += "; it is refused: " + cmp.Or(b.Problem, "the service is another proxy's")
	}
	e.step("route", s.Route.Key(), "%s of %d backends; chosen: %s, weight %d of %d: %s",
		s.Route.Protocol, len(s.Route.Backends), name, s.Weight, s.Total, why)
}

func (e *explanation) held(hop *fib.NextHop) {
	e.step("next hop", "waits", "the link-layer address of %v is not known yet", hop.Gateway)
	e.verdict, e.reason = nat.Forward, reason.NeighbourResolved
}

func (e *explanation) fragmentHeld() {
	e.step("fragments", "waits", "the first fragment of its datagram, which has the ports, has not come")
	e.verdict, e.reason = nat.Drop, reason.FragmentTimeout
}

func (e *explanation) sent(frame []byte, why reason.Reason) {
	e.reason = why
	switch why {
	case reason.NoEndpoints, reason.UnknownPort, reason.RouteBackendInvalid, reason.EndpointRemoved, reason.TTLExceeded,
		reason.TooBig:
		e.verdict, e.answer = nat.Reject, answerOf(frame)
		e.step("answer", e.answer, "%s", why.Text())
		return
	case reason.EchoReply:
		e.step("answer", "echo reply", "%s", why.Text())
	case reason.DNSAnswered:
		// answered has told of it.
	default:
		var out packet.Info
		packet.Parse(frame, &out)
		e.step("send", "ok", "%v, TTL %d", out.Tuple, out.TTL)
	}
	e.verdict = nat.Forward
}

// answered tells of a DNS reply.
func (e *explanation) answered(reply []byte, rcode int) {
	e.step("dns", dns.RCodeName(rcode), "answered by this gateway in %d bytes: 'sluice dig' prints answers", len(reply))
}

// answerOf names what a frame that we send as an answer is.
func answerOf(frame []byte) string {
	var out packet.Info
	if packet.Parse(frame, &out); out.Proto == packet.ProtoTCP {
		return rejectReset
	}
	return "icmp"
}

func (e *explanation) dropped(why reason.Reason) {
	e.verdict, e.reason = nat.Drop, why
	e.step("drop", why.String(), "%s", why.Text())
}

func (e *explanation) punted(why reason.Reason) {
	e.verdict, e.reason = nat.Pass, why
	e.step("punt", why.String(), "%s", why.Text())
}
