package nat

import (
	"sluice/nat/maglev"
	"sluice/xdp/packet"
)

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

// FromLocalSet reports whether a decision was made over the Local set of its port.
func FromLocalSet(d *Decision) bool {
	h := &d.Port.halves[ipv4]
	return d.set == &h.local && d.set != &h.cluster
}

// AffinitySize returns the number of pins that a has room for.
func AffinitySize(a *Affinity) int { return len(a.buckets) * pinWays }

// AffinityKey returns the key of a client.
func AffinityKey(a *Affinity, client packet.Addr) uint64 {
	return uint64(a.key(client, pinScope{id: 1}))
}

// AffinityInsert pins a key.
func AffinityInsert(a *Affinity, key uint64, backend uint32, now int64) uint32 {
	return a.insert(pinKey(key), backend, now)
}

// AffinityCount returns the number of slots that have a key, valid or not.
func AffinityCount(a *Affinity, key uint64) (n int) {
	b := a.bucket(pinKey(key))
	for i := range b {
		if pinWord(b[i].word.Load()).of(pinKey(key)) {
			n++
		}
	}
	return n
}

// AffinityMark leaves a pin in a slot that its writer has not made valid.
func AffinityMark(a *Affinity, key uint64, slot int, backend uint32) {
	a.bucket(pinKey(key))[slot].word.Store(uint64(pinKey(key).pin(backend) | pinMark))
}

// Chooser returns the choice of a route among shares of these weights: the number of the share that a hash belongs to.
func Chooser(weights []int) func(hash uint64) int {
	r := &route{shares: make([]Share, len(weights))}
	for i, w := range weights {
		r.shares[i] = Share{Index: i, Weight: w}
		r.total += uint64(w)
	}
	return func(hash uint64) int { return r.choose(hash).Index }
}
