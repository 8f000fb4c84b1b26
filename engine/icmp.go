package engine

import (
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// icmp deals with ICMP and ICMPv6: echo requests to service addresses are answered, errors about packets of our flows
// are translated, and the rest is dropped for a service address and the kernel's otherwise.
func (p *Pipeline) icmp(f *xdp.Frame) {
	switch {
	case isNeighbourDiscovery(p.in):
		p.punt(f) // also for a service address: who answers for it on the link is the kernel's to say
	case p.in.ICMPError:
		p.icmpError(f)
	case p.in.IsEcho() && p.snap.NAT.IsServiceAddr(p.in.Tuple.Dst):
		p.echo(f)
	default:
		p.unmatched(f)
	}
}

// isNeighbourDiscovery reports whether the packet is one of router and neighbour discovery or a redirect (RFC 4861).
func isNeighbourDiscovery(in *packet.Info) bool {
	return in.Family == 6 && in.ICMPType >= 133 && in.ICMPType <= 137
}

// echo answers an echo request by the way it came.
func (p *Pipeline) echo(f *xdp.Frame) {
	why := p.refused(f)
	switch {
	case why != reason.Unknown:
		p.drop(f, why)
	case !packet.VerifyL4(f.Bytes(), p.in):
		p.drop(f, reason.BadICMP)
	case !packet.MayAnswer(f.Bytes(), p.in):
		p.drop(f, reason.Malformed)
	case !p.echoes.take(p.now):
		p.drop(f, reason.RateLimited)
	default:
		packet.EchoReply(f.Bytes(), p.in)
		p.send(f, f.Iface, reason.EchoReply)
	}
}

// icmpError translates an error about a packet that we have sent, towards whoever sent it to us.
//
// The quoted packet is the translated one. Its reverse is what the other end sends us, so it is in the flow table,
// and the direction in which it is found is the one in which the error travels.
func (p *Pipeline) icmpError(f *xdp.Frame) {
	if packet.ParseQuote(f.Bytes(), p.in, &p.quote) != packet.OK || !p.quote.HasPorts {
		p.unrelated(f, reason.BadICMP)
		return
	}
	if p.snap.Names.Sent(&p.quote.Tuple) {
		p.punt(f) // about what the sockets of the DNS server have sent
		return
	}
	key := p.quote.Tuple.Reverse()
	flow, d, ok := p.Flows.Lookup(&key)
	// An error goes to whoever has sent the quoted packet: to us, from the address that the packet shows. One that
	// does not is forged.
	if !ok || p.in.Tuple.Dst != p.quote.Tuple.Src {
		p.unrelated(f, reason.UnrelatedICMP)
		return
	}
	if !packet.VerifyL4(f.Bytes(), p.in) {
		p.drop(f, reason.BadICMP)
		return
	}
	if why := p.refused(f); why != reason.Unknown {
		p.drop(f, why)
		return
	}
	inner := flow.Tuple(d.Other())
	hop, fate := p.hopOf(flow, d, inner.Src)
	if fate == purge {
		p.purge(flow)
	}
	if fate != keep {
		p.drop(f, reason.UnrelatedICMP)
		return
	}
	if p.explain != nil {
		p.explain.flow(flow, d)
	}
	if !p.mayLeave(f, hop) {
		return
	}
	p.trim(f)
	packet.DecrementTTL(f.Bytes(), p.in)
	nat.RewriteQuote(f.Bytes(), p.in, &p.quote, &inner, p.errorSource(&inner), inner.Src)
	p.leave(f, hop, reason.RelatedICMP)
}

// errorSource is the source that a translated error shows: a router on the way keeps its own, the end of the flow
// itself shows the address that the other end knows it by.
func (p *Pipeline) errorSource(inner *packet.Tuple) packet.Addr {
	if p.in.Tuple.Src == p.quote.Tuple.Dst {
		return inner.Dst
	}
	return p.in.Tuple.Src
}

// unrelated drops an error that is about none of our flows if it was sent to a service address, and punts it otherwise.
func (p *Pipeline) unrelated(f *xdp.Frame, why reason.Reason) {
	if d := p.decide(f); d.Verdict != nat.Pass {
		p.drop(f, why)
		return
	}
	p.punt(f)
}

// reject answers from the address that the packet was sent to: with port unreachable, or a TCP segment with a RST where
// gateway.reject_with asks for it.
func (p *Pipeline) reject(f *xdp.Frame, why reason.Reason) {
	if p.in.Proto == packet.ProtoTCP && p.snap.Topology.Gateway.RejectWith == rejectReset {
		p.answerReset(f, why)
		return
	}
	p.answerError(f, packet.PortUnreachable, p.in.Tuple.Dst, 0, why)
}

// errorAddr is the source of errors about packets that cannot leave: the service address that the client speaks to,
// or our own address where the packet is for somebody else, as a backend's reply with its source kept is.
func (p *Pipeline) errorAddr() packet.Addr {
	if p.snap.NAT.IsServiceAddr(p.in.Tuple.Dst) {
		return p.in.Tuple.Dst
	}
	if own, ok := p.ownAddr(); ok {
		return own
	}
	return p.in.Tuple.Dst
}

// answerError turns the packet into an ICMP error about itself, from src, and sends it back by the way it came. Where
// no error may or can be sent the packet is dropped.
func (p *Pipeline) answerError(f *xdp.Frame, e packet.Error, src packet.Addr, mtu uint16, why reason.Reason) {
	if !packet.MayAnswer(f.Bytes(), p.in) || !packet.VerifyIP(f.Bytes(), p.in) {
		p.drop(f, why)
		return
	}
	if !p.rejects.take(p.now) {
		p.drop(f, reason.RateLimited)
		return
	}
	start, end, ok := packet.BuildError(f.Buf, f.Start, f.End, p.in, e, src, mtu)
	if !ok {
		p.drop(f, why)
		return
	}
	f.Start, f.End = start, end
	p.send(f, f.Iface, why)
}
