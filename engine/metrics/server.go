package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"sluice/dns"
	"sluice/dns/forward"
)

// ServerSample is what a DNS server alone has counted up to now.
type ServerSample struct {
	Version string // of the program
	Sockets dns.Counters
	Forward forward.Counters
	Reloads uint64 // topologies that were loaded again and are or were in use
	Refused uint64 // reloads that changed nothing, for a fault
}

// ServerHandler serves /metrics of a DNS server alone out of sample, which is called on each scrape, by any goroutine. The metrics are
// those of DNS and reloads that Handler has, with the same names.
func ServerHandler(sample func() ServerSample) (http.Handler, error) {
	return handler(&serverCollector{sample, newReloadMetrics(), newDNSMetrics(), newForwardMetrics()})
}

// serverCollector turns samples of a DNS server into metrics.
type serverCollector struct {
	sample  func() ServerSample
	reloads reloadMetrics
	dns     dnsMetrics
	forward forwardMetrics
}

// Describe implements prometheus.Collector.
func (c *serverCollector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *serverCollector) Collect(ch chan<- prometheus.Metric) {
	s, counter := c.sample(), counterTo(ch)
	ch <- buildInfo(s.Version)
	c.reloads.collect(counter, s.Reloads, s.Refused)
	d := &DNS{Sockets: s.Sockets, Forward: s.Forward}
	c.dns.collect(counter, d)
	c.forward.collect(counter, sumTo(ch), gaugeTo(ch), d)
}
