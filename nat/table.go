// Package nat decides what a service does to a flow and rewrites packets accordingly.
//
// A Table is the compiled form of a topology: it says for the first packet of a flow which backend takes it, whether
// the client's address is kept, or why the packet is dropped, rejected or none of ours. The rules are those of
// Kubernetes' kube-proxy in its nftables mode; docs/decisions/0003 lists where they come from and where they are made
// stricter. Later packets of a flow never ask the table: they follow the flow table.
package nat

import (
	"iter"
	"net/netip"

	"sluice/config/topology"
	"sluice/nat/maglev"
	"sluice/xdp/packet"
)

// Table is one compiled generation of the services.
//
// Concurrency: a Table is immutable; any number of goroutines may read it.
type Table struct {
	ports     []*Port
	fronts    map[frontKey]front
	nodePorts map[nodePortKey]*Port
	addrs     map[packet.Addr]addrUse

	ranges    prefixes // service CIDRs
	pods      prefixes // sources that count as pods
	local     map[packet.Addr]struct{}
	nodeAddrs map[packet.Addr]struct{} // on which NodePorts are served

	masqueradeAll bool
	snat          [families]packet.Addr
	hasSNAT       [families]bool
	gateway       *topology.Gateway
	cluster       *topology.Cluster

	serial                  uint64 // counts the generations, from 1
	portNames, backendNames registry
	portByID                map[uint32]*Port
	backendByID             map[uint32]*Backend
	tables                  map[tableKey]*maglev.Table
}

// addrUse says what services use an address.
type addrUse uint8

const (
	served  addrUse = 1 << iota // a service of ours
	foreign                     // a service that another proxy serves
)

// Ports returns the service ports in the order of the topology.
func (t *Table) Ports() iter.Seq[*Port] {
	return func(yield func(*Port) bool) {
		for _, p := range t.ports {
			if !yield(p) {
				return
			}
		}
	}
}

// Services returns the services that have ports in the table, each with its ports, in the order of the topology. The
// caller must not change the slices.
func (t *Table) Services() iter.Seq2[*topology.Service, []*Port] {
	return func(yield func(*topology.Service, []*Port) bool) {
		for rest := t.ports; len(rest) > 0; {
			n := 1
			for n < len(rest) && rest[n].Service == rest[0].Service {
				n++
			}
			if !yield(rest[0].Service, rest[:n:n]) {
				return
			}
			rest = rest[n:]
		}
	}
}

// PortByID returns the port of this generation with the given number, nil when there is none.
func (t *Table) PortByID(id uint32) *Port { return t.portByID[id] }

// BackendByID returns the backend of this generation with the given number, nil when there is none.
func (t *Table) BackendByID(id uint32) *Backend { return t.backendByID[id] }

// MaxIDs returns the largest numbers given to a port and to a backend by this generation and those before it: arrays
// of counters need one element more.
func (t *Table) MaxIDs() (port, backend uint32) { return t.portNames.last, t.backendNames.last }

// IsServiceAddr reports whether a is an address of a service: a ClusterIP, an external IP or a load-balancer VIP.
func (t *Table) IsServiceAddr(a packet.Addr) bool { return t.addrs[a]&served != 0 }

// IsServicePort reports whether a service is reached at this address, protocol and port.
func (t *Table) IsServicePort(a packet.Addr, port uint16, proto uint8) bool {
	_, ok := t.fronts[frontKey{a, port, proto}]
	return ok
}

// SNATPorts returns the pool of source ports for full NAT.
func (t *Table) SNATPorts() topology.PortRange { return t.gateway.SNATPorts }

// SNATAddrs returns the source addresses of full NAT, at most one of each family. The caller must not change the
// slice.
func (t *Table) SNATAddrs() []netip.Addr { return t.gateway.SNATAddresses }
