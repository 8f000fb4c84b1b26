package engine

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/dns"
	"sluice/engine/admin"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/engine/health"
	"sluice/engine/healthz"
	"sluice/engine/metrics"
	"sluice/engine/punt"
	"sluice/nat"
	"sluice/xdp"
)

// Options says what to run.
type Options struct {
	Source  control.Source
	Log     *slog.Logger
	Reload  <-chan os.Signal // each receive loads the Source again; nil: never
	Version string           // of the program, for the metrics
}

// Run is the appliance: it attaches to the interfaces of the source's topology and serves until ctx ends, which is no
// error. It runs in the network namespace of the calling thread. When it returns, everything is as it was before.
func Run(ctx context.Context, o Options) error {
	t, err := o.Source.Load(ctx)
	if err != nil {
		return err
	}
	interfaces, err := preflight(t)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a := &appliance{log: o.Log, source: o.Source, requests: o.Reload, topology: t, clock: NewClock(), started: time.Now(),
		names: newNameServers(o.Log), version: o.Version,
		cancel: cancel}
	if err := a.start(ctx, interfaces); err != nil {
		return errors.Join(err, a.close())
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
		err = cause
	}
	a.log.Info("stopping")
	a.own.Ready.Stop()
	return errors.Join(err, a.close())
}

// appliance is everything that runs.
type appliance struct {
	log      *slog.Logger
	source   control.Source
	requests <-chan os.Signal   // to reload
	topology *topology.Topology // of the start; controller has that of now
	clock    Clock
	started  time.Time
	version  string
	cancel   context.CancelCauseFunc // ends Run, with an error

	nextHops   *fib.Watcher
	flows      *conntrack.Table
	health     *health.Monitor
	own        *healthz.Gateway // health of the gateway itself
	checks     *healthz.Ports   // of services, for load balancers
	controller *control.Controller
	stale      *Stale
	sweeper    *sweeper
	sockets    *xdp.Sockets
	punt       *punt.Set
	workers    workers
	counters   []*Counters // of each worker
	names      *nameServers
	reloads    reloads
	attachment *xdp.Attachment

	undo []func() error // what close does, the last first
}

// later adds a step to close.
func (a *appliance) later(f func() error) { a.undo = append(a.undo, f) }

// close undoes start, however far it came.
func (a *appliance) close() error {
	var errs []error
	for i := len(a.undo) - 1; i >= 0; i-- {
		errs = append(errs, a.undo[i]())
	}
	a.undo = nil
	return errors.Join(errs...)
}

// start opens everything, in the order of who needs whom. No packet is taken off the wire before the workers run; and since
// close goes the other way round, none is after they have stopped.
func (a *appliance) start(ctx context.Context, interfaces []int) error {
	for _, step := range []func() error{
		func() error { return a.watchNextHops(interfaces) },
		a.openFlows,
		func() error { return a.control(ctx) },
		a.openSockets,
		a.startWorkers,
		a.startDNS,
		func() error { a.remember(a.topology); return nil }, // before anybody sees an address that was allocated
		a.attach,
		func() error { return a.housekeep(ctx) },
		func() error { return a.followReloads(ctx) },
		a.serveHealth,
		a.serveMetrics,
		a.serveAdmin, // last: once it answers, the appliance is ready
	} {
		if err := step(); err != nil {
			return err
		}
	}
	a.logReady()
	return nil
}

// remember tells the source that a topology is in use. That it cannot be remembered is no reason not to serve.
func (a *appliance) remember(t *topology.Topology) {
	k, ok := a.source.(control.Keeper)
	if !ok {
		return
	}
	if err := k.Accepted(t); err != nil {
		a.log.Error(err.Error())
	}
}

func (a *appliance) watchNextHops(interfaces []int) (err error) {
	if a.nextHops, err = fib.Watch(interfaces, a.log); err != nil {
		return err
	}
	a.later(a.nextHops.Close)
	return nil
}

func (a *appliance) openFlows() (err error) {
	c := &a.topology.Conntrack
	if a.flows, err = conntrack.New(conntrack.Options{MaxFlows: c.MaxFlows, Timeouts: c.Timeouts, Liberal: c.TCPLiberal}); err != nil {
		return err
	}
	a.later(a.flows.Close)
	return nil
}

