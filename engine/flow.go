package engine

import (
	"sluice/conntrack"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// A flow's scratch word of a direction caches where its packets go: the epoch in which that was looked up, and the
// index of the next hop in the fib snapshot. While the epoch is the current one, neither routes nor services have
// changed.
const (
	hopBits = 24
	hopMask = 1<<hopBits - 1
)

// epochOf combines the generations of services and of next hops: 16 and 24 bits of them, above the bits of the hop. A
// flow would have to be silent for exactly 65536 generations of services, or 16 million of next hops, to be mistaken.
func epochOf(services, hops uint64) uint64 {
	return (services&0xffff<<hopBits | hops&hopMask) << hopBits
}

// exhaustedFor is how long new flows towards a backend are refused after the search of the whole pool was in vain.
const exhaustedFor = 1e9

// transport takes a TCP or UDP packet through flow table and service table.
func (p *Pipeline) transport(f *xdp.Frame) {
	if p.snap.Names.Takes(&p.in.Tuple) {
		p.answerDNS(f)
		return
	}
	if !p.isSummed(f) {
		p.untranslatable(f, reason.BadChecksum)
		return
	}
	flow, d, ok := p.Flows.Lookup(&p.in.Tuple)
	if ok && p.opensAnew(f, flow, d) {
		p.replace(flow)
		ok = false
	}
	switch {
	case !ok:
		p.first(f)
	case p.along(f, flow, d, reason.Established):
	case d == conntrack.Reply:
		// The last words of a backend that is no longer one. The service table does not know them, and the kernel, to
		// which they would go, must not send them on untranslated.
		p.drop(f, reason.NoFlow)
	default:
		p.first(f)
	}
}

// isSummed reports whether the checksum of a packet is one that can be brought up to date: UDP over IPv6 may not go without (RFC
// 8200 section 8.1), and that of SCTP is computed anew, which must not hide that the packet is damaged.
func (p *Pipeline) isSummed(f *xdp.Frame) bool {
	switch p.in.Proto {
	case packet.ProtoUDP:
		return p.in.Family == 4 || f.Buf[f.Start+p.in.L4+6]|f.Buf[f.Start+p.in.L4+7] != 0
	case packet.ProtoSCTP:
		return packet.VerifyL4(f.Bytes(), p.in) || p.Checksum != nat.Incremental && packet.LacksSCTPSum(f.Bytes(), p.in)
	}
	return true
}

// untranslatable drops a packet of a flow or to a service that cannot be translated, and punts it otherwise.
func (p *Pipeline) untranslatable(f *xdp.Frame, why reason.Reason) {
	if p.in.HasPorts {
		if _, _, ok := p.Flows.Lookup(&p.in.Tuple); ok {
			p.drop(f, why)
			return
		}
	}
	if d := p.decide(f); d.Verdict != nat.Pass {
		p.drop(f, why)
		return
	}
	p.punt(f)
}

// opensAnew reports whether the packet is the first of a new connection on the ports of a flow that is over, or whose
// backend takes no more connections. Protocols without connections never begin anew.
//
// A backend that takes no more may have work to finish, and the SYN may be forged. So it goes to that backend at first, which
// refuses it by a challenge ACK: a client that has forgotten the connection then ends it itself (RFC 9293 section 3.5.2). Only
// when a backend has not answered is the next SYN a new connection.
func (p *Pipeline) opensAnew(f *xdp.Frame, flow *conntrack.Flow, d conntrack.Direction) bool {
	if d != conntrack.Forward || !hasConnections(p.in.Proto) || !p.opens(f) {
		return false
	}
	if flow.Over() {
		return true
	}
	forward := flow.Tuple(conntrack.Forward)
	if serves(p.snap.NAT, &forward, flow.Meta()) {
		return false
	}
	return !isUnderWay(flow.State()) || p.isIntact(f) && flow.AskedInVain(p.now)
}

// isUnderWay reports whether a state is that of a TCP connection that its two ends have agreed on.
func isUnderWay(s conntrack.State) bool {
	return s == conntrack.Established || s == conntrack.HalfClosed
}

// along sends a packet on in its flow. It returns false when the flow is no more: its backend is not to be used any
// longer.
func (p *Pipeline) along(f *xdp.Frame, flow *conntrack.Flow, d conntrack.Direction, why reason.Reason) bool {
	to := flow.Tuple(d.Other()).Reverse()
	hop, fate := p.hopOf(flow, d, to.Dst)
	if fate == purge || fate == reset && p.opens(f) {
		p.purge(flow) // a SYN has no connection to lose, and its next copy opens one
		return false
	}
	if p.explain != nil {
		p.explain.flow(flow, d)
	}
	if fate == reset && p.mayBeReset(flow) {
		p.reset(f, flow, d, &to, hop)
		return true
	}
	if !p.mayLeave(f, hop) {
		return true // the other end never sees it, so that it changes nothing: a RST whose TTL runs out ends no connection
	}
	if !p.track(f, flow, d) {
		p.drop(f, reason.OutOfWindow)
		return true
	}
	p.forward(f, &to, hop, why)
	return true
}

// track records the packet in its flow. It is false for a TCP segment that is out of the window.
func (p *Pipeline) track(f *xdp.Frame, flow *conntrack.Flow, d conntrack.Direction) bool {
	size := p.in.End - p.in.L3
	switch {
	case p.in.Fragment != packet.NotFragment: // the rest of the segment is elsewhere
		flow.Uncheck()
	case p.in.Proto == packet.ProtoTCP:
		if packet.ReadSegment(f.Bytes(), p.in, &p.segment) {
			return p.Flows.Segment(flow, d, &p.segment, size)
		}
		flow.Uncheck() // how much it carries is not known, so neither is what the other end may acknowledge
	case p.in.Proto == packet.ProtoSCTP:
		if packet.ReadChunk(f.Bytes(), p.in, &p.chunk) {
			p.Flows.Chunk(flow, d, &p.chunk, size)
			return true
		}
	}
	p.Flows.Packet(flow, d, p.in.TCPFlags, size)
	return true
}

// hopOf returns the next hop for packets that travel in direction d of a flow, to dst. When services have changed
// since it was last asked it judges the flow anew; there is no hop for one that is to be purged.
func (p *Pipeline) hopOf(flow *conntrack.Flow, d conntrack.Direction, dst packet.Addr) (*fib.NextHop, fate) {
	word := flow.Scratch(d).Load()
	if word&^hopMask == p.epoch {
		return p.hops.At(uint32(word & hopMask)), keep
	}
	forward := flow.Tuple(conntrack.Forward)
	fate := judge(p.snap.NAT, &forward, flow.Meta())
	if fate == purge {
		return nil, purge
	}
	i := p.hops.Find(dst)
	hop := p.hops.At(i)
	if hop.State != fib.Ready || i > hopMask {
		return p.lookup(dst), fate
	}
	if fate == keep {
		flow.Scratch(d).Store(p.epoch | uint64(i))
	}
	return hop, fate
}

// lookup finds the next hop of a destination that may be one of a whole network of unresolved ones. It is good until
// the next call.
func (p *Pipeline) lookup(dst packet.Addr) *fib.NextHop {
	p.hop = p.hops.Lookup(dst)
	return &p.hop
}

// decide asks the service table about the packet.
func (p *Pipeline) decide(f *xdp.Frame) nat.Decision {
	return p.snap.NAT.Decide(&p.in.Tuple, nat.Origin{FromNode: p.fromNode, PodInterface: p.pods[f.Iface]})
}

// first deals with the first packet of what may become a flow.
func (p *Pipeline) first(f *xdp.Frame) {
	d := p.decide(f)
	why := reason.Unknown
	if d.Verdict != nat.Pass {
		why = p.refused(f)
	}
	opens := p.mayOpen(f)
	if why == reason.Unknown && opens {
		d = p.snap.NAT.Stick(p.Affinity, d, &p.in.Tuple, p.now)
	}
	if p.explain != nil {
		p.explain.decided(p.snap.NAT, &d, p.in)
	}
	switch {
	case d.Verdict == nat.Pass && p.Stale.isLate(&p.in.Tuple, p.now):
		p.drop(f, reason.NoFlow)
	case d.Verdict == nat.Pass:
		p.punt(f)
	case why != reason.Unknown:
		p.drop(f, why)
	case d.Verdict == nat.Drop:
		p.drop(f, d.Reason)
	case d.Verdict == nat.Reject:
		p.reject(f, d.Reason)
	case !opens:
		p.drop(f, reason.NoFlow)
	default:
		p.open(f, &d)
	}
}

// mayOpen reports whether the packet at hand can be the first of a flow.
func (p *Pipeline) mayOpen(f *xdp.Frame) bool { return !hasConnections(p.in.Proto) || p.opens(f) }

// hasConnections reports whether flows of a protocol begin with one packet only.
func hasConnections(proto uint8) bool { return proto == packet.ProtoTCP || proto == packet.ProtoSCTP }

// opens reports whether the packet can be the first of a connection: of TCP a SYN with neither ACK, RST nor FIN, of SCTP an
// INIT.
func (p *Pipeline) opens(f *xdp.Frame) bool {
	if p.in.Proto == packet.ProtoSCTP {
		return packet.ReadChunk(f.Bytes(), p.in, &p.chunk) && p.chunk.Type == packet.SCTPInit
	}
	return p.in.TCPFlags&(packet.TCPSyn|packet.TCPAck|packet.TCPRst|packet.TCPFin) == packet.TCPSyn
}

// open makes a flow for the packet and sends it on. A packet that cannot leave makes none.
func (p *Pipeline) open(f *xdp.Frame, d *nat.Decision) {
	if !p.mayLeave(f, p.hops.At(p.hops.Find(d.Backend.Addr))) {
		return
	}
	flow, dir, why := p.insert(d)
	if flow == nil {
		p.drop(f, why)
		return
	}
	if !p.along(f, flow, dir, d.Reason) {
		// Judged unfit within the batch that made it: another worker's older flow with a backend that has gone. The
		// client's next packet starts anew.
		p.drop(f, reason.NoFlow)
	}
}

// insert adds the flow of a decision, and finds its source port where the source is rewritten.
func (p *Pipeline) insert(d *nat.Decision) (*conntrack.Flow, conntrack.Direction, reason.Reason) {
	meta := metaOf(d)
	if !d.SNAT {
		reply := d.Reply(&p.in.Tuple, 0)
		flow, dir, result := p.Flows.Insert(&p.in.Tuple, &reply, meta)
		if result != conntrack.Clash {
			return flow, dir, whyNot(result)
		}
		// The client uses one source port towards two VIPs that lead to one backend: the backend cannot tell the two
		// apart unless one of them gets another source.
		if !p.masqueradeInstead(d) {
			return nil, 0, reason.ReplyClash
		}
	}
	return p.insertSNAT(d, meta)
}

// masqueradeInstead turns a decision that keeps the source into one that rewrites it; false when there is no address
// for it.
func (p *Pipeline) masqueradeInstead(d *nat.Decision) bool {
	addr, ok := p.ownAddr()
	if ok {
		d.SNAT, d.SNATAddr = true, addr
	}
	return ok
}

// ownAddr returns the gateway's own address of the packet's family.
func (p *Pipeline) ownAddr() (packet.Addr, bool) {
	for _, a := range p.snap.NAT.SNATAddrs() {
		if addr := packet.AddrFrom(a); addr.Is4() == p.in.Tuple.Dst.Is4() {
			return addr, true
		}
	}
	return packet.Addr{}, false
}

// insertSNAT tries the source ports of the pool until one is free towards the backend. The table itself knows which are
// taken: the reply tuple of a flow is in it once.
func (p *Pipeline) insertSNAT(d *nat.Decision, meta conntrack.Meta) (
	*conntrack.Flow, conntrack.Direction, reason.Reason,
) {
	proto := p.in.Proto
	if p.exhausted.Has(d.Backend.Addr, d.Backend.Port, proto, p.now) {
		return nil, 0, reason.SNATExhausted
	}
	search := nat.NewPorts(p.snap.NAT.SNATPorts()).Search(p.in.Tuple.Hash(p.PortSeed))
	for port, ok := search.Next(); ok; port, ok = search.Next() {
		reply := d.Reply(&p.in.Tuple, port)
		flow, dir, result := p.Flows.Insert(&p.in.Tuple, &reply, meta)
		if result != conntrack.Clash {
			return flow, dir, whyNot(result)
		}
	}
	p.exhausted.Mark(d.Backend.Addr, d.Backend.Port, proto, p.now+exhaustedFor)
	return nil, 0, reason.SNATExhausted
}

// whyNot is the reason of an insert that gave no flow.
func whyNot(r conntrack.Result) reason.Reason {
	if r == conntrack.Full {
		return reason.TableFull
	}
	return reason.Unknown
}
