package dns_test

import (
	"bytes"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/forward"
	"sluice/dns/zone"
)

// elsewhere is a server that knows some names, and says of others that they do not exist.
func elsewhere(t *testing.T) *dnstest.Upstream {
	t.Helper()
	const soa = "partner.example. 30 IN SOA ns.partner.example. host.partner.example. 1 2 3 4 30"
	known := map[string]string{"old.partner.example.": "old.partner.example. 300 IN A 203.0.113.80", "www.corp.example.": "www.corp.example. 60 IN A 203.0.113.81"}
	return dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		switch line, ok := known[q.Question[0].Name]; {
		case !ok:
			dnstest.Code(t, mdns.RcodeNameError)(w, q)
		case q.Question[0].Qtype == mdns.TypeA:
			dnstest.Records(t, line)(w, q)
		default:
			dnstest.Records(t, soa)(w, q)
		}
	})
}

// forwarderTo asks upstreams for all names.
func forwarderTo(t *testing.T, change func(*forward.Options), upstreams ...*dnstest.Upstream) *forward.Forwarder {
	t.Helper()
	o, list := forward.Options{}, forward.List{}
	if change != nil {
		change(&o)
	}
	for _, u := range upstreams {
		list.Addrs = append(list.Addrs, u.Addr)
	}
	f := forward.New(forward.Servers{list}, o)
	t.Cleanup(f.Close)
	return f
}

