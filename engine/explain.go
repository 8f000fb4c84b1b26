package engine

import (
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

func (e *explanation) decided(d *nat.Decision) {
	c := *d
	e.decision = &c
	e.step("flow table", "miss", "no flow has this tuple")
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

func (e *explanation) held(hop *fib.NextHop) {
	e.step("next hop", "waits", "the link-layer address of %v is not known yet", hop.Gateway)
	e.verdict, e.reason = nat.Forward, reason.NeighbourResolved
}

func (e *explanation) sent(frame []byte, why reason.Reason) {
	e.reason = why
	switch why {
	case reason.NoEndpoints, reason.UnknownPort, reason.EndpointRemoved, reason.TTLExceeded, reason.TooBig:
		e.verdict, e.answer = nat.Reject, answerOf(frame)
		e.step("answer", e.answer, "%s", why.Text())
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
