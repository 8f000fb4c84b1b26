package conntrack_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// endpoint is one end of a simulated connection: the part of RFC 9293 that decides what is sent and what is accepted, with the
// ACK check of RFC 5961. The stream is so many bytes and a FIN; what the bytes are does not matter.
type endpoint struct {
	r       *rand.Rand
	client  bool
	scale   uint8 // that it offers; 0 and !scales: it does not
	scales  bool
	buffer  uint32 // largest window
	segment uint32 // largest payload
	total   uint32 // bytes to send

	iss, una, nxt uint32
	sendScale     uint8  // of the peer's windows
	recvScale     uint8  // of ours
	sendEdge      uint32 // right edge that the peer has granted
	maxWindow     uint32 // largest window of the peer

	synced  bool // the peer's SYN has come
	irs     uint32
	recvNxt uint32
	edge    uint32 // right edge that we have granted
	got     []bool // by offset in the peer's stream, FIN last
	ackNow  bool
	aborted bool
}

func newEndpoint(r *rand.Rand, client bool) *endpoint {
	e := &endpoint{r: r, client: client, iss: r.Uint32(), scales: r.IntN(4) > 0, scale: uint8(r.IntN(15))}
	if r.IntN(2) == 0 {
		e.iss = -uint32(r.IntN(100_000)) // wraps soon
	}
	e.buffer = max([]uint32{1, 1000, 65535, 200_000, 1 << 20}[r.IntN(5)], 1<<e.scale) // else it could never be told
	e.segment = []uint32{1, 536, 1460, 8960, 65000}[r.IntN(5)]
	e.total = e.segment * uint32(r.IntN(60))
	e.una, e.nxt = e.iss, e.iss
	return e
}

// fin is the number of the FIN.
func (e *endpoint) fin() uint32 { return e.iss + 1 + e.total }

func (e *endpoint) done() bool { return e.synced && e.una == e.fin()+1 }

// grant chooses how much of the buffer is free, and returns the window field; the right edge never moves back.
func (e *endpoint) grant(scale uint8) uint16 {
	space := e.buffer
	switch e.r.IntN(6) {
	case 0:
		space = 0
	case 1, 2:
		space = uint32(e.r.Uint64N(uint64(e.buffer) + 1))
	}
	if behind := e.edge - e.recvNxt; int32(behind) > 0 && behind > space {
		space = behind
	}
	field := min(space>>scale, 0xffff)
	if edge := e.recvNxt + field<<scale; int32(edge-e.edge) > 0 {
		e.edge = edge
	}
	return uint16(field)
}

// syn makes a SYN or SYN-ACK.
func (e *endpoint) syn() packet.Segment {
	s := packet.Segment{Seq: e.iss, Len: 1, Flags: syn, Scales: e.scales, WScale: e.scale}
	if e.synced {
		s.Flags, s.Ack = syn|ack, e.recvNxt
	}
	if e.client {
		s.Window = uint16(min(e.buffer, 0xffff)) // counts from the peer's SYN on
	} else {
		s.Window = e.grant(0)
	}
	if e.nxt == e.iss {
		e.nxt++
	}
	return s
}

// send returns a segment from number seq on, with at most limit bytes; the FIN where it is due.
func (e *endpoint) send(seq, limit uint32) packet.Segment {
	n := min(limit, e.segment, e.fin()-seq)
	s := packet.Segment{Seq: seq, Len: n, Flags: ack, Ack: e.recvNxt, Window: e.grant(e.recvScale)}
	if n < limit && seq+n == e.fin() {
		s.Flags |= fin
		s.Len++
	}
	if s.Len > 0 && int32(s.End()-e.nxt) > 0 {
		e.nxt = s.End()
	}
	e.ackNow = false
	return s
}

