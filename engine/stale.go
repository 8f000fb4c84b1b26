package engine

import (
	"math/rand/v2"
	"sync/atomic"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// Stale is what the workers and the sweeper over one flow table know together of flows that were taken out of it before their
// time: how many were purged, and what the backends of all of them may still send.
//
// The last words of such a backend must not reach a client that it was to know as somebody else. Where the client's source
// was kept they are addressed to the client, so that the kernel would route them on untranslated. The reply tuples of
// such flows, of whatever protocol, are therefore remembered for lateFor after the last packet that carries one.
//
// Concurrency: all methods may be called by any goroutine. None allocates.
type Stale struct {
	purged atomic.Uint64
	seed   uint64
	late   [lateSlots]atomic.Uint64 // by hash: 40 bits of it, and the second of the clock when it was last seen
	heard  [heardSlots]atomic.Int64 // by hash of the backend: when the last late packet came, in ns; 0: none ever
}

// How many reply tuples are remembered, and for how long. When more flows are purged at once, a tuple takes the place of
// another one whose backend may then be heard once more.
const (
	lateSlots   = 1 << 14
	heardSlots  = 1 << 10
	lateFor     = 60 // seconds
	secondsBits = 24 // it would take 194 days of silence to mistake an old entry for a new one
	secondsMask = 1<<secondsBits - 1
)

// NewStale returns a Stale of which nothing is known yet.
func NewStale() *Stale { return &Stale{seed: rand.Uint64()} }

// Purged returns how many flows were purged because their backend does not serve any longer.
func (s *Stale) Purged() uint64 { return s.purged.Load() }

// remember keeps in mind at now, in nanoseconds, what the backend of a flow may still send when the flow is no more, if that is
// the client's to see.
func (s *Stale) remember(f *conntrack.Flow, now int64) {
	forward, reply := f.Tuple(conntrack.Forward), f.Tuple(conntrack.Reply)
	if reply.Dst != forward.Src {
		return // sent to the gateway itself, which has nobody to give it to
	}
	slot, mark := s.place(&reply)
	slot.Store(mark | seconds(now))
}

// isLate reports whether a packet that belongs to no flow is one of a backend whose flow was purged.
func (s *Stale) isLate(tu *packet.Tuple, now int64) bool {
	slot, mark := s.place(tu)
	word := slot.Load()
	if word == 0 || word&^secondsMask != mark || (seconds(now)-word)&secondsMask > lateFor {
		return false
	}
	slot.Store(mark | seconds(now))
	s.heardOf(tu.Src, tu.SrcPort, tu.Proto).Store(now)
	return true
}

// quiet reports whether no late packet of a backend has come for lateFor. Of each of them by itself: one that never falls
// silent must not keep what is known of all others. Two may share a slot, and then fall silent together.
func (s *Stale) quiet(addr packet.Addr, port uint16, proto uint8, now int64) bool {
	heard := s.heardOf(addr, port, proto).Load()
	return heard == 0 || now-heard >= lateFor*1e9
}

func (s *Stale) heardOf(addr packet.Addr, port uint16, proto uint8) *atomic.Int64 {
	tu := packet.Tuple{Src: addr, SrcPort: port, Proto: proto}
	return &s.heard[tu.Hash(s.seed)%heardSlots]
}

// place returns the slot of a tuple, and the part of its hash that marks it there.
func (s *Stale) place(tu *packet.Tuple) (*atomic.Uint64, uint64) {
	h := tu.Hash(s.seed)
	return &s.late[h%lateSlots], h &^ secondsMask
}

// seconds is a time of the packet path's clock as it is kept in a slot.
func seconds(now int64) uint64 { return uint64(now/1e9) & secondsMask }

// purge takes a stale flow out of the table. It is between Enter and Leave of the handle.
func (s *Stale) purge(h *conntrack.Handle, f *conntrack.Flow, now int64) {
	if h.Remove(f) {
		s.purged.Add(1)
		s.remember(f, now)
	}
}

// replace takes a flow out of the table that is to make room for a new one of the same client. Its backend need not know that
// yet.
func (p *Pipeline) replace(f *conntrack.Flow) {
	if p.Flows.Remove(f) {
		p.Stale.remember(f, p.now)
	}
}

// purge takes a flow out of the table that has been judged stale.
func (p *Pipeline) purge(f *conntrack.Flow) { p.Stale.purge(p.Flows, f, p.now) }
