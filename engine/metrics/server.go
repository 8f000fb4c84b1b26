package metrics

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// ServerSample is what a DNS server alone has counted up to now.
type ServerSample struct {
	Version string // of the program
	DNS     DNS    // nothing of workers
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
	s := c.sample()
	counter, sum, gauge := sendersTo(ch)
	ch <- buildInfo(s.Version)
	c.reloads.collect(counter, s.Reloads, s.Refused)
	c.dns.collect(counter, &s.DNS)
	c.forward.collect(counter, sum, gauge, &s.DNS)
}

// buildInfo says what runs.
func buildInfo(version string) prometheus.Metric {
	d := prometheus.NewDesc("sluice_build_info", "1, by the version of the program and of Go.", []string{"version", "goversion"}, nil)
	return prometheus.MustNewConstMetric(d, prometheus.GaugeValue, 1, version, runtime.Version())
}

// reloadMetrics are the descriptions of what is counted of reloads.
type reloadMetrics struct{ done, refused *prometheus.Desc }

func newReloadMetrics() reloadMetrics {
	return reloadMetrics{
		done: prometheus.NewDesc("sluice_reloads_total", "Reloads that were taken into use.", nil, nil),
		refused: prometheus.NewDesc("sluice_reload_failures_total",
			"Reloads that were refused: the topology from before stayed in use.", nil, nil),
	}
}

func (m *reloadMetrics) collect(counter counterFunc, done, refused uint64) {
	counter(m.done, done)
	counter(m.refused, refused)
}
