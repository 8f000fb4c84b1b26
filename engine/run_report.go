package engine

import (
	"context"
	"time"

	"sluice/nat/reason"
)

const (
	sweepEvery  = 500 * time.Millisecond // each wake-up of an idle process costs: ten a second took 0.3 % of a processor
	reportEvery = 10 * time.Second
	sweepShare  = 16 // each sweep looks at this part of the flow table at most, so that it comes around in 8 s
)

// logReady says what was obtained.
func (a *appliance) logReady() {
	for _, i := range a.attachment.Interfaces() {
		args := []any{"interface", i.Interface, "mode", i.Mode}
		if i.Fallback != "" {
			args = append(args, "native_refused", i.Fallback)
		}
		a.log.Info("attached", args...)
	}
	zero, sockets := 0, a.socketStats()
	for i := range sockets {
		if sockets[i].ZeroCopy {
			zero++
		}
	}
	s := a.controller.Current()
	a.log.Info("ready", "workers", len(a.workers), "driver", a.topology.Gateway.Driver, "sockets", len(sockets),
		"zero_copy", zero, "services", len(s.Topology.Services), "max_flows", a.topology.Conntrack.MaxFlows,
		"started_in", time.Since(a.started).Round(time.Millisecond))
}

// housekeep expires flows and reports trouble in the background.
func (a *appliance) housekeep(ctx context.Context) error {
	handle := a.flows.Register()
	a.later(func() error { handle.Close(); return nil })
	budget := max(4096, a.topology.Conntrack.MaxFlows/sweepShare)
	a.background(ctx, func(ctx context.Context) {
		sweep, report := time.NewTicker(sweepEvery), time.NewTicker(reportEvery)
		defer sweep.Stop()
		defer report.Stop()
		seen := a.troubles()
		for {
			select {
			case <-ctx.Done():
				return
			case <-sweep.C:
				a.flows.Sweep(handle, a.clock.Now(), budget)
			case <-report.C:
				now := a.troubles()
				a.report(seen, now)
				seen = now
			}
		}
	})
	return nil
}

// troubles is what was counted of things that somebody should look into.
type troubles struct {
	packets  [reason.Count]uint64
	linkDown map[string]uint64 // by interface: system calls that failed because the link takes nothing
	noSocket map[string]uint64 // by interface: packets that the XDP program had no socket for
	tooBig   map[string]uint64 // by interface: packets for which the socket had no chunk of memory, or none large enough
}

func (a *appliance) troubles() troubles {
	t := troubles{linkDown: map[string]uint64{}, noSocket: map[string]uint64{}, tooBig: map[string]uint64{}}
	t.packets, _ = a.total()
	for _, s := range a.socketStats() {
		t.linkDown[s.Interface] += s.KickErrs
		t.tooBig[s.Interface] += s.RxDropped
	}
	for _, c := range a.classified() {
		t.noSocket[c.Interface] = c.NoSocket
	}
	return t
}

// advice says what to do about a reason to drop packets; "" for those that are no fault of the gateway or its surroundings.
func advice(r reason.Reason) string {
	switch r {
	case reason.TableFull:
		return "raise conntrack.max_flows, or shorten the timeouts"
	case reason.SNATExhausted:
		return "widen gateway.snat_ports, or add backends"
	case reason.NoRoute:
		return "add a route to the clients and backends: ip route"
	case reason.NotAttached:
		return "add the interface that the route leads out of to gateway.interfaces"
	case reason.LocalBackend:
		return "an endpoint must not be one of this gateway's own addresses"
	case reason.NeighbourFailed, reason.NeighbourQueueFull:
		return "check that the next hops are up: ip neigh lists those that failed"
	case reason.TxFull:
		return "the interface is slower than what comes in, or its link is down"
	case reason.PuntFull:
		return "check that the slp devices are up: ip link"
	case reason.ReplyClash:
		return "set gateway.snat_addresses, so that clashing flows can get another source port"
	}
	return ""
}

// report logs what has grown between two readings.
func (a *appliance) report(before, now troubles) {
	for r := range reason.Count {
		why := reason.Reason(r)
		if n := now.packets[r] - before.packets[r]; n > 0 && advice(why) != "" {
			a.log.Warn("packets dropped: "+why.Text(), "reason", why.String(), "packets", n, "over", reportEvery, "do", advice(why))
		}
	}
	warn := func(what string, before, now map[string]uint64) {
		for name, n := range now {
			if n > before[name] {
				a.log.Warn(what, "interface", name, "count", n-before[name], "over", reportEvery)
			}
		}
	}
	warn("an interface takes no packets: check its link", before.linkDown, now.linkDown)
	warn("packets came in on receive queues that no worker serves, and were dropped: the number of queues was changed after "+
		"the start; restart, or set it back with ethtool -L", before.noSocket, now.noSocket)
	warn("packets were dropped before a worker saw them: too many at once, or larger than the MTU because offloads put several "+
		"into one; in generic mode switch these off with ethtool -K gro off", before.tooBig, now.tooBig)
}
