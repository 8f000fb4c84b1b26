package nat

import "sluice/nat/maglev"

// ClusterTable returns the Maglev table of p's Cluster set for IPv4, nil when it has none.
func ClusterTable(p *Port) *maglev.Table { return p.halves[ipv4].cluster.table }

// LocalTable returns the Maglev table of p's Local set for IPv4, nil when it has none.
func LocalTable(p *Port) *maglev.Table { return p.halves[ipv4].local.table }

// ClusterSize returns the number of backends in p's Cluster set for IPv4.
func ClusterSize(p *Port) int { return len(p.halves[ipv4].cluster.backends) }

// LocalSize returns the number of backends in p's Local set for IPv4.
func LocalSize(p *Port) int { return len(p.halves[ipv4].local.backends) }

// RetiredLimit is the limit of names out of use.
const RetiredLimit = retiredLimit

// Registry exposes the registry.
type Registry = registry

// ID gives name a number.
func (r *registry) ID(name string) uint32 { return r.id(name) }

// Next starts a generation.
func (r *registry) Next() registry { return r.next() }

// Chooser returns the choice of a route among shares of these weights: the number of the share that a hash belongs to.
func Chooser(weights []int) func(hash uint64) int {
	r := &route{shares: make([]Share, len(weights))}
	for i, w := range weights {
		r.shares[i] = Share{Index: i, Weight: w}
		r.total += uint64(w)
	}
	return func(hash uint64) int { return r.choose(hash).Index }
}
