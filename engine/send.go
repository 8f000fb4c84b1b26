package engine

import (
	"encoding/binary"

	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// forward rewrites a packet that may leave to carry to, and sends it to hop, or holds it until the neighbour there is known.
func (p *Pipeline) forward(f *xdp.Frame, to *packet.Tuple, hop *fib.NextHop, why reason.Reason) {
	p.trim(f)
	packet.DecrementTTL(f.Bytes(), p.in)
	if p.in.Fragment != packet.NotFragment {
		p.moved(f, to)
	}
	nat.Rewrite(f.Bytes(), p.in, to, p.Checksum)
	p.leave(f, hop, why)
}

// mayLeave checks what a router checks: that there is a way, that the TTL lasts, that the packet fits. Where it does
// not it answers or drops the packet.
func (p *Pipeline) mayLeave(f *xdp.Frame, hop *fib.NextHop) bool {
	if why := noWay(hop); why != reason.Unknown {
		p.drop(f, why)
		return false
	}
	if p.in.TTL <= 1 {
		p.answerError(f, packet.TimeExceeded, p.errorAddr(), 0, reason.TTLExceeded)
		return false
	}
	if p.in.End-p.in.L3 > hop.MTU {
		return p.maySplit(f, hop)
	}
	return true
}

// maySplit checks that a packet which is too large for its way out may be cut into pieces.
func (p *Pipeline) maySplit(f *xdp.Frame, hop *fib.NextHop) bool {
	n, _ := packet.PiecesOf(p.in, hop.MTU)
	switch {
	case p.in.DF:
		p.answerError(f, packet.TooBig, p.errorAddr(), uint16(min(hop.MTU, 0xffff)), reason.TooBig)
	case n == 0 || n > maxPieces:
		p.drop(f, reason.TooBig)
	default:
		return true
	}
	return false
}

// noWay is why nothing can go to a next hop; Unknown when it can.
func noWay(hop *fib.NextHop) reason.Reason {
	switch hop.State {
	case fib.NoRoute:
		return reason.NoRoute
	case fib.Local:
		return reason.LocalBackend
	case fib.NotAttached:
		return reason.NotAttached
	}
	return reason.Unknown
}

// dispatch sends a rewritten packet, or holds it.
func (p *Pipeline) dispatch(f *xdp.Frame, hop *fib.NextHop, why reason.Reason) {
	if hop.State != fib.Ready {
		p.hold(f, hop)
		return
	}
	p.address(f, hop)
	p.send(f, hop.Iface, why)
}

// address writes the Ethernet header for a next hop, with its VLAN tag and without those that the frame came with.
func (p *Pipeline) address(f *xdp.Frame, hop *fib.NextHop) {
	setLink(f, p.in.L3, p.in.VLANs > 0, hop)
}

// setLink writes the Ethernet header in front of the IP header, which lies at l3 of the frame. The space is there: a
// frame has headroom for one tag.
func setLink(f *xdp.Frame, l3 int, tagged bool, hop *fib.NextHop) {
	if tagged || hop.VLAN != 0 {
		retag(f, l3, hop.VLAN)
	}
	b := f.Buf[f.Start : f.Start+12]
	copy(b, hop.DstMAC[:])
	copy(b[6:], hop.SrcMAC[:])
}

// retag moves the start of the frame so that exactly the tag vlan fits in front of the IP header, or none for 0.
func retag(f *xdp.Frame, l3 int, vlan uint16) {
	ip := f.Start + l3
	etherType := binary.BigEndian.Uint16(f.Buf[ip-2:])
	f.Start = ip - packet.EthernetLen
	if vlan != 0 {
		f.Start -= packet.VLANLen
		binary.BigEndian.PutUint16(f.Buf[ip-6:], 0x8100)
		binary.BigEndian.PutUint16(f.Buf[ip-4:], vlan)
	}
	binary.BigEndian.PutUint16(f.Buf[ip-2:], etherType)
}

// send queues a finished frame for an interface.
func (p *Pipeline) send(f *xdp.Frame, iface int, why reason.Reason) {
	p.tally.add(why, f.End-f.Start)
	if p.explain != nil {
		p.explain.sent(f.Bytes(), why)
	}
	p.queue(f, iface)
}

// queue puts a finished frame behind those that leave by an interface.
func (p *Pipeline) queue(f *xdp.Frame, iface int) {
	q := &p.out[iface]
	if q.n == batchSize {
		p.flushOut(iface)
	}
	q.frames[q.n] = *f
	q.n++
}

// flushOut gives the frames of an interface to the port. When the ring is full it lets the kernel drain it once.
func (p *Pipeline) flushOut(iface int) {
	q := &p.out[iface]
	if q.n == 0 {
		return
	}
	frames := q.frames[:q.n]
	q.n = 0
	frames = frames[p.Port.Transmit(iface, frames):]
	if len(frames) == 0 {
		return
	}
	// A port whose Flush fails is about to end its worker, which finds the error at its own Flush.
	if p.Port.Flush() == nil {
		frames = frames[p.Port.Transmit(iface, frames):]
	}
	for i := range frames {
		p.drop(&frames[i], reason.TxFull)
	}
}

// drop counts the packet under a reason and gives its frame back.
func (p *Pipeline) drop(f *xdp.Frame, why reason.Reason) {
	p.tally.add(why, f.End-f.Start)
	p.outcome.why = why
	if p.explain != nil {
		p.explain.dropped(why)
	}
	p.free(f)
}

// punt hands the packet, which nothing has changed, to the kernel.
func (p *Pipeline) punt(f *xdp.Frame) {
	why := reason.NotOurs
	if !p.Punter.Punt(f.Iface, f.Bytes()) {
		why = reason.PuntFull
	}
	p.tally.add(why, f.End-f.Start)
	p.outcome.fate = fragmentPassed
	if p.explain != nil {
		p.explain.punted(why)
	}
	p.free(f)
}

// free collects frames to be given back.
func (p *Pipeline) free(f *xdp.Frame) {
	if len(p.done) == cap(p.done) {
		p.release()
	}
	p.done = append(p.done, *f)
}

func (p *Pipeline) release() {
	if len(p.done) > 0 {
		p.Port.Release(p.done)
		p.done = p.done[:0]
	}
}
