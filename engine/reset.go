package engine

import (
	"sluice/conntrack"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// rejectReset is the value of gateway.reject_with that has TCP refused with a RST.
const rejectReset = "tcp-reset"

// answerReset turns a segment that is refused into the RST that answers it, and sends it back by the way it came. Nothing
// answers a RST, nor a segment that was damaged on its way: its ports and numbers may be another connection's.
func (p *Pipeline) answerReset(f *xdp.Frame, why reason.Reason) {
	if !packet.MayAnswer(f.Bytes(), p.in) || !p.isIntact(f) || p.in.TCPFlags&packet.TCPRst != 0 {
		p.drop(f, why)
		return
	}
	if !p.rejects.take(p.now) {
		p.drop(f, reason.RateLimited)
		return
	}
	p.turnBack(f)
	p.send(f, f.Iface, why)
}

// turnBack makes a segment that is no RST the RST that answers it.
func (p *Pipeline) turnBack(f *xdp.Frame) {
	f.Start, f.End, _ = packet.BuildReset(f.Buf, f.Start, f.End, p.in)
}

// isIntact reports whether the checksums of a segment are right. One that its sender has left to its network card
// (packet.IsPartial) is taken for right, as where packets are translated (nat.Auto).
func (p *Pipeline) isIntact(f *xdp.Frame) bool {
	if !packet.VerifyIP(f.Bytes(), p.in) {
		return false
	}
	return packet.VerifyL4(f.Bytes(), p.in) || p.Checksum != nat.Incremental && packet.IsPartial(f.Bytes(), p.in)
}

// mayBeReset reports whether there is something to reset: a RST resets by itself, and a connection that both ends have
// finished is only to have its last segments.
func (p *Pipeline) mayBeReset(flow *conntrack.Flow) bool {
	return p.in.TCPFlags&packet.TCPRst == 0 && flow.State() != conntrack.TimeWait
}

// reset ends a connection whose endpoint has left: its segment, which is no RST, is answered with one and goes on as one,
// so that both ends know. The answer is exact. The RST that goes on is when nothing was lost or overtaken before it;
// otherwise its receiver asks back with an ACK. The flow stays for that, as one that is closed: whatever else comes in it
// is answered likewise, until it has been silent for conntrack.tcp_close. Since each RST answers a segment of a tracked
// flow, and is no longer than that, they are not limited in number.
func (p *Pipeline) reset(f *xdp.Frame, flow *conntrack.Flow, d conntrack.Direction, to *packet.Tuple, hop *fib.NextHop) {
	if !p.isIntact(f) {
		p.drop(f, reason.Malformed)
		return
	}
	if !p.track(f, flow, d) {
		p.drop(f, reason.OutOfWindow) // forged or strayed: neither end would believe the RSTs that are made of it
		return
	}
	p.Flows.End(flow)
	p.Stale.remember(flow, p.now) // if its RST is lost, the endpoint goes on when the flow is over
	if noWay(hop) != reason.Unknown || p.in.TTL <= 1 {
		p.turnBack(f)
		p.send(f, f.Iface, reason.EndpointRemoved)
		return
	}
	if answer, ok := p.Port.Alloc(); ok { // without one the sender learns of it by its next segment
		headers := f.Bytes()[:min(f.End-f.Start, p.in.L4+maxTCPHeader)]
		answer.End = answer.Start + copy(answer.Buf[answer.Start:], headers)
		answer.Iface = f.Iface
		p.turnBack(&answer)
		p.queue(&answer, answer.Iface) // not counted: what has come in is counted as it goes on
	}
	f.End, _ = packet.PassReset(f.Buf, f.Start, f.End, p.in)
	p.forward(f, to, hop, reason.EndpointRemoved)
}

// maxTCPHeader is the length of the longest TCP header.
const maxTCPHeader = 60
