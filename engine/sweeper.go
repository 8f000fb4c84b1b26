package engine

import (
	"context"
	"net/netip"
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
// It walks the flow table once for each generation, and while something has departed every forgetEvery. It is inside the
// table for a block of flows at a time, and rests after each stepTime of work, so that the workers keep their processors
// and their memory. Changes that come during a walk are dealt with by one more.
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

	judged uint64             // generation of the last walk
	idle   map[departed]int64 // what has departed: since when, by the clock, no flow has been seen that has to do with it
}

// How much a walk does at once, and how often the flows of what has departed are looked for.
const (
	stepTime    = 500 * time.Microsecond
	stepRest    = time.Millisecond
	walkRest    = 100 * time.Millisecond // between two walks: health changes come in bursts
	forgetEvery = 20 * time.Second
)

// departed is something that the topology does not have any longer: an address of a service or one that NodePorts were served
// on, which has an address alone, a NodePort, which has none, or a backend.
type departed struct {
	addr  packet.Addr
	port  uint16
	proto uint8
}

func departedAddr(a netip.Addr) departed    { return departed{addr: packet.AddrFrom(a)} }
func departedPort(p xdp.ProtoPort) departed { return departed{port: p.Port, proto: p.Proto} }
func departedBackend(b xdp.Backend) departed {
	return departed{packet.AddrFrom(b.Addr), b.Port, b.Proto}
}
func isDeparted(r *xdp.Rules) bool {
	return len(r.Services)+len(r.NodePortAddrs)+len(r.NodePorts)+len(r.Backends) > 0
}

// newSweeper returns a sweeper that has nothing to do before the generation after the current one.
func newSweeper(flows *conntrack.Table, c *control.Controller, stale *Stale, now func() int64) *sweeper {
	return &sweeper{flows: flows, handle: flows.Register(), controller: c, stale: stale, now: now,
		wake: make(chan struct{}, 1), step: stepTime, judged: c.Current().Generation, idle: map[departed]int64{}}
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
	if snap.Generation == s.judged && !isDeparted(&snap.Departed) {
		return
	}
	s.meet(&snap.Departed)
	if s.walk(snap, rest) {
		s.judged = snap.Generation
		s.forget(&snap.Departed)
	}
}

// meet starts the time of what has departed since the last pass, and forgets what has come back.
func (s *sweeper) meet(d *xdp.Rules) {
	now, idle := s.now(), map[departed]int64{}
	add := func(k departed) {
		if since, known := s.idle[k]; known {
			idle[k] = since
			return
		}
		idle[k] = now
	}
	for _, a := range d.Services {
		add(departedAddr(a))
	}
	for _, a := range d.NodePortAddrs {
		add(departedAddr(a))
	}
	for _, p := range d.NodePorts {
		add(departedPort(p))
	}
	for _, b := range d.Backends {
		add(departedBackend(b))
	}
	s.idle = idle
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

// judge purges a flow that must not go on, and notes what one that goes on has to do with that has departed. One that is to
// be reset waits for the next segment of either end, which says with which numbers.
func (s *sweeper) judge(snap *control.Snapshot, f *conntrack.Flow, now int64) {
	forward := f.Tuple(conntrack.Forward)
	if judge(snap.NAT, &forward, f.Meta()) == purge && s.isPurgedStill(snap, &forward, f.Meta()) {
		s.stale.purge(s.handle, f, now)
		return
	}
	if len(s.idle) == 0 {
		return
	}
	reply := f.Tuple(conntrack.Reply)
	for _, k := range [...]departed{{addr: forward.Dst}, {port: forward.DstPort, proto: forward.Proto},
		{reply.Src, reply.SrcPort, reply.Proto}} {
		if _, ok := s.idle[k]; ok {
			s.idle[k] = now
		}
	}
}

// isPurgedStill reports whether a flow that snap does not allow is not allowed now. A walk takes its time, and a flow that has been
// opened meanwhile may have a backend that snap does not know yet: whoever opened it had a snapshot that was published
// before the flow could be found here, so that the current one is at least as new.
func (s *sweeper) isPurgedStill(snap *control.Snapshot, forward *packet.Tuple, m conntrack.Meta) bool {
	now := s.controller.Current()
	return now == snap || judge(now.NAT, forward, m) == purge
}

// forget has the rules taken out of what has departed and has had no flow for long enough. Until then what backends still
// send must come to the workers: the kernel would route it to the clients untranslated.
func (s *sweeper) forget(d *xdp.Rules) {
	now := s.now()
	over := func(k departed) bool { return now-s.idle[k] >= lateFor*int64(time.Second) }
	addrOver := func(a netip.Addr) bool { return over(departedAddr(a)) }
	gone := xdp.Rules{
		Services:      filter(d.Services, addrOver),
		NodePortAddrs: filter(d.NodePortAddrs, addrOver),
		NodePorts:     filter(d.NodePorts, func(p xdp.ProtoPort) bool { return over(departedPort(p)) }),
		Backends: filter(d.Backends, func(b xdp.Backend) bool {
			k := departedBackend(b)
			return over(k) && s.stale.quiet(k.addr, k.port, k.proto, now)
		}),
	}
	if isDeparted(&gone) {
		s.controller.Forget(&gone)
	}
}

// filter returns the elements that are wanted.
func filter[T any](list []T, want func(T) bool) (out []T) {
	for _, x := range list {
		if want(x) {
			out = append(out, x)
		}
	}
	return out
}
