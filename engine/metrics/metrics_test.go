package metrics_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice/conntrack"
	"sluice/dns/forward"
	"sluice/engine/metrics"
	"sluice/nat/reason"
	"sluice/xdp"
)

// scrape returns what /metrics says about a sample.
func scrape(t *testing.T, s metrics.Sample) string {
	t.Helper()
	h, err := metrics.Handler(func() metrics.Sample { return s })
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

func sample() metrics.Sample {
	s := metrics.Sample{
		Generation: 7, Purged: 51, Reloads: 52, Refused: 53, Punted: 5, PuntFailed: 1, Up: 3, Down: 2,
		HealthPorts: 4, HealthPortsMissing: 8, HealthPortFailures: 9,
		Sockets:    []xdp.SocketStats{{Interface: "eth0", Queue: 1, RxPackets: 11, TxBytes: 640, TxFull: 4, RxRingFull: 9}},
		Classified: []xdp.ClassifyStats{{Interface: "eth0", Passed: 21, Redirected: 22, NoSocket: 23}},
		Flows:      conntrack.Stats{MaxFlows: 1000, Live: 31, Peak: 33, Inserted: 32, Clashes: 6},
	}
	s.Packets[reason.NoEndpoints], s.Bytes[reason.NoEndpoints] = 41, 4100
	s.DNS.Ring.Replies[0], s.DNS.Ring.Replies[3], s.DNS.Ring.Truncated = 61, 62, 63
	s.DNS.Sockets.UDP.Replies[0], s.DNS.Sockets.UDP.Unsent = 64, 65
	s.DNS.Sockets.TCP.Replies[16], s.DNS.Sockets.TCP.Refused, s.DNS.Sockets.TCP.Transfers, s.DNS.Sockets.TCP.Ignored = 66, 67, 68, 69
	s.DNS.Sockets.Shed, s.DNS.Sockets.TLS.Ignored = 70, 83
	s.DNS.Forward = forward.Counters{Sent: 71, Failures: 72, WaitedNanos: 73_500_000_000, ProbeFailures: 74, Overloads: 75, Hits: 76, Denials: 77,
		Misses: 78, Evictions: 79, Prefetches: 80, Stale: 81, Entries: 82, Upstreams: 5, Unhealthy: 2}
	return s
}

func TestMetrics(t *testing.T) {
	text := scrape(t, sample())
	for _, want := range []string{
		`sluice_generation 7`,
		`sluice_packets_total{reason="no_endpoints"} 41`,
		`sluice_packet_bytes_total{reason="no_endpoints"} 4100`,
		`sluice_packets_total{reason="tx_full"} 0`,
		`sluice_socket_packets_total{direction="rx",interface="eth0",queue="1"} 11`,
		`sluice_socket_bytes_total{direction="tx",interface="eth0",queue="1"} 640`,
		`sluice_socket_events_total{event="tx_full",interface="eth0",queue="1"} 4`,
		`sluice_socket_events_total{event="rx_ring_full",interface="eth0",queue="1"} 9`,
		`sluice_classified_packets_total{action="redirected",interface="eth0"} 22`,
		`sluice_flows 31`,
		`sluice_flows_limit 1000`,
		`sluice_flows_peak 33`,
		`sluice_flow_events_total{event="clash"} 6`,
		`sluice_flows_purged_total 51`,
		`sluice_reloads_total 52`,
		`sluice_reload_failures_total 53`,
		`sluice_punted_packets_total{result="taken"} 5`,
		`sluice_punted_packets_total{result="refused"} 1`,
		`sluice_endpoints{state="down"} 2`,
		`sluice_health_check_ports{state="open"} 4`,
		`sluice_health_check_ports{state="missing"} 8`,
		`sluice_health_check_port_failures_total 9`,
		`coredns_dns_requests_total{proto="udp"} 187`,
		`coredns_dns_requests_total{proto="tcp"} 66`,
		`coredns_dns_responses_total{rcode="NOERROR"} 125`,
		`coredns_dns_responses_total{rcode="NXDOMAIN"} 62`,
		`coredns_dns_responses_total{rcode="BADVERS"} 66`,
		`sluice_dns_replies_total{path="ring"} 123`,
		`sluice_dns_truncated_total{path="ring"} 63`,
		`sluice_dns_unsent_total{path="udp"} 65`,
		`sluice_dns_ignored_total{path="tcp"} 69`,
		`sluice_dns_refused_connections_total 67`,
		`sluice_dns_transfers_total 68`,
		`sluice_dns_forwarded_total 71`,
		`sluice_dns_forward_failures_total 72`,
		`sluice_dns_forward_seconds_total 73.5`,
		`coredns_proxy_healthcheck_failures_total 74`,
		`coredns_forward_max_concurrent_rejects_total 75`,
		`sluice_dns_shed_total 70`,
		`sluice_dns_ignored_total{path="tls"} 83`,
		`coredns_cache_hits_total{type="success"} 76`,
		`coredns_cache_hits_total{type="denial"} 77`,
		`coredns_cache_misses_total 78`,
		`coredns_cache_requests_total 231`,
		`coredns_cache_evictions_total 79`,
		`coredns_cache_prefetch_total 80`,
		`coredns_cache_served_stale_total 81`,
		`coredns_cache_entries 82`,
		`sluice_dns_upstreams{healthy="true"} 3`,
		`sluice_dns_upstreams{healthy="false"} 2`,
		`process_resident_memory_bytes`,
	} {
		if !strings.Contains(text, "\n"+want) {
			t.Errorf("no %q", want)
		}
	}
}

// TestNames holds the names and help texts to the conventions of Prometheus.
func TestNames(t *testing.T) {
	problems, err := promlint.New(strings.NewReader(scrape(t, sample()))).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "sluice_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}