// control builds the first snapshot, and follows changes of health from then on.
func (a *appliance) control(ctx context.Context) (err error) {
	ports, ok := health.OutsidePorts(a.topology.Gateway.SNATPorts, a.topology.Cluster.NodePortRange)
	if !ok {
		a.log.Warn("health checks share their source ports with translated flows; narrow gateway.snat_ports to leave them some")
	}
	a.health = health.New(health.Options{Ports: ports, OnChange: func() { a.controller.Notify() }, Log: a.log})
	a.openHealth(ctx)
	a.controller, err = control.New(a.topology, control.Options{
		Queued:    a.own.Queued,
		Published: a.published,
		Down:      a.health.Down,
		Targets:   func(t *topology.Topology) error { return a.health.SetTargets(health.Targets(t)) },
		Keep:      a.nextHops.Keep,
		Log:       a.log,
	})
	if err != nil {
		return err
	}
	a.stale = NewStale()
	a.sweeper = newSweeper(a.flows, a.controller, a.stale, a.clock.Now)
	a.later(func() error { a.sweeper.handle.Close(); return nil })
	a.background(ctx, a.sweeper.run)
	a.background(ctx, a.controller.Run)
	a.background(ctx, a.health.Run)
	return nil
}

// background runs f until close, which waits for it.
func (a *appliance) background(ctx context.Context, f func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(ctx)
	}()
	a.later(func() error {
		cancel()
		<-done
		return nil
	})
}

// openSockets opens the sockets of all workers, and the way back to the kernel.
func (a *appliance) openSockets() (err error) {
	g := &a.topology.Gateway
	a.sockets, err = xdp.Open(xdp.Options{
		Interfaces: g.Interfaces, Driver: g.Driver, Mode: xdp.Mode(g.XDPMode), Queues: g.Queues,
	})
	if err != nil {
		return err
	}
	a.later(a.sockets.Close)
	if a.punt, err = punt.Open(a.sockets.Interfaces); err != nil {
		return err
	}
	a.later(a.punt.Close)
	return nil
}

// startWorkers makes a worker of each Port.
func (a *appliance) startWorkers() error {
	checksum, err := checksumMode(a.topology.Gateway.Checksum)
	if err != nil {
		return err
	}
	pins := nat.NewAffinity(nat.AffinityPins, secret())
	seed, fragments := secret(), NewFragments(secret())
	// A worker that is busy holds one of Go's processors for good. With so many more, everything else does not have to wait
	// until the scheduler interrupts one.
	old := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(old + len(a.sockets.Ports))
	a.later(func() error { runtime.GOMAXPROCS(old); return nil })
	cpus := processors(len(a.sockets.Ports))
	for i, port := range a.sockets.Ports {
		counters, handle := &Counters{}, a.flows.Register()
		a.later(func() error { handle.Close(); return nil })
		a.counters = append(a.counters, counters)
		a.workers = append(a.workers, &worker{
			index: i, cpu: cpus[i], port: port, snapshots: a.controller, clock: a.clock, log: a.log,
			pipeline: NewPipeline(PipelineConfig{
				Port: port, Flows: handle, NextHops: a.nextHops, Punter: a.punt.Punter(), Checksum: checksum,
				Counters: counters, PortSeed: seed, Affinity: pins, Stale: a.stale, Fragments: fragments,
				DNS: dns.Responder{Cookies: a.names.cookies},
			}),
		})
	}
	a.workers.start(a.cancel)
	a.later(a.workers.stop)
	return nil
}

// secret returns a random number that nobody outside can guess.
func secret() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.NativeEndian.Uint64(b[:])
}

// checksumMode translates gateway.checksum.
func checksumMode(name string) (nat.ChecksumMode, error) {
	switch name {
	case "auto":
		return nat.Auto, nil
	case "incremental":
		return nat.Incremental, nil
	case "full":
		return nat.Full, nil
	}
	return 0, fmt.Errorf("gateway.checksum %q: must be auto, incremental or full", name)
}

// attach puts the XDP program in front of the sockets.
func (a *appliance) attach() (err error) {
	if a.attachment, err = xdp.Attach(a.sockets, a.controller.Current().Rules); err != nil {
		return err
	}
	a.later(a.attachment.Close)
	a.controller.Connect(a.attachment)
	return nil
}

// serveMetrics opens the metrics listener, if there is to be one.
func (a *appliance) serveMetrics() error {
	address := a.topology.Gateway.Metrics
	if address == "" {
		return nil
	}
	handler, err := metrics.Handler(a.sample)
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("metrics: %w; set gateway.metrics to another address, or to \"\" for none", err)
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelWarn)}
	go func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			a.log.Error("metrics are served no longer; restart to have them back", "error", err)
		}
	}()
	a.later(s.Close)
	return nil
}

// serveAdmin opens the admin socket, if there is to be one.
func (a *appliance) serveAdmin() error {
	path := a.topology.Gateway.Admin
	if path == "" {
		return nil
	}
	s, err := admin.Listen(path, status{a}, a.log)
	if err != nil {
		return err
	}
	go s.Serve()
	a.later(s.Close)
	return nil
}