// act lets the end send what it wants to; ok is false for nothing.
func (e *endpoint) act() (s packet.Segment, ok bool) {
	switch {
	case e.aborted:
		return s, false
	case e.una == e.iss: // SYN not acknowledged
		if !e.client && !e.synced {
			return s, false
		}
		return e.syn(), e.nxt == e.iss || e.nxt == e.iss+1
	}
	room := e.sendEdge - e.nxt
	if int32(room) < 0 {
		room = 0
	}
	switch n := e.r.IntN(12); {
	case n < 7 && room > 0 && e.nxt != e.fin()+1:
		return e.send(e.nxt, room), true
	case n < 8 && e.una != e.nxt: // again
		return e.send(e.una, e.nxt-e.una), true
	case n == 8 && e.una == e.nxt && e.nxt != e.fin()+1: // zero window probe, or a byte too many
		return e.send(e.nxt, 1), true
	case n == 9: // keep-alive
		s := e.send(e.nxt, 0)
		s.Seq = e.una - 1
		return s, true
	}
	if !e.ackNow {
		return s, false
	}
	return e.send(e.nxt, 0), true
}

// accepts reports whether the end would take anything from the segment (RFC 9293 section 3.10.7, RFC 5961 section 5.2).
func (e *endpoint) accepts(s *packet.Segment) bool {
	if s.Flags&syn != 0 {
		return !e.synced && (s.Flags&ack == 0 || s.Ack == e.iss+1)
	}
	if !e.synced {
		return s.Flags&rst != 0 && s.Flags&ack != 0 && s.Ack == e.iss+1
	}
	right := e.edge
	if int32(right-e.recvNxt) < 0 {
		right = e.recvNxt
	}
	within := func(n uint32) bool { return n-e.recvNxt <= right-e.recvNxt }
	inside := within(s.Seq)
	if s.Len > 0 {
		inside = within(s.Seq) && s.Seq != right || within(s.End()-1) && s.End()-1 != right
	}
	if s.Flags&rst != 0 {
		return within(s.Seq)
	}
	return inside && e.nxt-s.Ack <= e.nxt-e.una+e.maxWindow
}

// take receives a segment.
func (e *endpoint) take(s *packet.Segment) {
	if e.aborted {
		return
	}
	if !e.accepts(s) {
		e.ackNow = e.synced
		return
	}
	if s.Flags&rst != 0 {
		e.aborted = e.aborted || s.Seq == e.recvNxt
		e.ackNow = true
		return
	}
	if s.Flags&syn != 0 {
		e.synchronise(s)
		return
	}
	e.acknowledged(s.Ack, uint32(s.Window)<<e.sendScale)
	for n := s.Seq; n != s.End(); n++ {
		if i := n - e.irs - 1; int32(n-e.recvNxt) >= 0 && int32(n-e.edge) < 0 && i < uint32(len(e.got)) {
			e.got[i] = true
		}
	}
	for i := e.recvNxt - e.irs - 1; i < uint32(len(e.got)) && e.got[i]; i++ {
		e.recvNxt++
	}
	e.ackNow = e.ackNow || s.Len > 0
}

func (e *endpoint) synchronise(s *packet.Segment) {
	e.synced, e.irs, e.recvNxt = true, s.Seq, s.Seq+1
	e.edge = e.recvNxt
	if e.client {
		e.edge += min(e.buffer, 0xffff)
	}
	if e.scales && s.Scales {
		e.sendScale, e.recvScale = s.WScale, e.scale
	}
	e.sendEdge = e.iss + 1 + uint32(s.Window)
	e.maxWindow = uint32(s.Window)
	if s.Flags&ack != 0 {
		e.una, e.ackNow = e.iss+1, true
	}
}

// acknowledged takes the ACK and the window of a segment.
func (e *endpoint) acknowledged(n, window uint32) {
	e.maxWindow = max(e.maxWindow, window)
	if int32(n-e.una) > 0 {
		e.una = n
	}
	if int32(n+window-e.sendEdge) > 0 {
		e.sendEdge = n + window
	}
}

// link loses, doubles and reorders.
type link struct {
	r      *rand.Rand
	queue  []packet.Segment
	loss   int // in 100
	double int
	mix    int // how far back a segment may be taken from
}

func (l *link) put(s packet.Segment) {
	if l.r.IntN(100) < l.loss || len(l.queue) >= 100 {
		return
	}
	l.queue = append(l.queue, s)
	if l.r.IntN(100) < l.double {
		l.queue = append(l.queue, s)
	}
}

func (l *link) take() (s packet.Segment, ok bool) {
	if len(l.queue) == 0 {
		return s, false
	}
	i := l.r.IntN(min(len(l.queue), l.mix))
	s = l.queue[i]
	l.queue = append(l.queue[:i], l.queue[i+1:]...)
	return s, true
}

