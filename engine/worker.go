package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"sluice/engine/control"
	"sluice/xdp"
)

// How a worker waits. After traffic it polls on for a moment, because the next packet is likely to come before a sleep
// and a wake-up would be over; then it sleeps in poll(2), which costs nothing while nothing comes.
const (
	receiveBatch = 64
	emptyPolls   = 64                    // before sleeping; a TCP stream over veth: 2.1 Gbit/s, and 1.8 with none
	idleWait     = time.Second           // with nothing to do
	pendingWait  = 5 * time.Millisecond  // while frames wait for a neighbour
	tickEvery    = 10 * time.Millisecond // for what time asks for, under load too
)

// Clock is the monotonic time of the packet path, in nanoseconds. Its zero lies before the start of the process, so that no
// reading is zero.
type Clock struct{ base time.Time }

// NewClock returns a clock.
func NewClock() Clock { return Clock{time.Now().Add(-time.Second)} }

// Now reads the clock. It does not allocate.
func (c Clock) Now() int64 { return int64(time.Since(c.base)) }

// worker moves frames from its Port through its Pipeline, on a thread of its own.
type worker struct {
	index     int
	cpu       int // to pin the thread to; -1: none
	port      xdp.Port
	pipeline  *Pipeline
	snapshots *control.Controller
	clock     Clock
	log       *slog.Logger

	stopping atomic.Bool
	done     chan struct{}
	err      error // why it ended; valid once done is closed
}

// start runs the worker until stop is called or its Port fails.
func (w *worker) start(failed func(error)) {
	w.done = make(chan struct{})
	go func() {
		defer close(w.done)
		runtime.LockOSThread() // not unlocked: the pinned thread ends with the goroutine
		if w.cpu >= 0 {
			if err := pin(w.cpu); err != nil {
				w.log.Warn("a worker runs unpinned; its speed may vary", "worker", w.index, "cpu", w.cpu, "error", err)
			}
		}
		if w.err = w.loop(); w.err != nil {
			w.err = fmt.Errorf("worker %d: %w", w.index, w.err)
			failed(w.err)
		}
	}()
}

// stop ends the worker and waits until it has.
func (w *worker) stop() error {
	w.stopping.Store(true)
	w.port.Wake()
	<-w.done
	return w.err
}

// loop is the worker's life: poll, process, flush; sleep when nothing has come for a while.
func (w *worker) loop() error {
	frames := make([]xdp.Frame, receiveBatch)
	empty, ticked := 0, w.clock.Now()
	for !w.stopping.Load() {
		n := w.port.Receive(frames)
		now := w.clock.Now()
		snap := w.snapshots.Current()
		if n > 0 {
			w.pipeline.Process(snap, now, frames[:n])
			empty = 0
		} else {
			empty++
		}
		if now-ticked >= int64(tickEvery) {
			w.pipeline.Tick(snap, now)
			ticked = now
		}
		if err := w.port.Flush(); err != nil {
			return err
		}
		if empty <= emptyPolls {
			continue
		}
		if err := w.port.Wait(w.patience()); err != nil {
			return err
		}
		empty = 0
	}
	return nil
}

// patience is how long the worker may sleep.
func (w *worker) patience() time.Duration {
	if w.pipeline.Pending() > 0 {
		return pendingWait
	}
	return idleWait
}

// workers are all of them.
type workers []*worker

// start starts all; failed is called, from any goroutine, when one ends by itself.
func (ws workers) start(failed func(error)) {
	for _, w := range ws {
		w.start(failed)
	}
}

// stop stops all.
func (ws workers) stop() error {
	var errs []error
	for _, w := range ws {
		errs = append(errs, w.stop())
	}
	return errors.Join(errs...)
}

// missing names those that have ended.
func (ws workers) missing() (names []string) {
	for _, w := range ws {
		select {
		case <-w.done:
			names = append(names, fmt.Sprintf("worker %d", w.index))
		default:
		}
	}
	return names
}
