package engine

import (
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// Bounds of the frames that wait for a neighbour. They are few, so that hosts that do not exist cannot starve the
// worker of frames, and wait no longer than the kernel takes for its three requests.
const (
	maxPending       = 256
	maxPendingPerHop = 16
	maxPendingTime   = 3e9 // ns
)

// pending holds rewritten frames whose next hop's link-layer address is not known yet.
type pending struct {
	frames [maxPending]waiting
	n      int
	hops   *fib.Snapshot // the snapshot at the last retry
}

// waiting is one of them.
type waiting struct {
	frame  xdp.Frame
	l3     int
	size   int // of the IP packet
	tagged bool
	hop    packet.Addr // the neighbour's address
	dst    packet.Addr // the packet's destination: the route may change meanwhile
	until  int64
	asked  bool // the request to resolve hop was taken
}

// hold keeps a rewritten frame until its neighbour is known, and asks for that.
func (p *Pipeline) hold(f *xdp.Frame, hop *fib.NextHop) {
	// A request that is turned away is made again with the next packet, and at every retry.
	asked := p.NextHops.Resolve(*hop)
	if p.pending.n == maxPending || p.pending.count(hop.Gateway) >= maxPendingPerHop {
		p.drop(f, reason.NeighbourQueueFull)
		return
	}
	p.pending.frames[p.pending.n] = waiting{frame: *f, l3: p.in.L3, size: p.in.End - p.in.L3, tagged: p.in.VLANs > 0,
		hop: hop.Gateway, dst: p.in.Tuple.Dst, until: p.now + maxPendingTime, asked: asked}
	p.pending.n++
	if p.explain != nil {
		p.explain.held(hop)
	}
}

// count returns how many frames wait for a neighbour.
func (q *pending) count(hop packet.Addr) (n int) {
	for i := range q.n {
		if q.frames[i].hop == hop {
			n++
		}
	}
	return n
}

// retryPending sends the frames whose neighbour has been found and drops those that have waited too long, in order.
func (p *Pipeline) retryPending() {
	changed := p.pending.hops != p.hops
	p.pending.hops = p.hops
	kept := 0
	for i := range p.pending.n {
		w := &p.pending.frames[i]
		if ((changed || !w.asked) && p.advance(w)) || p.giveUp(w) {
			continue
		}
		p.pending.frames[kept] = *w
		kept++
	}
	clear(p.pending.frames[kept:p.pending.n])
	p.pending.n = kept
}

// advance ends the wait of a frame whose neighbour is known now, or whose route has become one that it cannot go by. For
// a neighbour that is not known it asks, unless that has been done.
func (p *Pipeline) advance(w *waiting) bool {
	hop := p.hops.Lookup(w.dst)
	if why := noWay(&hop); why != reason.Unknown {
		p.drop(&w.frame, why)
		return true
	}
	if w.size > hop.MTU {
		p.drop(&w.frame, reason.TooBig)
		return true
	}
	if hop.State == fib.Incomplete && (!w.asked || hop.Gateway != w.hop) {
		w.hop, w.asked = hop.Gateway, p.NextHops.Resolve(hop)
	}
	if hop.State != fib.Ready {
		return false
	}
	setLink(&w.frame, w.l3, w.tagged, &hop)
	p.send(&w.frame, hop.Iface, reason.NeighbourResolved)
	return true
}

// giveUp drops a frame whose time is over.
func (p *Pipeline) giveUp(w *waiting) bool {
	if p.now < w.until {
		return false
	}
	p.drop(&w.frame, reason.NeighbourFailed)
	return true
}
