package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"

	"sluice/config/topology"
	"sluice/engine/control"
)

// reloads counts what came of requests to reload.
//
// Concurrency: read by any goroutine.
type reloads struct{ done, failed atomic.Uint64 }

// followReloads loads the topology anew whenever Options.Reload says so, until close.
func (a *appliance) followReloads(ctx context.Context) error {
	if a.requests == nil {
		return nil
	}
	a.background(ctx, func(ctx context.Context) {
		for {
			select {
			case <-ctx.Done():
				return
			case <-a.requests:
				a.reload(ctx)
			}
		}
	})
	return nil
}

// reload makes the topology that the source has now what is served. When there is anything wrong with it, all stays as it
// was: log and metrics say so.
func (a *appliance) reload(ctx context.Context) {
	before := a.controller.Current().Topology
	next, err := a.source.Load(ctx)
	if err == nil {
		err = errors.Join(fixedKeys(before, next)...)
	}
	if err == nil {
		err = a.controller.Apply(next)
	}
	generation := a.controller.Current().Generation
	if err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			a.log.Error("reload: the topology is refused; the one from before stays in use",
				"error", line, "generation", generation)
		}
		a.reloads.failed.Add(1)
		return
	}
	a.remember(next)
	d := control.Compare(before, next)
	a.log.Info("reloaded", "generation", generation, "services", len(next.Services),
		"services_added", d.ServicesAdded, "services_removed", d.ServicesRemoved, "services_changed", d.ServicesChanged,
		"endpoints_added", d.EndpointsAdded, "endpoints_removed", d.EndpointsRemoved, "endpoints_changed", d.EndpointsChanged)
	a.reloads.done.Add(1)
}

// fixedKeys returns an error for each key that differs and is read at the start only: what it decides (sockets, memory,
// listeners, the ports that flows in use have) cannot be exchanged under traffic.
func fixedKeys(a, b *topology.Topology) (errs []error) {
	for _, k := range append(fixedSettings(a, b), fixedTimeouts(&a.Conntrack.Timeouts, &b.Conntrack.Timeouts)...) {
		if !reflect.DeepEqual(k.was, k.now) {
			errs = append(errs, fmt.Errorf("%s: %v is in use, and %v is asked for: it is read at the start only; restart, or "+
				"set it back", k.name, k.was, k.now))
		}
	}
	return errs
}

// fixedKey is a key that is read at the start only, with its two values.
type fixedKey struct {
	name     string
	was, now any
}

func fixedSettings(a, b *topology.Topology) []fixedKey {
	return []fixedKey{
		{"gateway.interfaces", a.Gateway.Interfaces, b.Gateway.Interfaces},
		{"gateway.driver", a.Gateway.Driver, b.Gateway.Driver},
		{"gateway.xdp_mode", a.Gateway.XDPMode, b.Gateway.XDPMode},
		{"gateway.queues", a.Gateway.Queues, b.Gateway.Queues},
		{"gateway.checksum", a.Gateway.Checksum, b.Gateway.Checksum},
		{"gateway.snat_addresses", a.Gateway.SNATAddresses, b.Gateway.SNATAddresses},
		{"gateway.snat_ports", a.Gateway.SNATPorts, b.Gateway.SNATPorts},
		{"gateway.admin", a.Gateway.Admin, b.Gateway.Admin},
		{"gateway.metrics", a.Gateway.Metrics, b.Gateway.Metrics},
		{"gateway.healthz", a.Gateway.Healthz, b.Gateway.Healthz},
		{"gateway.state_file", a.Gateway.StateFile, b.Gateway.StateFile},
		{"cluster.node_port_range", a.Cluster.NodePortRange, b.Cluster.NodePortRange},
		{"conntrack.max_flows", a.Conntrack.MaxFlows, b.Conntrack.MaxFlows},
		{"conntrack.tcp_liberal", a.Conntrack.TCPLiberal, b.Conntrack.TCPLiberal},
	}
}

func fixedTimeouts(a, b *topology.Timeouts) []fixedKey {
	return []fixedKey{
		{"conntrack.tcp_syn", a.TCPSyn, b.TCPSyn},
		{"conntrack.tcp_established", a.TCPEstablished, b.TCPEstablished},
		{"conntrack.tcp_half_closed", a.TCPHalfClosed, b.TCPHalfClosed},
		{"conntrack.tcp_time_wait", a.TCPTimeWait, b.TCPTimeWait},
		{"conntrack.tcp_close", a.TCPClose, b.TCPClose},
		{"conntrack.udp", a.UDP, b.UDP},
		{"conntrack.udp_stream", a.UDPStream, b.UDPStream},
		{"conntrack.icmp", a.ICMP, b.ICMP},
		{"conntrack.sctp_setup", a.SCTPSetup, b.SCTPSetup},
		{"conntrack.sctp", a.SCTP, b.SCTP},
		{"conntrack.sctp_shutdown", a.SCTPShutdown, b.SCTPShutdown},
	}
}
