package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"sluice/config/topology"
	"sluice/xdp"
)

// DefaultInterval is the least time between two rebuilds for changes of health: however many endpoints change at once,
// the compiler runs at most so often.
const DefaultInterval = 50 * time.Millisecond

// Classifier takes the rules of what is ours; xdp.Attachment is one.
type Classifier interface {
	SetRules(*xdp.Rules) error
}

// Options is what a Controller works with.
type Options struct {
	Down      Down                             // nil: all endpoints pass
	Targets   func(t *topology.Topology) error // told of each new topology, for its health checks; may be nil
	Keep      func(backends []netip.Addr)      // told of the backends' addresses, to keep their next hops alive; may be nil
	Queued    func()                           // told when a change is about to be put in force; must not block; may be nil
	Published func(*Snapshot)                  // told of each snapshot once workers may see it, in order; may be nil
	Interval  time.Duration                    // DefaultInterval when 0
	Log       *slog.Logger
}

// Controller owns the current snapshot: it builds the next one when topology or health change, and publishes it.
//
// Concurrency: all methods may be called from any goroutine. Current is a single atomic load.
type Controller struct {
	Options
	current  atomic.Pointer[Snapshot]
	requests chan struct{}

	mu         sync.Mutex // one rebuild at a time; guards classifier
	classifier Classifier
}

// New builds the first snapshot, under which all endpoints pass that Down does not know of.
func New(t *topology.Topology, o Options) (*Controller, error) {
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	c := &Controller{Options: o, requests: make(chan struct{}, 1)}
	return c, c.Apply(t)
}

// Current returns the published snapshot.
func (c *Controller) Current() *Snapshot { return c.current.Load() }

// Connect makes the Controller keep the rules of cl up to date. cl must have the rules of the current snapshot.
func (c *Controller) Connect(cl Classifier) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.classifier = cl
}

// Apply makes t what the gateway serves. On an error everything stays as it was.
func (c *Controller) Apply(t *topology.Topology) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.setTargets(t); err != nil {
		return err
	}
	if err := c.publish(t); err != nil {
		if old := c.Current(); old != nil {
			err = errors.Join(err, c.setTargets(old.Topology))
		}
		return err
	}
	return nil
}

// setTargets says which endpoints are to be checked.
func (c *Controller) setTargets(t *topology.Topology) error {
	if c.Targets == nil {
		return nil
	}
	if err := c.Targets(t); err != nil {
		return fmt.Errorf("health checks: %w", err)
	}
	return nil
}

// Notify says that the health of an endpoint has changed. It never blocks; Run does the work.
func (c *Controller) Notify() {
	c.queued()
	select {
	case c.requests <- struct{}{}:
	default: // one is waiting already, and will see this change too
	}
}

// queued tells that something is to be put in force.
func (c *Controller) queued() {
	if c.Queued != nil {
		c.Queued()
	}
}

// Run rebuilds on Notify until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.requests:
		}
		if err := c.refresh(); err != nil {
			c.Log.Error("rebuilding after a change of health failed; the state from before stays in use", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(c.Interval):
		}
	}
}

// refresh builds the current topology again, under the health of now.
func (c *Controller) refresh() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.publish(c.Current().Topology)
}

// publish builds and publishes a snapshot. The rules learn what is new before workers see it and forget what is old only
// afterwards, so that no packet of a flow is missed. The caller holds mu.
func (c *Controller) publish(t *topology.Topology) error {
	old := c.Current()
	next, err := Build(t, c.Down, old)
	if err != nil {
		return err
	}
	c.queued() // not before: a topology that does not compile is the caller's to mend, and nothing waits for it
	changed := c.classifier != nil && !equal(old.Rules, next.Rules)
	var grown *xdp.Rules
	if changed {
		grown = both(old.Rules, next.Rules)
		if err := c.classifier.SetRules(grown); err != nil {
			return fmt.Errorf("adding rules to the XDP program: %w", err)
		}
	}
	c.current.Store(next)
	if c.Keep != nil {
		c.Keep(next.NAT.BackendAddrs())
	}
	if changed && !equal(grown, next.Rules) {
		c.shrink(next.Rules)
	}
	if c.Published != nil {
		c.Published(next)
	}
	return nil
}

// shrink takes what is not among rules out of the XDP program. The caller holds mu.
func (c *Controller) shrink(rules *xdp.Rules) {
	if err := c.classifier.SetRules(rules); err != nil {
		c.Log.Warn("removing old rules from the XDP program failed; their packets take the detour over the gateway's "+
			"workers until the next change", "error", err)
	}
}

// Forget takes departed addresses, NodePorts and backends out of the rules: no flow refers to them any longer.
// What has come back meanwhile stays. The generation does not change.
func (c *Controller) Forget(gone *xdp.Rules) {
	c.mu.Lock()
	defer c.mu.Unlock()
	next := c.Current().forget(gone)
	if next == nil {
		return
	}
	c.current.Store(next)
	if c.classifier != nil {
		c.shrink(next.Rules)
	}
}