// path is a connection through the table.
type path struct {
	t       *testing.T
	r       *rand.Rand
	h       *conntrack.Handle
	f       *conntrack.Flow
	ends    [2]*endpoint // by the direction in which they send
	before  [2]*link     // towards the table
	behind  [2]*link     // from the table on
	passed  int
	dropped int
}

func newPath(t *testing.T, seed uint64, h *conntrack.Handle) *path {
	r := rand.New(rand.NewPCG(seed, 77))
	p := &path{t: t, r: r, h: h, f: mustInsert(t, h, packet.ProtoTCP, int(seed))}
	for d := range p.ends {
		p.ends[d] = newEndpoint(r, d == int(fwd))
	}
	for d, e := range p.ends {
		e.total = min(e.total, 50*p.ends[1-d].buffer, 1<<20) // a window of two bytes takes long
	}
	for d := range p.ends {
		p.ends[d].got = make([]bool, p.ends[1-d].total+1)
		for _, at := range []*[2]*link{&p.before, &p.behind} {
			at[d] = &link{r: r, loss: []int{0, 2, 20}[r.IntN(3)], double: []int{0, 5, 30}[r.IntN(3)], mix: []int{1, 3, 50}[r.IntN(3)]}
		}
	}
	return p
}

// step lets one thing happen.
func (p *path) step() {
	d := conntrack.Direction(p.r.IntN(2))
	switch p.r.IntN(3) {
	case 0:
		if s, ok := p.ends[d].act(); ok {
			p.before[d].put(s)
		}
	case 1:
		if s, ok := p.before[d].take(); ok {
			p.cross(d, s)
		}
	case 2:
		if s, ok := p.behind[d].take(); ok {
			p.ends[d.Other()].take(&s)
		}
	}
}

// cross takes a segment through the table. What it drops, its receiver must have no use for.
func (p *path) cross(d conntrack.Direction, s packet.Segment) {
	p.t.Helper()
	if p.h.Segment(p.f, d, &s, 60) {
		p.passed++
		p.behind[d].put(s)
		return
	}
	p.dropped++
	if e := p.ends[d.Other()]; !e.aborted && e.accepts(&s) {
		p.t.Fatalf("%v %+v is dropped in state %v after %d; its receiver would take it: %s", d, s, p.f.State(), p.passed, e)
	}
}

func (e *endpoint) String() string {
	return fmt.Sprintf("iss %d una %d nxt %d edge %d, irs %d next %d granted %d, most %d",
		e.iss, e.una, e.nxt, e.sendEdge, e.irs, e.recvNxt, e.edge, e.maxWindow)
}

// TestGoodSegmentsPass lets pairs of TCP ends talk through the table over links that lose, double and reorder, with windows and
// scales of all sizes, and numbers that wrap: the table drops no segment that its receiver would take, every connection gets
// to its end, and the table sees that end.
func TestGoodSegmentsPass(t *testing.T) {
	runs := uint64(1500)
	if testing.Short() {
		runs = 200
	}
	tab := open(t, 10)
	h := tab.Register()
	h.Enter(second)
	dropped, passed := 0, 0
	for seed := range runs {
		p := newPath(t, seed, h)
		steps := 0
		for ; !p.ends[0].done() || !p.ends[1].done(); steps++ {
			if steps == 2_000_000 {
				t.Fatalf("run %d does not end: %s; %s; %d dropped", seed, p.ends[0], p.ends[1], p.dropped)
			}
			p.step()
		}
		if p.f.Unchecked() {
			t.Fatalf("run %d: the check is switched off", seed)
		}
		if p.f.State() != conntrack.TimeWait {
			t.Fatalf("run %d: ended as %v", seed, p.f.State())
		}
		p.inject(seed)
		passed, dropped = passed+p.passed, dropped+p.dropped
		h.Remove(p.f)
		h.Leave()
		h.Enter(second)
	}
	t.Logf("%d segments passed, %d were dropped", passed, dropped)
}

