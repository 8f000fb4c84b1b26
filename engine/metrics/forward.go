package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// forwardMetrics are the descriptions of the metrics of forwarding and of the cache in front of it, under CoreDNS' names where they mean
// the same; its labels for servers, zones and views are left out.
type forwardMetrics struct {
	sent, failures, waited, upstreams, probes, rejects, shed      *prometheus.Desc
	entries, hits, misses, requests, prefetches, stale, evictions *prometheus.Desc
}

func newForwardMetrics() forwardMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return forwardMetrics{
		sent:       desc("sluice_dns_forwarded_total", "Questions to other servers, each attempt."),
		failures:   desc("sluice_dns_forward_failures_total", "Of them those without an answer."),
		waited:     desc("sluice_dns_forward_seconds_total", "Time that all of them together took."),
		upstreams:  desc("sluice_dns_upstreams", "Servers that are forwarded to, by whether they answer.", "healthy"),
		probes:     desc("coredns_proxy_healthcheck_failures_total", "Probes of a server that does not answer, without an answer."),
		rejects:    desc("coredns_forward_max_concurrent_rejects_total", "Questions that were not sent, since too many were in flight."),
		shed:       desc("sluice_dns_shed_total", "Queries that had waited longest for their turn to be forwarded when too many did."),
		entries:    desc("coredns_cache_entries", "Answers of other servers in the cache."),
		hits:       desc("coredns_cache_hits_total", "Answers out of the cache.", "type"),
		misses:     desc("coredns_cache_misses_total", "Questions whose answer was not in the cache, or had run out."),
		requests:   desc("coredns_cache_requests_total", "Questions to the cache."),
		prefetches: desc("coredns_cache_prefetch_total", "Answers that were renewed before they ran out."),
		stale:      desc("coredns_cache_served_stale_total", "Answers that were given after they had run out."),
		evictions:  desc("coredns_cache_evictions_total", "Answers that had to make room for others."),
	}
}

// collect sends the metrics of forwarding.
func (m *forwardMetrics) collect(counter counterFunc, sum, gauge valueFunc, d *DNS) {
	c := &d.Forward
	counter(m.sent, c.Sent)
	counter(m.failures, c.Failures)
	sum(m.waited, time.Duration(c.WaitedNanos).Seconds())
	gauge(m.upstreams, float64(c.Upstreams-c.Unhealthy), "true")
	gauge(m.upstreams, float64(c.Unhealthy), "false")
	counter(m.probes, c.ProbeFailures)
	counter(m.rejects, c.Overloads)
	counter(m.shed, d.Sockets.Shed)
	gauge(m.entries, float64(c.Entries))
	counter(m.hits, c.Hits, "success")
	counter(m.hits, c.Denials, "denial")
	counter(m.misses, c.Misses)
	counter(m.requests, c.Hits+c.Denials+c.Misses)
	counter(m.prefetches, c.Prefetches)
	counter(m.stale, c.Stale)
	counter(m.evictions, c.Evictions)
}
