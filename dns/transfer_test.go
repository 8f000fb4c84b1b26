package dns_test

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/zone"
)

// transferable returns the zones of the grid, which loopback may transfer, with changes.
func transferable(t *testing.T, change func(*topology.Input)) *topology.Topology {
	t.Helper()
	in := dnstest.Input()
	in.DNS.TransferTo = []string{"127.0.0.0/8", "::1"}
	if change != nil {
		change(in)
	}
	return dnstest.Resolve(t, in)
}

func next(t *testing.T, top *topology.Topology, before *zone.Zones) *zone.Zones {
	t.Helper()
	z, err := zone.Next(top, before, time.Unix(1000, 0))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// fetch transfers a zone and returns its records without the SOA at both ends.
func fetch(t *testing.T, addr string, m *mdns.Msg) (records []mdns.RR, soa *mdns.SOA) {
	t.Helper()
	in, err := new(mdns.Transfer).In(m, addr)
	if err != nil {
		t.Fatal(err)
	}
	for e := range in {
		if e.Error != nil {
			t.Fatal(e.Error)
		}
		records = append(records, e.RR...)
	}
	first, ok := records[0].(*mdns.SOA)
	if !ok || len(records) > 1 && records[len(records)-1].String() != first.String() {
		t.Fatalf("begins with %v, ends with %v", records[0], records[len(records)-1])
	}
	return records[1:max(1, len(records)-1)], first
}

// TestTransfer holds each record of a zone against the answer to a query for it, and the answers of all cases against the records.
func TestTransfer(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		s := open(t, listen, nil)
		z := next(t, transferable(t, nil), nil)
		s.Serve(z, nil)
		for _, apex := range []string{"grid.example.", "Grid.Example.", "96.10.in-addr.arpa.", "24.172.in-addr.arpa."} {
			records, soa := fetch(t, s.Addr().String(), new(mdns.Msg).SetAxfr(apex))
			if soa.Serial != 1000 {
				t.Errorf("%s: serial %d", apex, soa.Serial)
			}
			answered(t, z, strings.ToLower(apex), records)
			complete(t, z, strings.ToLower(apex), records)
		}
	}
}

// complete holds what queries are answered to the records of a transfer.
func complete(t *testing.T, z *zone.Zones, apex string, records []mdns.RR) {
	t.Helper()
	have := map[string]bool{}
	for _, rr := range records {
		have[strings.ToLower(rr.String())] = true
	}
	asked := 0
	for _, c := range dnstest.Cases(t) {
		if len(c.DNS) > 0 { // other zones
			continue
		}
		reply := dnstest.Unpack(t, answer(z, c.Message(t), dns.TCPLimit))
		if reply == nil {
			continue
		}
		for _, rr := range slices.Concat(reply.Answer, reply.Extra) {
			h := rr.Header()
			own := strings.HasSuffix(strings.ToLower(h.Name), "."+apex) && h.Class == mdns.ClassINET && h.Rrtype != mdns.TypeHINFO
			if !own {
				continue
			}
			asked++
			if !have[strings.ToLower(rr.String())] {
				t.Errorf("%s: answered and not transferred: %v", c.ID, rr)
			}
		}
	}
	if asked == 0 {
		t.Errorf("%s: no case has a record of it", apex)
	}
}

