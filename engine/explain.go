package engine

import (
	"cmp"
	"fmt"
	"net/netip"

	"sluice/conntrack"
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
	decision *nat.Decision  // nil when the service table was not asked
	service  uint32         // of the flow: the ID of its service port, 0 without a flow
	backend  netip.AddrPort // of the flow
	source   netip.Addr     // what the flow's packets have as source when they leave; invalid when it is kept
	verdict  nat.Verdict
	reason   reason.Reason
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

func (e *explanation) decided(d *nat.Decision) {
	c := *d
	e.decision = &c
	e.step("flow table", "miss", "no flow has this tuple")
	e.share(d.Share)
	if d.Port == nil {
		e.step("service table", d.Verdict.String(), "%s", d.Reason.Text())
		return
	}
	e.step("service table", d.Port.String(), "%s", d.Reason.Text())
	if d.Backend == nil {
		return
	}
	e.step("choice", d.Backend.AddrPort.String(), "Maglev over the tuple, from %d candidates", len(d.Candidates))
	if d.SNAT {
		e.step("source", d.SNATAddr.String(), "rewritten, so that replies come back to this gateway")
	} else {
		e.step("source", "kept", "the backend sees the client's address; its replies must come by way of this gateway")
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

func (e *explanation) sent(frame []byte, why reason.Reason) {
	e.reason = why
	switch why {
	case reason.NoEndpoints, reason.UnknownPort, reason.RouteBackendInvalid, reason.TTLExceeded, reason.TooBig:
		e.verdict = nat.Reject
		e.step("answer", "icmp", "%s", why.Text())
		return
	case reason.EchoReply:
		e.step("answer", "echo reply", "%s", why.Text())
	default:
		var out packet.Info
		packet.Parse(frame, &out)
		e.step("send", "ok", "%v, TTL %d", out.Tuple, out.TTL)
	}
	e.verdict = nat.Forward
}

func (e *explanation) dropped(why reason.Reason) {
	e.verdict, e.reason = nat.Drop, why
	e.step("drop", why.String(), "%s", why.Text())
}

func (e *explanation) punted(why reason.Reason) {
	e.verdict, e.reason = nat.Pass, why
	e.step("punt", why.String(), "%s", why.Text())
}
