// Package health checks endpoints actively, and says which are down.
//
// A Monitor has one schedule per target: the first check at once, then one per interval, spread by up to a tenth so that
// targets do not fall into step. A bounded number of checks runs at a time. An endpoint counts as up until its checks have
// proved the contrary.
package health

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"

	"sluice/config/topology"
)

// defaultConcurrency bounds the checks under way: each holds a socket for up to its timeout.
const defaultConcurrency = 256

// Options is what a Monitor works with.
type Options struct {
	Ports       topology.PortRange // that checks are sent from; zero for any
	OnChange    func()             // called after an endpoint went down or came up; must not block
	Concurrency int                // checks at a time; 256 when 0
	Log         *slog.Logger
}

// Monitor checks targets.
//
// Concurrency: all methods may be called from any goroutine.
type Monitor struct {
	options  Options
	checkers map[string]Checker
	slots    chan struct{}

	mu      sync.Mutex
	ctx     context.Context // of Run; nil while not running
	targets map[key]*task
	byAddr  map[endpoint]*task // for Down
	wg      sync.WaitGroup
}

// endpoint is an address behind a service. Down is asked about every port of an endpoint; the check of one of them speaks for
// those that are not checked themselves: they are one pod.
type endpoint struct {
	service string
	addr    netip.Addr
}

// task is a target under check.
type task struct {
	target Target
	cancel context.CancelFunc // nil until started
	tracker
}

// New returns a Monitor without targets.
func New(o Options) *Monitor {
	if o.Concurrency == 0 {
		o.Concurrency = defaultConcurrency
	}
	return &Monitor{options: o, checkers: checkers(o.Ports), slots: make(chan struct{}, o.Concurrency),
		targets: map[key]*task{}, byAddr: map[endpoint]*task{}}
}

// SetTargets replaces the targets. Those that stay keep their state, and their schedule too if the check is the same.
func (m *Monitor) SetTargets(targets []Target) error {
	for i := range targets {
		if m.checkers[targets[i].Check.Type] == nil {
			return fmt.Errorf("service %s: no health check of type %q", targets[i].Service, targets[i].Check.Type)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.targets
	m.targets, m.byAddr = make(map[key]*task, len(targets)), make(map[endpoint]*task, len(targets))
	for _, t := range targets {
		m.add(t, old)
	}
	for k, t := range old {
		if m.targets[k] != t && t.cancel != nil {
			t.cancel()
		}
	}
	return nil
}

// add takes over a target, with what is known of it.
func (m *Monitor) add(t Target, old map[key]*task) {
	k := t.key()
	n := old[k]
	if n == nil || n.target.Check != t.Check {
		fresh := &task{target: t}
		fresh.state = State{Service: t.Service, Port: t.Port, Address: t.Address, Up: true, Since: time.Now()}
		if n != nil {
			fresh.tracker = n.tracker
		}
		n = fresh
		if m.ctx != nil {
			m.start(n)
		}
	}
	m.targets[k] = n
	m.byAddr[endpoint{t.Service, t.Address.Addr()}] = n
}

// start begins the schedule of a task. m.mu is held.
func (m *Monitor) start(t *task) {
	ctx, cancel := context.WithCancel(m.ctx)
	t.cancel = cancel
	m.wg.Go(func() { m.schedule(ctx, t) })
}

// Run checks until ctx ends, and returns when the last check has.
func (m *Monitor) Run(ctx context.Context) {
	m.mu.Lock()
	m.ctx = ctx
	for _, t := range m.targets {
		m.start(t)
	}
	m.mu.Unlock()
	<-ctx.Done()
	m.mu.Lock()
	m.ctx = nil
	m.mu.Unlock()
	m.wg.Wait()
}

// schedule checks a target again and again. The first check comes within a tenth of an interval.
func (m *Monitor) schedule(ctx context.Context, t *task) {
	interval := t.target.Check.Interval
	wait := rand.N(interval/10 + 1)
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		started := time.Now()
		select {
		case <-ctx.Done():
			return
		case m.slots <- struct{}{}:
		}
		m.check(ctx, t)
		<-m.slots
		spread := rand.N(interval/5+1) - interval/10
		wait = max(0, interval+spread-time.Since(started))
	}
}

// check makes one check and takes in the result.
func (m *Monitor) check(ctx context.Context, t *task) {
	c := &t.target.Check
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	err := m.checkers[c.Type].Check(ctx, &t.target)
	if context.Cause(ctx) == context.Canceled {
		return // the target is gone, or everything ends: no result
	}
	m.mu.Lock()
	changed := t.result(err, time.Now(), c.Rise, c.Fall)
	state := t.state
	m.mu.Unlock()
	if !changed {
		return
	}
	if state.Up {
		m.options.Log.Info("endpoint is up", "service", state.Service, "endpoint", state.Address)
	} else {
		m.options.Log.Warn("endpoint is down: it gets no new flows", "service", state.Service, "endpoint", state.Address, "reason", state.Reason)
	}
	if m.options.OnChange != nil {
		m.options.OnChange()
	}
}

// Down reports whether an endpoint of a service is down; port is the name of a service port.
func (m *Monitor) Down(service, port string, addr netip.AddrPort) bool {
	s, ok := m.State(service, port, addr)
	return ok && !s.Up
}

// State returns what is known of an endpoint on a port of a service; ok is false when it is not checked.
func (m *Monitor) State(service, port string, addr netip.AddrPort) (s State, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.targets[key{service, port, addr}]
	if t == nil {
		t = m.byAddr[endpoint{service, addr.Addr()}]
	}
	if t == nil {
		return State{}, false
	}
	return t.state, true
}

// States returns what is known of all targets, by service and address.
func (m *Monitor) States() []State {
	m.mu.Lock()
	out := make([]State, 0, len(m.targets))
	for _, t := range m.targets {
		out = append(out, t.state)
	}
	m.mu.Unlock()
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), a.Address.Compare(b.Address), cmp.Compare(a.Port, b.Port))
	})
	return out
}
