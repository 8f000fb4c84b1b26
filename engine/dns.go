package engine

import (
	"sluice/dns"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// answerDNS answers a query to the gateway's DNS server in the frame that it came in. What cannot be answered from one frame, TCP,
// fragments and packets with options, and queries that other servers must be asked for, are for the sockets of the server, which the
// kernel has.
func (p *Pipeline) answerDNS(f *xdp.Frame) {
	if p.in.Proto != packet.ProtoUDP || p.in.Fragment != packet.NotFragment || p.in.Options {
		p.punt(f)
		return
	}
	if why := p.refused(f); why != reason.Unknown {
		p.drop(f, why)
		return
	}
	switch {
	case !p.isIntact(f):
		p.drop(f, reason.BadChecksum)
		return
	case !packet.MayAnswer(f.Bytes(), p.in):
		p.drop(f, reason.Martian)
		return
	}
	room := packet.UDPRoom(len(f.Buf), f.Start, p.Port.Interfaces()[f.Iface].MTU, p.in)
	client := dns.Client{Addr: p.in.Tuple.Src.Netip(), Limit: room}
	reply, rcode, complete := p.names.Answer(p.snap.Names.Zones, packet.UDPPayload(f.Bytes(), p.in), client)
	if !complete {
		p.punt(f)
		return
	}
	if len(reply) == 0 {
		p.drop(f, reason.DNSIgnored)
		return
	}
	if p.explain != nil {
		p.explain.answered(reply, rcode)
	}
	f.End = f.Start + packet.AnswerUDP(f.Buf[f.Start:], p.in, reply)
	p.send(f, f.Iface, reason.DNSAnswered)
}

// DNSCounters returns what the pipeline has answered of DNS. It may be called from any goroutine.
func (p *Pipeline) DNSCounters() dns.ProtocolCounters { return p.names.Counters() }