// forwarding returns the zones of the grid for a server that forwards.
func forwarding(t testing.TB, change func(*topology.DNSInput)) *zone.Zones {
	t.Helper()
	in := dnstest.Input()
	in.DNS.Forward = []string{"198.18.0.53"}
	if change != nil {
		change(&in.DNS)
	}
	z, err := zone.Compile(dnstest.Resolve(t, in), dnstest.Serial)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// TestCompleted holds what depends on other servers, or on who asks, to the cases.
func TestCompleted(t *testing.T) {
	f := forwarderTo(t, nil, elsewhere(t))
	cases := dnstest.Completed(t)
	if len(cases) < 17 {
		t.Errorf("%d cases", len(cases))
	}
	for i := range cases {
		c := &cases[i]
		t.Run(c.ID, func(t *testing.T) {
			in := dnstest.Input()
			c.Change(t, in)
			to := f
			if in.DNS.Forward = []string{"198.18.0.53"}; !c.Recursive {
				in.DNS.Forward, to = nil, nil
			}
			z, err := zone.Compile(dnstest.Resolve(t, in), dnstest.Serial)
			if err != nil {
				t.Fatal(err)
			}
			for _, limit := range []int{dns.UDPLimit, dns.TCPLimit} {
				out := make([]byte, dns.TCPLimit)
				n := dns.Complete(z, to, c.Message(t), out, dns.Client{Addr: c.Client, Limit: limit})
				c.Check(t, out[:n], limit)
			}
		})
	}
}

// TestForwardBySockets asks a server for what others know, by UDP and TCP.
func TestForwardBySockets(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	s.Serve(forwarding(t, nil), forwarderTo(t, nil, elsewhere(t)))
	for _, network := range []string{"udp", "tcp"} {
		for _, tt := range []struct {
			name   string
			qtype  uint16
			rcode  int
			aa     bool
			answer []string
		}{
			{"OLD.partner.example.", mdns.TypeA, mdns.RcodeSuccess, false, []string{"OLD.partner.example. 300 IN A 203.0.113.80"}},
			{"none.partner.example.", mdns.TypeA, mdns.RcodeNameError, false, nil},
			{"legacy.shop.svc.grid.example.", mdns.TypeA, mdns.RcodeSuccess, true,
				[]string{"legacy.shop.svc.grid.example. 5 IN CNAME old.partner.example.", "old.partner.example. 300 IN A 203.0.113.80"}},
			{"cart.shop.svc.grid.example.", mdns.TypeA, mdns.RcodeSuccess, true, []string{"cart.shop.svc.grid.example. 5 IN A 10.96.4.10"}},
			{"none.shop.svc.grid.example.", mdns.TypeA, mdns.RcodeNameError, true, nil},
		} {
			for _, edns := range []uint16{0, 4096} {
				m := exchange(t, network, s.Addr().String(), tt.name, tt.qtype, edns)
				if got := dnstest.Text(m.Answer); !slices.Equal(got, tt.answer) || m.Rcode != tt.rcode || m.Authoritative != tt.aa || !m.RecursionAvailable {
					t.Errorf("%s %s: %v", network, tt.name, m)
				}
				if o := m.IsEdns0(); (o != nil) != (edns > 0) || o != nil && o.UDPSize() != dns.UDPLimit || m.Question[0].Name != tt.name {
					t.Errorf("%s %s: OPT %v, question %v", network, tt.name, o, m.Question)
				}
			}
		}
	}
}

// TestNotForwarded refuses what does not ask for recursion, and what no server is set for.
func TestNotForwarded(t *testing.T) {
	u := elsewhere(t)
	f := forwarderTo(t, nil, u)
	q := query(t, "old.partner.example.", mdns.TypeA, 0, false)
	q[2] &^= 1 // RD
	stub := forwarding(t, func(d *topology.DNSInput) {
		d.Forward, d.Stub = nil, map[string][]string{"corp.example": {"198.18.0.53"}}
	})
	for _, tt := range []struct {
		name  string
		z     *zone.Zones
		query []byte
		rcode int
	}{
		{"no recursion", forwarding(t, nil), q, mdns.RcodeRefused},
		{"no stub", stub, query(t, "old.partner.example.", mdns.TypeA, 0, false), mdns.RcodeRefused},
		{"not below a stub", stub, query(t, "xcorp.example.", mdns.TypeA, 0, false), mdns.RcodeRefused},
		{"a stub", stub, query(t, "www.corp.example.", mdns.TypeA, 0, false), mdns.RcodeSuccess},
		{"a zone", forwarding(t, nil), query(t, "partner.example.", mdns.TypeAXFR, 0, false), mdns.RcodeRefused},
	} {
		out := make([]byte, dns.UDPLimit)
		m := dnstest.Unpack(t, out[:dns.Complete(tt.z, f, tt.query, out, dns.Client{Limit: dns.UDPLimit})])
		if m.Rcode != tt.rcode || !m.RecursionAvailable {
			t.Errorf("%s: %v", tt.name, m)
		}
	}
	if n := u.Asked.Load(); n != 1 {
		t.Errorf("the upstream was asked %d times, want once for the stub", n)
	}
}

// TestForwardFails answers with a server failure, and no records, when nobody can be asked.
func TestForwardFails(t *testing.T) {
	f := forwarderTo(t, func(o *forward.Options) { o.Attempt = 20 * time.Millisecond }, dnstest.Serve(t, dnstest.Silence))
	for _, name := range []string{"old.partner.example.", "legacy.shop.svc.grid.example."} {
		out := make([]byte, dns.UDPLimit)
		n := dns.Complete(forwarding(t, nil), f, query(t, name, mdns.TypeA, 4096, false), out, dns.Client{Limit: dns.UDPLimit})
		m := dnstest.Unpack(t, out[:n])
		if m.Rcode != mdns.RcodeServerFailure || len(m.Answer)+len(m.Ns) > 0 || m.Authoritative || m.IsEdns0() == nil {
			t.Errorf("%s: %v", name, m)
		}
	}
}

// TestForwardTruncates cuts an answer of another server to what the client takes, between records.
func TestForwardTruncates(t *testing.T) {
	var lines []string
	for i := range 100 {
		lines = append(lines, "old.partner.example. 300 IN A 203.0.113."+strings.Repeat("1", 1+i%2)+string(rune('0'+i%10)))
	}
	f := forwarderTo(t, nil, dnstest.Serve(t, dnstest.Records(t, lines...)))
	for _, tt := range []struct {
		edns    uint16
		limit   int
		longest int
	}{{0, dns.UDPLimit, 512}, {512, dns.UDPLimit, 512}, {900, dns.UDPLimit, 900}, {4096, dns.UDPLimit, dns.UDPLimit}, {4096, dns.TCPLimit, dns.TCPLimit}} {
		out := make([]byte, dns.TCPLimit)
		n := dns.Complete(forwarding(t, nil), f, query(t, "old.partner.example.", mdns.TypeA, tt.edns, false), out, dns.Client{Limit: tt.limit})
		m := dnstest.Unpack(t, out[:n])
		if whole := tt.limit == dns.TCPLimit; n > tt.longest || m.Truncated == whole || whole && len(m.Answer) != 100 || !whole && n < tt.longest-64 {
			t.Errorf("%+v: %d bytes with %d records, truncated %v", tt, n, len(m.Answer), m.Truncated)
		}
	}
}

// TestShed has more queries wait than there is room for: those that came first get a server failure, the last ones their answers.
func TestShed(t *testing.T) {
	answers := make(chan struct{})
	release := sync.OnceFunc(func() { close(answers) })
	u := dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		if q.Question[0].Qtype == mdns.TypeA {
			<-answers
		}
		dnstest.Records(t, q.Question[0].Name+" 300 IN A 203.0.113.80")(w, q)
	})
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.MaxForwards, o.Sockets = 2, 1 })
	s.Serve(forwarding(t, nil), forwarderTo(t, func(o *forward.Options) { o.Attempt = 4 * time.Second }, u))
	const sent = 7 // 2 are forwarded, 2 wait, and 3 are too many
	var mu sync.Mutex
	got, order := map[int]int{}, make([]int, 0, sent)
	var wait sync.WaitGroup
	for i := range sent {
		wait.Go(func() {
			m := exchange(t, "udp", s.Addr().String(), string(rune('a'+i))+".partner.example.", mdns.TypeA, 0)
			mu.Lock()
			defer mu.Unlock()
			got[m.Rcode]++
			order = append(order, m.Rcode)
			if got[mdns.RcodeServerFailure] == sent-4 {
				release()
			}
		})
	}
	wait.Wait()
	if got[mdns.RcodeServerFailure] != 3 || got[mdns.RcodeSuccess] != 4 || s.Counters().Shed != 3 {
		t.Errorf("%v, %d shed", got, s.Counters().Shed)
	}
	if !slices.Equal(order[:3], []int{mdns.RcodeServerFailure, mdns.RcodeServerFailure, mdns.RcodeServerFailure}) {
		t.Errorf("replies came as %v", order)
	}
}

