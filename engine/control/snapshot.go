// Package control turns topologies and health into snapshots: it compiles the service table and the rules of the XDP
// program, and publishes each new state of what the gateway serves.
package control

import (
	"sluice/config/topology"
	"sluice/nat"
	"sluice/xdp"
)

// Snapshot is one immutable state of what the gateway serves. Workers load it once a batch, so that a packet sees one
// generation and never a mix.
type Snapshot struct {
	Generation uint64 // grows with each published snapshot, from 1
	Topology   *topology.Topology
	NAT        *nat.Table
	Rules      *xdp.Rules // what the XDP program redirects to us
}
