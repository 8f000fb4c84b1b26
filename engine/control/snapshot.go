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
}

// Down says whether an endpoint fails its health check. service is "namespace/name", port the name of the service port.
type Down func(service, port string, addr netip.AddrPort) bool

// Build compiles a topology. down may be nil: all endpoints pass. previous is the generation before, or nil; what has not
// changed is taken over from it, and endpoints that have gone stay in the rules (see mergeBackends).
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
	s := &Snapshot{Generation: generation, Topology: t, NAT: table, Rules: Rules(table)}
	if previous != nil {
		s.Rules.Backends = mergeBackends(previous.Rules.Backends, s.Rules.Backends)
	}
	return s, nil
}
