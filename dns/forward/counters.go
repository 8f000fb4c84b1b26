package forward

import "sync/atomic"

// Counters is what a forwarder has done since it was made.
type Counters struct {
	Sent          uint64 // questions to upstreams, each attempt
	Failures      uint64 // of them without an answer
	WaitedNanos   uint64 // for all of them together
	ProbeFailures uint64 // probes of upstreams that do not answer, without an answer
	Overloads     uint64 // questions that were not sent since too many were in flight
	Hits          uint64 // answers out of the cache that hold records
	Denials       uint64 // those that say that there are none
	Misses        uint64
	Evictions     uint64 // answers that had to make room
	Prefetches    uint64
	Stale         uint64 // answers given after they had run out
	Entries       uint64 // answers in the cache now
	Upstreams     uint64 // servers now
	Unhealthy     uint64 // of them those that do not answer or ask back
}

// Add adds what another has counted.
func (c *Counters) Add(o Counters) {
	c.Sent += o.Sent
	c.Failures += o.Failures
	c.WaitedNanos += o.WaitedNanos
	c.ProbeFailures += o.ProbeFailures
	c.Overloads += o.Overloads
	c.Hits += o.Hits
	c.Denials += o.Denials
	c.Misses += o.Misses
	c.Evictions += o.Evictions
	c.Prefetches += o.Prefetches
	c.Stale += o.Stale
	c.Entries += o.Entries
	c.Upstreams += o.Upstreams
	c.Unhealthy += o.Unhealthy
}

// tally is the live form of Counters.
type tally struct {
	sent, failures, waited, probeFailures, overloads, hits, denials, misses, evictions, prefetches, stale atomic.Uint64
}

// Counters returns the counters as they are now.
func (f *Forwarder) Counters() Counters {
	t := &f.counters
	c := Counters{Sent: t.sent.Load(), Failures: t.failures.Load(), WaitedNanos: t.waited.Load(), ProbeFailures: t.probeFailures.Load(),
		Overloads: t.overloads.Load(), Hits: t.hits.Load(), Denials: t.denials.Load(), Misses: t.misses.Load(), Evictions: t.evictions.Load(),
		Prefetches: t.prefetches.Load(), Stale: t.stale.Load(), Entries: uint64(f.cache.entries.Len())}
	for _, g := range f.groups {
		for _, u := range g.upstreams {
			c.Upstreams++
			if !u.healthy() {
				c.Unhealthy++
			}
		}
	}
	return c
}
