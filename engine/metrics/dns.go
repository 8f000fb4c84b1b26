package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"sluice/dns"
	"sluice/dns/forward"
)

// DNS is what was counted of queries: by workers in the frames that they came in, by the sockets behind them, and on the way to other
// servers.
type DNS struct {
	Ring    dns.ProtocolCounters
	Sockets dns.Counters
	Forward forward.Counters
}

// dnsMetrics are the descriptions of the metrics of DNS. Two have CoreDNS' names and mean the same, without the labels that Sluice does
// not count by: server, zone, view, family, type and plugin.
type dnsMetrics struct{ requests, responses, answered, truncated, ignored, unsent, connections, transfers *prometheus.Desc }

func newDNSMetrics() dnsMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return dnsMetrics{
		requests:    desc("coredns_dns_requests_total", "Queries that were answered.", "proto"),
		responses:   desc("coredns_dns_responses_total", "Replies, by response code.", "rcode"),
		answered:    desc("sluice_dns_replies_total", "Replies, by what sent them: a worker in the ring, or a socket.", "path"),
		truncated:   desc("sluice_dns_truncated_total", "Replies that were too long and say so.", "path"),
		ignored:     desc("sluice_dns_ignored_total", "Messages to the DNS port that were no queries.", "path"),
		unsent:      desc("sluice_dns_unsent_total", "Replies that a socket did not take.", "path"),
		connections: desc("sluice_dns_refused_connections_total", "Connections above the limit, over TLS or not."),
		transfers:   desc("sluice_dns_transfers_total", "Zones, or their serials, sent to secondaries."),
	}
}

// collect sends the metrics of DNS.
func (m *dnsMetrics) collect(counter counterFunc, d *DNS) {
	paths := []struct {
		name     string
		counters *dns.ProtocolCounters
	}{{"ring", &d.Ring}, {"udp", &d.Sockets.UDP}, {"tcp", &d.Sockets.TCP}, {"tls", &d.Sockets.TLS}}
	rcodes := map[string]uint64{}
	for _, p := range paths {
		for rcode, n := range p.counters.Replies {
			if n > 0 {
				rcodes[dns.RCodeName(rcode)] += n
			}
		}
		counter(m.answered, p.counters.Queries(), p.name)
		counter(m.truncated, p.counters.Truncated, p.name)
		counter(m.ignored, p.counters.Ignored, p.name)
		counter(m.unsent, p.counters.Unsent, p.name)
	}
	counter(m.requests, d.Ring.Queries()+d.Sockets.UDP.Queries(), "udp")
	counter(m.requests, d.Sockets.TCP.Queries()+d.Sockets.TLS.Queries(), "tcp")
	for rcode, n := range rcodes {
		counter(m.responses, n, rcode)
	}
	counter(m.connections, d.Sockets.TCP.Refused+d.Sockets.TLS.Refused)
	counter(m.transfers, d.Sockets.TCP.Transfers+d.Sockets.TLS.Transfers)
}
