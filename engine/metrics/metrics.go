// Package metrics shows what the appliance counts in the form that Prometheus reads. It keeps no counters itself: on each
// scrape it asks for a Sample. Labels are few: a reason, an interface and queue, an event; never an address or a service.
package metrics

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"sluice/conntrack"
	"sluice/nat/reason"
	"sluice/xdp"
)

// Sample is what was counted up to now.
type Sample struct {
	Generation uint64
	Packets    [reason.Count]uint64 // by reason, of all workers
	Bytes      [reason.Count]uint64
	Sockets    []xdp.SocketStats
	Classified []xdp.ClassifyStats
	Flows      conntrack.Stats
	Purged     uint64 // flows that were purged because their endpoint does not serve any longer
	Punted     uint64 // frames that the kernel took back
	PuntFailed uint64 // frames that it refused
	Reloads    uint64 // topologies that were loaded again and are or were in use
	Refused    uint64 // reloads that changed nothing, for a fault
	Up, Down   int    // endpoints that pass and fail their health checks

	HealthPorts        int    // sockets of health_check_node_ports that are open
	HealthPortsMissing int    // those that could not be opened
	HealthPortFailures uint64 // attempts to open one that failed

	DNS DNS
}

// Handler serves /metrics out of sample, which is called on each scrape, by any goroutine.
func Handler(sample func() Sample) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	for _, c := range []prometheus.Collector{
		newCollector(sample), collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(c); err != nil {
			return nil, err
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	return mux, nil
}

// collector turns samples into metrics.
type collector struct {
	sample func() Sample

	generation, packets, bytes, socketPackets, socketBytes, socketEvents  *prometheus.Desc
	classified, flows, flowLimit, flowPeak, flowEvents, punted, endpoints *prometheus.Desc
	purged, reloads, reloadFailures, healthPorts, healthPortFailures      *prometheus.Desc
	dns                                                                   dnsMetrics
	forward                                                               forwardMetrics
}

func newCollector(sample func() Sample) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sluice_"+name, help, labels, nil)
	}
	return &collector{
		sample:         sample,
		dns:            newDNSMetrics(),
		forward:        newForwardMetrics(),
		generation:     desc("generation", "Number of the published state of services and health."),
		packets:        desc("packets_total", "Packets that workers received, by why they met their verdict.", "reason"),
		bytes:          desc("packet_bytes_total", "Bytes of these packets, Ethernet headers included.", "reason"),
		socketPackets:  desc("socket_packets_total", "Packets through AF_XDP sockets.", "interface", "queue", "direction"),
		socketBytes:    desc("socket_bytes_total", "Bytes through AF_XDP sockets.", "interface", "queue", "direction"),
		socketEvents:   desc("socket_events_total", "Events of AF_XDP sockets and their rings.", "interface", "queue", "event"),
		classified:     desc("classified_packets_total", "Packets that the XDP program saw, by what it did.", "interface", "action"),
		flows:          desc("flows", "Flows in the flow table."),
		flowLimit:      desc("flows_limit", "Flows that the flow table has room for."),
		flowPeak:       desc("flows_peak", "Largest number of flows that took up memory at once."),
		flowEvents:     desc("flow_events_total", "What happened in the flow table.", "event"),
		purged:         desc("flows_purged_total", "Flows purged because their endpoint or service address is gone."),
		reloads:        desc("reloads_total", "Reloads that were taken into use."),
		reloadFailures: desc("reload_failures_total", "Reloads that were refused: the topology from before stayed in use."),
		punted:         desc("punted_packets_total", "Packets given back to the kernel.", "result"),
		endpoints:      desc("endpoints", "Endpoints with a health check, by its result.", "state"),

		healthPorts:        desc("health_check_ports", "Sockets of services' health check ports that are wanted.", "state"),
		healthPortFailures: desc("health_check_port_failures_total", "Attempts to open one that failed."),
	}
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(c, ch) }

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	s := c.sample()
	sum := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) { sum(d, float64(v), labels...) }
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(c.generation, float64(s.Generation))
	for r := range reason.Count {
		counter(c.packets, s.Packets[r], reason.Reason(r).String())
		counter(c.bytes, s.Bytes[r], reason.Reason(r).String())
	}
	for i := range s.Sockets {
		c.collectSocket(counter, &s.Sockets[i])
	}
	for _, p := range s.Classified {
		counter(c.classified, p.Passed, p.Interface, "passed")
		counter(c.classified, p.Redirected, p.Interface, "redirected")
		counter(c.classified, p.NoSocket, p.Interface, "no_socket")
	}
	gauge(c.flows, float64(s.Flows.Live))
	gauge(c.flowLimit, float64(s.Flows.MaxFlows))
	gauge(c.flowPeak, float64(s.Flows.Peak))
	for _, e := range flowEvents(&s.Flows) {
		counter(c.flowEvents, e.count, e.name)
	}
	counter(c.purged, s.Purged)
	counter(c.reloads, s.Reloads)
	counter(c.reloadFailures, s.Refused)
	counter(c.punted, s.Punted, "taken")
	counter(c.punted, s.PuntFailed, "refused")
	gauge(c.endpoints, float64(s.Up), "up")
	gauge(c.endpoints, float64(s.Down), "down")
	gauge(c.healthPorts, float64(s.HealthPorts), "open")
	gauge(c.healthPorts, float64(s.HealthPortsMissing), "missing")
	counter(c.healthPortFailures, s.HealthPortFailures)
	c.dns.collect(counter, &s.DNS)
	c.forward.collect(counter, sum, gauge, &s.DNS)
}

// counterFunc sends a counter with labels, and valueFunc one that is no whole number, or a gauge.
type (
	counterFunc func(d *prometheus.Desc, v uint64, labels ...string)
	valueFunc   func(d *prometheus.Desc, v float64, labels ...string)
)

func (c *collector) collectSocket(counter counterFunc, s *xdp.SocketStats) {
	queue := strconv.Itoa(s.Queue)
	counter(c.socketPackets, s.RxPackets, s.Interface, queue, "rx")
	counter(c.socketPackets, s.TxPackets, s.Interface, queue, "tx")
	counter(c.socketBytes, s.RxBytes, s.Interface, queue, "rx")
	counter(c.socketBytes, s.TxBytes, s.Interface, queue, "tx")
	for _, e := range socketEvents(s) {
		counter(c.socketEvents, e.count, s.Interface, queue, e.name)
	}
}

// event is a named count.
type event struct {
	name  string
	count uint64
}

func socketEvents(s *xdp.SocketStats) []event {
	return []event{
		{"completed", s.Completed}, {"tx_full", s.TxFull}, {"fill_empty", s.FillEmpty}, {"kick", s.Kicks},
		{"wakeup", s.Wakeups}, {"kick_error", s.KickErrs}, {"rx_dropped", s.RxDropped}, {"rx_invalid", s.RxInvalid},
		{"tx_invalid", s.TxInvalid}, {"rx_ring_full", s.RxRingFull}, {"rx_fill_ring_empty", s.RxFillRingEmpty},
		{"tx_ring_empty", s.TxRingEmpty},
	}
}

func flowEvents(s *conntrack.Stats) []event {
	return []event{
		{"inserted", s.Inserted}, {"expired", s.Expired}, {"removed", s.Removed}, {"exists", s.Exists},
		{"clash", s.Clashes}, {"full", s.Full}, {"aborted", s.Aborts},
	}
}
