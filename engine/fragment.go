package engine

import (
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// Fragments are translated as they come, without putting datagrams together: the first one, which has the ports, goes the way of
// a whole packet, and the others follow it (Fragments). A transport checksum covers the whole datagram; it lies in the
// first fragment, and the change of addresses and ports is all that has to be known to bring it up to date.
//
// A later fragment that comes before the first one waits for it.

// Bounds of the fragments of one worker that wait for a first one. The time is well below that which receivers give a datagram
// (30 s and more), since the later ones of a datagram only wait for a fragment that was sent before them.
const (
	maxHeld            = 256
	maxHeldPerDatagram = 48  // enough for the longest datagram over an MTU of 1400
	evictedAtOnce      = 32  // of the oldest when there is no room: the others are moved up only that often
	maxHeldTime        = 1e9 // ns
	retryHeld          = 1e6 // ns between two looks at whether another worker has had the first one
)

// held are the fragments that wait.
type held struct {
	frames [maxHeld]heldFragment
	n      int
	retry  int64 // when to look again
}

type heldFragment struct {
	frame xdp.Frame
	info  packet.Info
	head  packet.FragmentHeader
	key   fragmentKey
	until int64
}

// fragment deals with a fragment of whatever datagram.
func (p *Pipeline) fragment(f *xdp.Frame) {
	h, ok := packet.ReadFragment(f.Bytes(), p.in)
	switch {
	case !ok:
		p.drop(f, reason.Malformed)
		return
	case !packet.VerifyIP(f.Bytes(), p.in):
		// Its receiver would drop it; here a damaged number or offset would be taken for another fragment's.
		p.drop(f, reason.BadChecksum)
		return
	}
	k := keyOf(p.in, &h)
	if p.in.Fragment == packet.FirstFragment {
		p.firstFragment(f, &k, &h)
		return
	}
	outcome, ok := p.Fragments.follow(&k, &h, p.now)
	if !ok {
		p.holdFragment(f, &k, &h)
		return
	}
	p.laterFragment(f, &h, &outcome)
}

// firstFragment sends the first fragment of a datagram on, or not, and those behind it that have come before it. A copy of one
// that has come ends here, but for those that the kernel has.
func (p *Pipeline) firstFragment(f *xdp.Frame, k *fragmentKey, h *packet.FragmentHeader) {
	if outcome, ok := p.Fragments.follow(k, h, p.now); ok && outcome.fate != fragmentPassed {
		p.drop(f, outcome.why)
		return
	}
	p.head, p.outcome = *h, fragmentOutcome{why: reason.Fragment}
	if p.in.Proto == packet.ProtoTCP || p.in.Proto == packet.ProtoUDP {
		p.transport(f)
	} else {
		// ICMP messages that long are neither answered nor translated; SCTP's checksum covers what is not here.
		p.untranslatable(f, reason.Fragment)
	}
	p.Fragments.lead(k, h, &p.outcome, p.now)
	if p.held.n > 0 {
		p.releaseFragments(k)
	}
}

// laterFragment does with a fragment what was done with the first of its datagram.
func (p *Pipeline) laterFragment(f *xdp.Frame, h *packet.FragmentHeader, o *fragmentOutcome) {
	switch o.fate {
	case fragmentPassed:
		p.punt(f)
		return
	case fragmentDropped:
		p.drop(f, o.why)
		return
	}
	hop := p.hops.At(p.hops.Find(o.dst))
	if hop.Gateway == (packet.Addr{}) {
		hop = p.lookup(o.dst)
	}
	if !p.mayLeave(f, hop) {
		return
	}
	p.trim(f)
	packet.DecrementTTL(f.Bytes(), p.in)
	packet.SetFragmentID(f.Bytes(), p.in, h, o.id)
	nat.RewriteAddrs(f.Bytes(), p.in, o.src, o.dst)
	p.leave(f, hop, reason.FragmentFollowed)
}

// moved notes the way of a first fragment, which carries to from here on, and gives its datagram a number of its own.
func (p *Pipeline) moved(f *xdp.Frame, to *packet.Tuple) {
	p.outcome = fragmentOutcome{fate: fragmentMoved, src: to.Src, dst: to.Dst, id: p.Fragments.newID(), why: reason.FragmentOverlap}
	packet.SetFragmentID(f.Bytes(), p.in, &p.head, p.outcome.id)
}

// holdFragment keeps a fragment until the first one of its datagram has come. Those of one datagram are bounded by refusing the
// newest, all together by giving up the oldest: whoever sends fragments that lead to nothing shortens the wait of others, and
// does not end it.
func (p *Pipeline) holdFragment(f *xdp.Frame, k *fragmentKey, h *packet.FragmentHeader) {
	if p.held.count(k) >= maxHeldPerDatagram {
		p.drop(f, reason.FragmentStoreFull)
		return
	}
	if p.held.n == maxHeld {
		p.evictFragments()
	}
	p.held.frames[p.held.n] = heldFragment{frame: *f, info: *p.in, head: *h, key: *k, until: p.now + maxHeldTime}
	p.held.n++
	if p.explain != nil {
		p.explain.fragmentHeld()
	}
}

// count returns how many fragments of a datagram wait.
func (q *held) count(k *fragmentKey) (n int) {
	for i := range q.n {
		if q.frames[i].key == *k {
			n++
		}
	}
	return n
}

// releaseFragments sends on those that wait for the datagram k, in the order in which they came.
func (p *Pipeline) releaseFragments(k *fragmentKey) {
	p.sweepHeld(func(w *heldFragment) bool { return w.key == *k && p.resume(w) })
}

// retryFragments sends on those whose first fragment has come in by another worker, and ends the wait of those whose time is
// over. What is not addressed to a service may be the kernel's own, whose first fragment went by before we began to look.
func (p *Pipeline) retryFragments() {
	p.sweepHeld(func(w *heldFragment) bool {
		if p.resume(w) {
			return true
		}
		if p.now < w.until {
			return false
		}
		p.unresolvedFragment(w, reason.FragmentTimeout)
		return true
	})
}

// evictFragments ends the wait of those that wait longest: they are kept in the order in which they came.
func (p *Pipeline) evictFragments() {
	n := 0
	p.sweepHeld(func(w *heldFragment) bool {
		n++
		if n > evictedAtOnce {
			return false
		}
		p.unresolvedFragment(w, reason.FragmentStoreFull)
		return true
	})
}

// sweepHeld takes out those that done is true of.
func (p *Pipeline) sweepHeld(done func(*heldFragment) bool) {
	in, kept := p.in, 0
	for i := range p.held.n {
		w := &p.held.frames[i]
		p.in = &w.info
		if done(w) {
			continue
		}
		if kept != i {
			p.held.frames[kept] = *w
		}
		kept++
	}
	clear(p.held.frames[kept:p.held.n])
	p.held.n, p.in = kept, in
}

// resume sends a fragment on if the first of its datagram has come.
func (p *Pipeline) resume(w *heldFragment) bool {
	outcome, ok := p.Fragments.follow(&w.key, &w.head, p.now)
	if ok {
		p.laterFragment(&w.frame, &w.head, &outcome)
	}
	return ok
}

// unresolvedFragment ends the wait of a fragment in vain. A fragment has no port, so that where unknown ports pass it would pass
// too; yet it may be one of a service's.
func (p *Pipeline) unresolvedFragment(w *heldFragment, why reason.Reason) {
	d := p.decide(&w.frame)
	if d.Verdict != nat.Pass || p.snap.NAT.IsServiceAddr(p.in.Tuple.Dst) {
		p.drop(&w.frame, why)
		return
	}
	p.punt(&w.frame)
}
