// Package control turns topologies and health into snapshots: it compiles the service table and the rules of the XDP
// program, and publishes each new state of what the gateway serves.
package control

import (
	"context"
	"fmt"
	"net/netip"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/xdp"
)

// Source is where topologies come from: a file, or later other things.
type Source interface {
	// Load returns the topology as it is now, resolved and valid. It is immutable from then on.
	Load(ctx context.Context) (*topology.Topology, error)
}

// Keeper is a Source that remembers, for the next topology, what the services of one in use were allocated.
type Keeper interface {
	// Accepted says that a topology which Load returned is in use, or about to be.
	Accepted(t *topology.Topology) error
}

// Snapshot is one immutable state of what the gateway serves. Workers load it once a batch, so that a packet sees one
// generation and never a mix.
type Snapshot struct {
	Generation uint64 // grows with each published snapshot, from 1
	Topology   *topology.Topology
	NAT        *nat.Table
	Rules      *xdp.Rules // what the XDP program redirects to us
	// Departed are those service addresses, NodePorts with their addresses, and backends among Rules that the topology does not
	// have any longer, sorted. Flows may go on to them and from them. Controller.Forget takes them out.
	Departed xdp.Rules
	Names    *Names // nil: the gateway answers no DNS
}

// depart adds to the rules what was among those of the generation before, and is not any longer.
func (s *Snapshot) depart(before *xdp.Rules) {
	d, r := &s.Departed, s.Rules
	d.Services = without(before.Services, r.Services)
	d.NodePortAddrs = without(before.NodePortAddrs, r.NodePortAddrs)
	d.NodePorts = without(before.NodePorts, r.NodePorts)
	d.Backends = without(before.Backends, r.Backends)
	r.Services = union(r.Services, d.Services, netip.Addr.Compare)
	r.NodePortAddrs = union(r.NodePortAddrs, d.NodePortAddrs, netip.Addr.Compare)
	r.NodePorts = union(r.NodePorts, d.NodePorts, comparePorts)
	r.Backends = union(r.Backends, d.Backends, compareBackends)
}

// forget returns the same generation without what has departed and is in gone; nil when there is nothing such.
func (s *Snapshot) forget(gone *xdp.Rules) *Snapshot {
	next, rules, left := *s, *s.Rules, s.Departed
	left.Services = without(s.Departed.Services, gone.Services)
	left.NodePortAddrs = without(s.Departed.NodePortAddrs, gone.NodePortAddrs)
	left.NodePorts = without(s.Departed.NodePorts, gone.NodePorts)
	left.Backends = without(s.Departed.Backends, gone.Backends)
	if size(&left) == size(&s.Departed) {
		return nil
	}
	rules.Services = without(s.Rules.Services, without(s.Departed.Services, left.Services))
	rules.NodePortAddrs = without(s.Rules.NodePortAddrs, without(s.Departed.NodePortAddrs, left.NodePortAddrs))
	rules.NodePorts = without(s.Rules.NodePorts, without(s.Departed.NodePorts, left.NodePorts))
	rules.Backends = without(s.Rules.Backends, without(s.Departed.Backends, left.Backends))
	next.Rules, next.Departed = &rules, left
	return &next
}

// size is how many addresses, NodePorts and backends there are.
func size(r *xdp.Rules) int {
	return len(r.Services) + len(r.NodePortAddrs) + len(r.NodePorts) + len(r.Backends)
}

// Down says whether an endpoint fails its health check. service is "namespace/name", port the name of the service port.
type Down func(service, port string, addr netip.AddrPort) bool

// Build compiles a topology. down may be nil: all endpoints pass. previous is the generation before, or nil; what has not
// changed is taken over from it, and what has gone stays in the rules (see Snapshot.Departed).
func Build(t *topology.Topology, down Down, previous *Snapshot) (*Snapshot, error) {
	o := nat.CompileOptions{Down: down}
	generation := uint64(1)
	if previous != nil {
		o.Previous, generation = previous.NAT, previous.Generation+1
	}
	table, err := nat.Compile(t, o)
	if err != nil {
		return nil, fmt.Errorf("compiling the topology: %w", err)
	}
	n, err := names(t, previous)
	if err != nil {
		return nil, err
	}
	s := &Snapshot{Generation: generation, Topology: t, NAT: table, Rules: Rules(table), Names: n}
	s.Rules.Services = union(s.Rules.Services, t.DNS.Addresses, netip.Addr.Compare)
	if previous != nil {
		s.depart(previous.Rules)
	}
	return s, nil
}
