package engine

import (
	"context"
	"time"

	"sluice/engine/control"
	"sluice/engine/healthz"
)

// openHealth makes what tells others how the gateway and its services do.
func (a *appliance) openHealth(ctx context.Context) {
	a.own = healthz.NewGateway(time.Now)
	a.checks = healthz.NewPorts(healthz.PortsOptions{Healthy: a.own.Healthy, Log: a.log})
	a.later(a.checks.Close)
	a.background(ctx, a.checks.Run)
}

// published shows a new snapshot to load balancers, once it is in force, and has flows judged under it.
func (a *appliance) published(s *control.Snapshot) {
	if a.sweeper != nil { // the first generation has nothing to sweep
		a.sweeper.notify()
	}
	a.names.republish(s)
	a.own.Updated(s.Topology)
	a.checks.Set(healthz.Addresses(&s.Topology.Gateway), healthz.Checks(s.NAT))
}

// serveHealth opens the listener for /healthz, /livez and /ready, if there is to be one.
func (a *appliance) serveHealth() error {
	a.own.Ready.Require(a.workers.missing)
	a.own.Ready.Require(a.names.missing)
	address := a.topology.Gateway.Healthz
	if address == "" {
		return nil
	}
	stop, err := a.own.Serve(address, a.log)
	if err != nil {
		return err
	}
	a.later(stop)
	return nil
}