// answered holds the records of a transfer to what queries are answered.
func answered(t *testing.T, z *zone.Zones, apex string, records []mdns.RR) {
	t.Helper()
	sets := map[string][]string{}
	for _, rr := range records {
		h := rr.Header()
		key := h.Name + " " + mdns.TypeToString[h.Rrtype]
		line := strings.ToLower(rr.String())
		if slices.Contains(sets[key], line) {
			t.Errorf("twice: %s", line)
		}
		sets[key] = append(sets[key], line)
	}
	if len(sets[apex+" NS"]) != 1 || len(sets) < 5 {
		t.Errorf("%s: %d sets, name servers %v", apex, len(sets), sets[apex+" NS"])
	}
	for key, got := range sets {
		name, typ, _ := strings.Cut(key, " ")
		m := new(mdns.Msg).SetQuestion(name, mdns.StringToType[typ])
		query, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply, _ := ask(t, z, query, dns.TCPLimit)
		var want []string
		for _, rr := range reply.Answer {
			if rr.Header().Name == name {
				want = append(want, strings.ToLower(rr.String()))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: transferred %v, answered %v", key, got, want)
		}
	}
}

// TestTransferOfLargeZones takes several messages.
func TestTransferOfLargeZones(t *testing.T) {
	top := transferable(t, func(in *topology.Input) {
		s := in.Services[slices.IndexFunc(in.Services, func(s topology.ServiceInput) bool { return s.ExternalName != "" })]
		for i := range 3000 {
			s.Name, s.ExternalName = fmt.Sprintf("many-%d", i), fmt.Sprintf("%s-%d.example", strings.Repeat("x", 50), i)
			in.Services = append(in.Services, s)
		}
	})
	s := open(t, "127.0.0.1:0", nil)
	z := next(t, top, nil)
	s.Serve(z, nil)
	records, _ := fetch(t, s.Addr().String(), new(mdns.Msg).SetAxfr("grid.example."))
	if len(records) < 3000 {
		t.Errorf("%d records", len(records))
	}
	answered(t, z, "grid.example.", records)
}

// TestTransferRefused: who may not have a zone, what is no zone, and UDP.
func TestTransferRefused(t *testing.T) {
	closed := dnstest.Zones(t)
	s := open(t, "127.0.0.1:0", nil)
	addr := s.Addr().String()
	for _, tt := range []struct {
		what, network, name string
		qtype               uint16
		zones               *zone.Zones
		want                int
	}{
		{"not allowed", "tcp", "grid.example.", mdns.TypeAXFR, closed, mdns.RcodeRefused},
		{"not allowed", "tcp", "grid.example.", mdns.TypeIXFR, closed, mdns.RcodeRefused},
		{"by UDP", "udp", "grid.example.", mdns.TypeAXFR, next(t, transferable(t, nil), nil), mdns.RcodeRefused},
		{"below an apex", "tcp", "shop.svc.grid.example.", mdns.TypeAXFR, next(t, transferable(t, nil), nil), mdns.RcodeNotAuth},
		{"outside", "tcp", "example.", mdns.TypeIXFR, next(t, transferable(t, nil), nil), mdns.RcodeNotAuth},
		{"nothing loaded", "tcp", "grid.example.", mdns.TypeAXFR, nil, mdns.RcodeServerFailure},
	} {
		s.Serve(tt.zones, nil)
		if reply := exchange(t, tt.network, addr, tt.name, tt.qtype, 1232); reply.Rcode != tt.want || len(reply.Answer) > 0 {
			t.Errorf("%s, %s: %v", tt.what, tt.network, reply)
		}
	}
}

// TestIncrementalTransfer: a client that is up to date gets the SOA alone, another one the zone.
func TestIncrementalTransfer(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	s.Serve(next(t, transferable(t, nil), nil), nil)
	for serial, whole := range map[uint32]bool{1000: false, 1001: false, 999: true} {
		records, soa := fetch(t, s.Addr().String(), new(mdns.Msg).SetIxfr("grid.example.", serial, "ns.", "host."))
		if soa.Serial != 1000 || len(records) > 0 != whole {
			t.Errorf("from %d: serial %d, %d records", serial, soa.Serial, len(records))
		}
	}
}

// TestSerial: it moves when an answer does, and only then.
func TestSerial(t *testing.T) {
	first := next(t, transferable(t, nil), nil)
	for what, tt := range map[string]struct {
		change func(*topology.Input)
		moves  bool
	}{
		"nothing":        {nil, false},
		"who may":        {func(in *topology.Input) { in.DNS.TransferTo = nil }, false},
		"a service":      {func(in *topology.Input) { in.Services = in.Services[1:] }, true},
		"a namespace":    {func(in *topology.Input) { in.DNS.Namespaces = []string{"shop"} }, true},
		"the TTL":        {func(in *topology.Input) { in.DNS.TTL = 7 }, true},
		"a reverse zone": {func(in *topology.Input) { in.DNS.ReverseZones = in.DNS.ReverseZones[1:] }, true},
		"pods":           {func(in *topology.Input) { in.DNS.Pods = "insecure" }, true},
		"CHAOS":          {func(in *topology.Input) { in.DNS.Chaos = "new" }, true},
	} {
		z := next(t, transferable(t, tt.change), first)
		if z.Serial() != 1000 && !tt.moves || z.Serial() != 1001 && tt.moves {
			t.Errorf("%s: serial %d", what, z.Serial())
		}
		// All that shows the serial shows the same.
		query, err := new(mdns.Msg).SetQuestion("grid.example.", mdns.TypeSOA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		reply, _ := ask(t, z, query, dns.UDPLimit)
		query, err = new(mdns.Msg).SetQuestion("none.grid.example.", mdns.TypeSOA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		negative, _ := ask(t, z, query, dns.UDPLimit)
		if a, b := reply.Answer[0].(*mdns.SOA).Serial, negative.Ns[0].(*mdns.SOA).Serial; a != z.Serial() || b != z.Serial() {
			t.Errorf("%s: serial %d, answered %d, in a negative answer %d", what, z.Serial(), a, b)
		}
	}
}

// TestNotify: each zone is announced once for each change, and again until it is answered.
func TestNotify(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	n := dns.NewNotifier(dns.NotifierOptions{Port: conn.LocalAddr().(*net.UDPAddr).AddrPort().Port(), Sources: []netip.Addr{netip.MustParseAddr("::1"), netip.MustParseAddr("127.0.0.1")}})
	defer n.Close()
	top := transferable(t, func(in *topology.Input) { in.DNS.TransferTo = []string{"127.0.0.1", "198.18.0.0/24"} })
	z := next(t, top, nil)
	n.Announce(z)
	seen := map[string]int{}
	for first := true; len(seen) < len(z.Apexes()); {
		m, from := notification(t, conn)
		if len(m.Answer) != 1 || m.Answer[0].(*mdns.SOA).Serial != 1000 || !m.Authoritative {
			t.Fatalf("%v", m)
		}
		if first { // lost
			first = false
			continue
		}
		seen[m.Question[0].Name]++
		reply, err := new(mdns.Msg).SetReply(m).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.WriteTo(reply, from); err != nil {
			t.Fatal(err)
		}
	}
	for name, times := range seen {
		if times != 1 {
			t.Errorf("%s: %d times", name, times)
		}
	}
	n.Announce(z) // nothing has changed
	conn.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	if size, _, err := conn.ReadFrom(make([]byte, 512)); err == nil {
		t.Errorf("%d bytes without a change", size)
	}
}

func notification(t *testing.T, conn net.PacketConn) (*mdns.Msg, net.Addr) {
	t.Helper()
	b := make([]byte, 512)
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	size, from, err := conn.ReadFrom(b)
	if err != nil {
		t.Fatal(err)
	}
	m := new(mdns.Msg)
	if err := m.Unpack(b[:size]); err != nil {
		t.Fatal(err)
	}
	if m.Opcode != mdns.OpcodeNotify || m.Response {
		t.Fatalf("%v", m)
	}
	return m, from
}
