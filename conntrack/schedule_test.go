package conntrack_test

import (
	"iter"
	"math/rand/v2"
	"testing"

	"github.com/anishathalye/porcupine"

	"sluice/conntrack"
)

// schedule runs functions as coroutines, one at a time, and switches between them at the table's steps in an order
// drawn from r: the same seed gives the same interleaving on every machine.
type schedule struct {
	r       *rand.Rand
	now     int64 // logical time: one unit per reading
	running func(struct{}) bool
}

// clock returns a later time with each call.
func (s *schedule) clock() int64 {
	s.now++
	return s.now
}

// pause hands over to the scheduler.
func (s *schedule) pause() {
	if s.running != nil {
		s.running(struct{}{})
	}
}

// run runs all functions to their ends.
func (s *schedule) run(fns []func()) {
	type task struct {
		next   func() (struct{}, bool)
		resume func(struct{}) bool
	}
	tasks := make([]*task, len(fns))
	for i, fn := range fns {
		k := new(task)
		k.next, _ = iter.Pull(func(yield func(struct{}) bool) {
			k.resume, s.running = yield, yield
			fn()
		})
		tasks[i] = k
	}
	for len(tasks) > 0 {
		i := s.r.IntN(len(tasks))
		s.running = tasks[i].resume
		if _, more := tasks[i].next(); !more {
			tasks = append(tasks[:i], tasks[i+1:]...)
		}
	}
	s.running = nil
}

// TestSchedules is TestLinearizable over interleavings drawn at random from all those of the table's steps, most of which
// need a goroutine to be stopped at a place that takes a nanosecond to pass. After each history the invariants must hold.
func TestSchedules(t *testing.T) {
	histories := 8000
	if testing.Short() {
		histories = 1500
	}
	for _, tt := range []struct {
		name                string
		buckets, goroutines int
	}{{"one chain, two", 1, 2}, {"one chain, three", 1, 3}, {"four chains, three", 4, 3}, {"two chains, four", 2, 4}} {
		t.Run(tt.name, func(t *testing.T) {
			tab := conntrack.NewOnHeap(options(100), tt.buckets, 1)
			s := &schedule{r: rand.New(rand.NewPCG(uint64(tt.buckets), uint64(tt.goroutines)))}
			tab.OnStep(s.pause)
			recorders := make([]*recorder, tt.goroutines)
			for i := range recorders {
				recorders[i] = &recorder{id: i, h: tab.Register(), r: s.r, clock: s.clock}
			}
			for n := range histories {
				var fns []func()
				for i, c := range recorders {
					c.history = c.history[:0]
					fns = append(fns, func() { c.run(8, uint32(1000*n+100*i+1)) })
				}
				s.run(fns)
				var history []porcupine.Operation
				for _, c := range recorders {
					history = append(history, c.history...)
				}
				mustBeLinear(t, n, history)
				check(t, tab)
				if t.Failed() {
					t.Fatalf("after history %d", n)
				}
				clear(t, tab, recorders[0].h)
			}
			t.Logf("%+v", tab.Stats())
			if aborts := tab.Stats().Aborts; aborts < uint64(histories)/20 {
				t.Errorf("only %d aborts: the path was hardly taken", aborts)
			}
		})
	}
}
