package engine

import (
	"context"
	"time"

	"sluice/conntrack"
	"sluice/engine/control"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// sweeper purges the flows that a new generation does not allow any longer, whether or not packets come in them: those in
// which packets come are judged by their workers too, with the next one. It also finds out which departed backends have no
// flows left, so that their rules can go.
//
// It walks the flow table once for each generation, and for departed backends every forgetEvery. It is inside the table for
// a block of flows at a time, and rests after each stepTime of work, so that the workers keep their processors and
// their memory. Changes that come during a walk are dealt with by one more.
//
// Concurrency: notify may be called by any goroutine; all else is for one.
type sweeper struct {
	flows      *conntrack.Table
	handle     *conntrack.Handle
	controller *control.Controller
	stale      *Stale
	now        func() int64 // the clock of the packet path
	wake       chan struct{}
	step       time.Duration // stepTime

	judged uint64                // generation of the last walk
	idle   map[departedKey]int64 // departed backends: since when, by the clock, no flow of theirs has been seen
}

// How much a walk does at once, and how often departed backends are looked for.
const (
	stepTime    = 500 * time.Microsecond
	stepRest    = time.Millisecond
	walkRest    = 100 * time.Millisecond // between two walks: health changes come in bursts
	forgetEvery = 20 * time.Second
)

// departedKey is a departed backend as it is found in a reply tuple.
type departedKey struct {
	addr  packet.Addr
	port  uint16
	proto uint8
}

func keyOf(b xdp.Backend) departedKey { return departedKey{packet.AddrFrom(b.Addr), b.Port, b.Proto} }

// newSweeper returns a sweeper that has nothing to do before the generation after the current one.
func newSweeper(flows *conntrack.Table, c *control.Controller, stale *Stale, now func() int64) *sweeper {
	return &sweeper{flows: flows, handle: flows.Register(), controller: c, stale: stale, now: now,
		wake: make(chan struct{}, 1), step: stepTime, judged: c.Current().Generation, idle: map[departedKey]int64{}}
}

// notify says that there is a new generation. It never blocks.
func (s *sweeper) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // the walk to come will see it
	}
}

// run works until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	tick := time.NewTicker(forgetEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-tick.C:
		}
		s.pass(func(d time.Duration) bool { return pause(ctx, d) })
		if !pause(ctx, walkRest) {
			return
		}
	}
}

// pause waits; false when ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// pass does what is due. rest is called between steps; when it returns false the pass ends early.
func (s *sweeper) pass(rest func(time.Duration) bool) {
	snap := s.controller.Current()
	if snap.Generation == s.judged && len(snap.Departed) == 0 {
		return
	}
	for _, b := range snap.Departed {
		if _, known := s.idle[keyOf(b)]; !known {
			s.idle[keyOf(b)] = s.now()
		}
	}
	if s.walk(snap, rest) {
		s.judged = snap.Generation
		s.forget(snap)
	}
}

// walk judges every flow; false when it was ended early.
func (s *sweeper) walk(snap *control.Snapshot, rest func(time.Duration) bool) bool {
	now := s.now()
	began := now
	judgeOne := func(f *conntrack.Flow) { s.judge(snap, f, now) }
	for step := uint32(0); s.flows.WalkStep(s.handle, now, step, judgeOne); step++ {
		if now = s.now(); now-began < int64(s.step) {
			continue
		}
		if !rest(stepRest) {
			return false
		}
		now = s.now()
		began = now
	}
	return true
}

// judge purges a flow that must not go on, and notes which departed backend one that goes on has. One that is to be reset
// waits for the next segment of either end, which says with which numbers.
func (s *sweeper) judge(snap *control.Snapshot, f *conntrack.Flow, now int64) {
	forward := f.Tuple(conntrack.Forward)
	if judge(snap.NAT, &forward, f.Meta()) == purge {
		s.stale.purge(s.handle, f, now)
		return
	}
	if len(s.idle) == 0 {
		return
	}
	reply := f.Tuple(conntrack.Reply)
	key := departedKey{reply.Src, reply.SrcPort, reply.Proto}
	if _, departed := s.idle[key]; departed {
		s.idle[key] = now
	}
}

// forget has the rules of those departed backends taken out which have had no flow for long enough. Until then what they
// still send must come to the workers: the kernel would route it to the clients untranslated.
func (s *sweeper) forget(snap *control.Snapshot) {
	now := s.now()
	quiet := s.stale.quiet(now)
	var gone []xdp.Backend
	left := make(map[departedKey]int64, len(snap.Departed))
	for _, b := range snap.Departed {
		since := s.idle[keyOf(b)]
		if quiet && now-since >= lateFor*int64(time.Second) {
			gone = append(gone, b)
			continue
		}
		left[keyOf(b)] = since
	}
	s.idle = left
	if len(gone) > 0 {
		s.controller.Forget(gone)
	}
}
