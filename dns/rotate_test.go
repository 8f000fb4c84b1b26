package dns_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
)

// datas returns what stands behind the type in records.
func datas(records []mdns.RR) (out []string) {
	for _, r := range records {
		out = append(out, strings.TrimPrefix(r.String(), r.Header().String()))
	}
	return out
}

// TestRotation begins a set of addresses at each turn, and leaves alone whatever else there is.
func TestRotation(t *testing.T) {
	in := dnstest.Input()
	for i := range in.Services {
		if in.Services[i].Name == "alias" {
			in.Services[i].ExternalName = "ring.shop.svc.grid.example"
		}
	}
	z := dnstest.Compile(t, in)
	const ring, half = "ring.shop.svc.grid.example.", 1 << 31
	four := []string{"172.24.1.21", "172.24.1.22", "172.24.1.23", "172.24.1.24"}
	two := []string{"fd42:172:24::21", "fd42:172:24::22"}
	ordered, _ := ask(t, z, query(t, "_peer._tcp."+ring, mdns.TypeSRV, 0, false), dns.TCPLimit)
	for _, tt := range []struct {
		name, qname string
		qtype       uint16
		turn        uint32
		want        []string
	}{
		{"as stored", ring, mdns.TypeA, 0, four},
		{"still the first", ring, mdns.TypeA, 1<<30 - 1, four},
		{"second", ring, mdns.TypeA, 1 << 30, []string{four[1], four[2], four[3], four[0]}},
		{"third", ring, mdns.TypeA, half, []string{four[2], four[3], four[0], four[1]}},
		{"last", ring, mdns.TypeA, 1<<32 - 1, []string{four[3], four[0], four[1], four[2]}},
		{"IPv6", ring, mdns.TypeAAAA, half, []string{two[1], two[0]}},
		{"behind an alias", "alias.shop.svc.grid.example.", mdns.TypeA, half, []string{ring, four[2], four[3], four[0], four[1]}},
		{"alias without addresses", "alias.shop.svc.grid.example.", mdns.TypeTXT, half, []string{ring}},
		{"one address", "cart.shop.svc.grid.example.", mdns.TypeA, half, []string{"10.96.4.10"}},
		{"SRV", "_peer._tcp." + ring, mdns.TypeSRV, half, datas(ordered.Answer)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, limit := range []int{dns.UDPLimit, dns.TCPLimit} {
				out := make([]byte, limit)
				n := dns.Responder{}.Answer(z, query(t, tt.qname, tt.qtype, 1232, false), out, dns.Client{Limit: limit, Turn: tt.turn})
				if m := dnstest.Unpack(t, out[:n]); !slices.Equal(datas(m.Answer), tt.want) || m.Truncated {
					t.Errorf("limit %d: %v", limit, m)
				}
			}
		})
	}
}

// TestRotationCut: the same number of addresses fits at any turn, the others get into other replies, and an alias is never cut off.
func TestRotationCut(t *testing.T) {
	z, out := dnstest.Zones(t), make([]byte, dns.UDPLimit)
	seen := map[string]bool{}
	for turn := range uint32(300) {
		n := dns.Responder{}.Answer(z, query(t, "swarm.shop.svc.grid.example.", mdns.TypeA, 0, false), out,
			dns.Client{Limit: dns.UDPLimit, Turn: turn*(1<<32/300) + 1000})
		m := dnstest.Unpack(t, out[:n])
		if len(m.Answer) != 29 || !m.Truncated {
			t.Fatalf("turn %d: %v", turn, m)
		}
		for i, data := range datas(m.Answer) {
			if want := dnstest.SwarmAddress((int(turn) + i) % 300); data != want {
				t.Fatalf("turn %d: record %d is %s, want %s", turn, i, data, want)
			}
			seen[data] = true
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d addresses are ever sent", len(seen))
	}
}

// TestTurns asks workers and sockets again and again, for A and AAAA by turns: each address is the first about as often as any other.
func TestTurns(t *testing.T) {
	const rounds = 400
	z := dnstest.Zones(t)
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.Sockets = 1 })
	s.Serve(z, nil)
	w := dns.NewWorker(dns.Responder{})
	for name, ask := range map[string]func(qtype uint16) *mdns.Msg{
		"worker": func(qtype uint16) *mdns.Msg {
			reply, _, _ := w.Answer(z, query(t, "ring.shop.svc.grid.example.", qtype, 0, false), dns.Client{Limit: dns.UDPLimit})
			return dnstest.Unpack(t, reply)
		},
		"udp": func(qtype uint16) *mdns.Msg {
			return exchange(t, "udp", s.Addr().String(), "ring.shop.svc.grid.example.", qtype, 0)
		},
		"tcp": func(qtype uint16) *mdns.Msg {
			return exchange(t, "tcp", s.Addr().String(), "ring.shop.svc.grid.example.", qtype, 0)
		},
	} {
		first := map[string]int{}
		for range rounds {
			first[datas(ask(mdns.TypeA).Answer)[0]]++
			first[datas(ask(mdns.TypeAAAA).Answer)[0]]++
		}
		for addr, n := range first {
			want := rounds / 4
			if strings.Contains(addr, ":") {
				want = rounds / 2
			}
			if n < want-10 || n > want+10 {
				t.Errorf("%s: %s is the first %d times of %d", name, addr, n, rounds)
			}
		}
		if len(first) != 6 {
			t.Errorf("%s: first are %v", name, first)
		}
	}
}

// TestLookupKeepsOrder: who asks the zones without a network gets the same reply each time.
func TestLookupKeepsOrder(t *testing.T) {
	z := dnstest.Zones(t)
	for range 3 {
		r, err := dns.Lookup(z, netip.Addr{}, "ring.shop.svc.grid.example", "A")
		if err != nil || len(r.Answer) != 4 || !slices.IsSorted(r.Answer) {
			t.Errorf("%v, %v", r, err)
		}
	}
}