// TestSlowAnswers lets quick answers overtake slow ones on one TCP connection, and Close end what is slow.
func TestSlowAnswers(t *testing.T) {
	u := dnstest.Serve(t, dnstest.Silence)
	s := open(t, "127.0.0.1:0", nil)
	z := forwarding(t, nil)
	s.Serve(z, forwarderTo(t, func(o *forward.Options) { o.Attempt, o.Deadline = time.Hour, time.Hour }, u))
	quick := query(t, "cart.shop.svc.grid.example.", mdns.TypeA, 0, false)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, q := range [][]byte{query(t, "old.partner.example.", mdns.TypeA, 0, false), quick} {
		if _, err := conn.Write(append([]byte{byte(len(q) >> 8), byte(len(q))}, q...)); err != nil {
			t.Fatal(err)
		}
	}
	if got := receive(t, "tcp", conn); !bytes.Equal(got, answer(z, quick, dns.TCPLimit)) {
		t.Errorf("first %x, want the answer of the second query", got)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
}

// TestWhoAsks finds the search path of a client by its address, and by nothing else.
func TestWhoAsks(t *testing.T) {
	in := dnstest.Input()
	in.DNS.Autopath = true
	in.Pods = append(in.Pods,
		topology.PodInput{Name: "host", Namespace: "ops", Addresses: []string{"198.18.0.10"}, Node: "gw-a", Phase: "Running"},
		topology.PodInput{Name: "one", Namespace: "ops", Addresses: []string{"172.24.4.77"}, Node: "gw-a", Phase: "Running"},
		topology.PodInput{Name: "two", Namespace: "shop", Addresses: []string{"172.24.4.77"}, Node: "gw-a", Phase: "Running"})
	z, err := zone.Compile(dnstest.Resolve(t, in), dnstest.Serial)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		client, name string
		rcode        int
	}{
		{"172.24.4.9", "cart.shop.ops.svc.grid.example.", mdns.RcodeSuccess},
		{"::ffff:172.24.4.9", "cart.shop.ops.svc.grid.example.", mdns.RcodeNameError}, // servers give addresses in their plain form
		{"198.18.0.10", "cart.shop.ops.svc.grid.example.", mdns.RcodeNameError},       // pods of the node's network
		{"172.24.4.77", "cart.shop.ops.svc.grid.example.", mdns.RcodeNameError},       // of two namespaces
		{"172.24.4.9", "ops.svc.grid.example.", mdns.RcodeSuccess},                    // nothing was typed
		{"172.24.4.9", "cart.shop.xops.svc.grid.example.", mdns.RcodeNameError},       // another label
	} {
		out := make([]byte, dns.UDPLimit)
		c := dns.Client{Addr: netip.MustParseAddr(tt.client), Limit: dns.UDPLimit}
		m := dnstest.Unpack(t, out[:dns.Complete(z, nil, query(t, tt.name, mdns.TypeA, 0, false), out, c)])
		if m.Rcode != tt.rcode {
			t.Errorf("%s asks for %s: rcode %d, want %d", tt.client, tt.name, m.Rcode, tt.rcode)
		}
	}
}