// inject sends segments far out of the windows, which must not pass: the check was on all the time.
func (p *path) inject(seed uint64) {
	p.t.Helper()
	for d, e := range p.ends {
		s := packet.Segment{Seq: e.nxt + 1<<31 - 1<<20, Len: 10, Ack: e.recvNxt, Flags: ack, Window: 100}
		if p.h.Segment(p.f, conntrack.Direction(d), &s, 60) {
			p.t.Fatalf("run %d: %+v passed", seed, s)
		}
	}
}

// TestExactRSTEndsFlow: at some point of such a connection one end aborts. Its RST, or the one that answers the challenge ACK of
// the other end, passes and closes the flow.
func TestExactRSTEndsFlow(t *testing.T) {
	tab := open(t, 10)
	h := tab.Register()
	h.Enter(second)
	closed := 0
	for seed := range uint64(300) {
		p := newPath(t, seed, h)
		for range 500 + p.r.IntN(3000) {
			p.step()
		}
		d := conntrack.Direction(p.r.IntN(2))
		from, to := p.ends[d], p.ends[d.Other()]
		if !from.synced || !to.synced {
			h.Remove(p.f)
			continue
		}
		from.aborted = true
		for _, seq := range []uint32{from.nxt, to.recvNxt} {
			s := packet.Segment{Seq: seq, Flags: rst}
			accepted := to.accepts(&s)
			if !h.Segment(p.f, d, &s, 40) && accepted {
				t.Fatalf("run %d: %+v is dropped: %s", seed, s, to)
			}
			to.take(&s)
		}
		if p.f.State() == conntrack.Closed {
			closed++
		} else if to.aborted {
			t.Errorf("run %d: the end believes the RST, the flow is %v", seed, p.f.State())
		}
		h.Remove(p.f)
		h.Leave()
		h.Enter(second)
	}
	if closed < 100 {
		t.Errorf("only %d flows closed", closed)
	}
}

// TestBothDirectionsAtOnce lets each end have a worker of its own, so that the check of one direction races with the other's
// updates: nothing that the receiver would take is dropped.
func TestBothDirectionsAtOnce(t *testing.T) {
	runs := uint64(60)
	if testing.Short() {
		runs = 10
	}
	tab := conntrack.NewOnHeap(options(10), 16, 1)
	main := tab.Register()
	for seed := range runs {
		main.Enter(second)
		p := newPath(t, seed, main)
		main.Leave()
		wire := [2]chan packet.Segment{make(chan packet.Segment, 64), make(chan packet.Segment, 64)}
		var finished atomic.Int32
		var wg sync.WaitGroup
		for d, e := range p.ends {
			e.r = rand.New(rand.NewPCG(seed, uint64(d)))
			w := worker{h: tab.Register(), f: p.f, d: conntrack.Direction(d), e: e, in: wire[1-d], out: wire[d], finished: &finished}
			wg.Go(func() { w.run(t) })
		}
		wg.Wait()
		if st := p.f.State(); st != conntrack.TimeWait || p.f.Unchecked() {
			t.Fatalf("run %d: ended as %v, unchecked: %v", seed, st, p.f.Unchecked())
		}
		main.Enter(second)
		main.Remove(p.f)
		main.Leave()
	}
}

// worker is one end, and the table's worker for what it sends.
type worker struct {
	h        *conntrack.Handle
	f        *conntrack.Flow
	d        conntrack.Direction
	e        *endpoint
	in, out  chan packet.Segment
	finished *atomic.Int32
}

func (w *worker) run(t *testing.T) {
	defer w.h.Close()
	for done := false; w.finished.Load() < 2; runtime.Gosched() {
		select {
		case s := <-w.in:
			w.e.take(&s)
		default:
		}
		s, ok := w.e.act()
		if ok && len(w.out) < cap(w.out) {
			w.h.Enter(second)
			passed := w.h.Segment(w.f, w.d, &s, 60)
			w.h.Leave()
			// With no loss and in order only a keep-alive with data under way can be too old.
			if !passed && (s.Seq != w.e.una-1 || w.e.una == w.e.nxt) {
				t.Errorf("%v %+v is dropped: %s", w.d, s, w.e)
			}
			if passed {
				w.out <- s
			}
		}
		if w.e.done() && !done {
			done = true
			w.finished.Add(1)
		}
	}
}
