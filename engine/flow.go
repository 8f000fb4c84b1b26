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
	flow, d, ok := p.Flows.Lookup(&p.in.Tuple)
	if ok && p.opensAnew(flow, d) {
		p.Flows.Remove(flow)
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

// opensAnew reports whether the packet is the SYN of a new connection on the ports of a flow that is over, or whose
// backend takes no more connections.
func (p *Pipeline) opensAnew(flow *conntrack.Flow, d conntrack.Direction) bool {
	if p.in.Proto != packet.ProtoTCP || !opens(p.in.TCPFlags) {
		return false
	}
	return flow.Reusable(d, p.in.TCPFlags) || d == conntrack.Forward && !p.serves(flow)
}

// along sends a packet on in its flow. It returns false when the flow is no more: its backend is not to be used any
// longer.
func (p *Pipeline) along(f *xdp.Frame, flow *conntrack.Flow, d conntrack.Direction, why reason.Reason) bool {
	to := flow.Tuple(d.Other()).Reverse()
	hop, ok := p.hopOf(flow, d, to.Dst)
	if !ok {
		p.Flows.Remove(flow)
		return false
	}
	if p.explain != nil {
		p.explain.flow(flow, d)
	}
	if !p.mayLeave(f, hop) {
		return true // the other end never sees it, so that it changes nothing: a RST whose TTL runs out ends no connection
	}
	p.Flows.Packet(flow, d, p.in.TCPFlags, p.in.End-p.in.L3)
	p.forward(f, &to, hop, why)
	return true
}

// hopOf returns the next hop for packets that travel in direction d of a flow, to dst. When services have changed
// since it was last asked it judges the flow anew; ok is false when the flow must not go on.
func (p *Pipeline) hopOf(flow *conntrack.Flow, d conntrack.Direction, dst packet.Addr) (hop *fib.NextHop, ok bool) {
	word := flow.Scratch(d).Load()
	if word&^hopMask == p.epoch {
		return p.hops.At(uint32(word & hopMask)), true
	}
	if !p.mayGoOn(flow) {
		return nil, false
	}
	i := p.hops.Find(dst)
	hop = p.hops.At(i)
	if hop.State == fib.Ready && i <= hopMask {
		flow.Scratch(d).Store(p.epoch | uint64(i))
		return hop, true
	}
	return p.lookup(dst), true
}

// lookup finds the next hop of a destination that may be one of a whole network of unresolved ones. It is good until
// the next call.
func (p *Pipeline) lookup(dst packet.Addr) *fib.NextHop {
	p.hop = p.hops.Lookup(dst)
	return &p.hop
}

// mayGoOn judges a flow under the current services. TCP flows go on to their backend whatever has become of it, so
// that it can finish its work; those of other protocols only while it serves, because they have no end of their own
// and a client that keeps sending would never get to another one.
func (p *Pipeline) mayGoOn(flow *conntrack.Flow) bool {
	return flow.Tuple(conntrack.Forward).Proto == packet.ProtoTCP || p.serves(flow)
}

// serves reports whether the address that a flow was opened to still leads to its service port, itself or by a route, and
// the flow's backend is one of that port which is up. An endpoint that is published although it is not ready
// (publish_not_ready_addresses) is Ready without Serving, and gets new flows.
func (p *Pipeline) serves(flow *conntrack.Flow) bool {
	m := flow.Meta()
	b := p.snap.NAT.BackendByID(m.Backend)
	if b == nil || b.Down || !b.Endpoint.Serving && !b.Endpoint.Ready {
		return false
	}
	forward := flow.Tuple(conntrack.Forward)
	return p.snap.NAT.Leads(&forward, m.Service)
}

// first deals with the first packet of what may become a flow.
func (p *Pipeline) first(f *xdp.Frame) {
	t := p.snap.NAT
	d := t.Decide(&p.in.Tuple, p.fromNode)
	if p.explain != nil {
		p.explain.decided(&d)
	}
	if d.Verdict == nat.Pass {
		p.punt(f)
		return
	}
	if why := p.refused(f); why != reason.Unknown {
		p.drop(f, why)
		return
	}
	switch d.Verdict {
	case nat.Drop:
		p.drop(f, d.Reason)
	case nat.Reject:
		p.reject(f, d.Reason)
	case nat.Forward:
		if p.in.Proto == packet.ProtoTCP && !opens(p.in.TCPFlags) {
			p.drop(f, reason.NoFlow)
			return
		}
		p.open(f, &d)
	}
}

// opens reports whether a TCP segment can be the first of a connection: SYN, and neither ACK, RST nor FIN.
func opens(flags uint8) bool {
	return flags&(packet.TCPSyn|packet.TCPAck|packet.TCPRst|packet.TCPFin) == packet.TCPSyn
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
	meta := conntrack.Meta{Service: d.Port.ID, Backend: d.Backend.ID}
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
