package bench

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	mdns "github.com/miekg/dns"

	"sluice/bench/traffic"
	"sluice/dns"
)

// frames is how many queries are prepared; they are sent again and again, in the same order.
const frames = 1 << 12

// Mix says what is asked, for reports.
const Mix = "30 % A and 15 % AAAA (no data) of ClusterIPs, 10 % A of headless services, 5 % SRV, 5 % PTR, 35 % A and AAAA of external names " +
	"below the search list of a pod (NXDOMAIN); a quarter with EDNS"

// question is one query and the reply that is right.
type question struct {
	wire  []byte
	reply mdns.Msg
}

// ask makes the questions, the same ones in each run, and answers them by the compiled zones.
func (n *Names) ask() (out []question, err error) {
	r := rand.New(rand.NewPCG(1, 2))
	for range frames {
		name, typ := n.pick(r)
		m := new(mdns.Msg).SetQuestion(name, typ)
		m.Id = uint16(r.Uint32())
		if r.IntN(4) == 0 {
			m.SetEdns0(dns.UDPLimit, false)
		}
		var q question
		if q.wire, err = m.Pack(); err != nil {
			return nil, err
		}
		reply := make([]byte, dns.UDPLimit)
		if err := q.reply.Unpack(reply[:dns.Responder{}.Answer(n.zones, q.wire, reply, dns.Client{Limit: dns.UDPLimit})]); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, q)
	}
	return out, nil
}

// pick draws a question from the mix.
func (n *Names) pick(r *rand.Rand) (name string, typ uint16) {
	i := r.IntN(n.services)
	switch percent := r.IntN(100); {
	case percent < 35:
		return junk(r, i), []uint16{mdns.TypeA, mdns.TypeAAAA}[r.IntN(2)]
	case percent < 45:
		return serviceName(i - i%headlessEvery + headlessEvery - 1), mdns.TypeA
	case percent < 50:
		return "_http._tcp." + serviceName(i), mdns.TypeSRV
	}
	for headless(i) {
		i = r.IntN(n.services)
	}
	switch percent := r.IntN(50); {
	case percent < 30:
		return serviceName(i), mdns.TypeA
	case percent < 45:
		return serviceName(i), mdns.TypeAAAA
	}
	part := strings.Split(clusterIP(i), ".")
	return fmt.Sprintf("%s.%s.%s.%s.in-addr.arpa.", part[3], part[2], part[1], part[0]), mdns.TypePTR
}

// junk is what a pod's resolver makes of an external name with fewer than five dots (ndots:5): it is tried below the namespace, svc,
// and the cluster's domain.
func junk(r *rand.Rand, service int) string {
	external := []string{"api.example.com", "storage.example.org", "www.example.net", "eu.queue.example.com"}[r.IntN(4)]
	_, below, _ := strings.Cut(serviceName(service), ".")
	return external + "." + []string{below, "svc." + forwardZone, forwardZone}[r.IntN(3)]
}

// datagrams returns the questions as frames from many clients on the link to a server.
func (n *Names) datagrams(l traffic.Link) (out [][]byte, err error) {
	const clients, lowest, highest = 64, 1024, 65535
	r := rand.New(rand.NewPCG(3, 4))
	first := netip.MustParseAddr(sourceBase).As4()
	for _, q := range n.questions {
		from := first
		from[3] = byte(1 + r.IntN(clients))
		f, err := traffic.Datagram(l, netip.AddrPortFrom(netip.AddrFrom4(from), uint16(lowest+r.IntN(highest-lowest))), dnsServer(), q.wire)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// rcodes returns how many replies of each response code are right for the frames from one number up to another.
func (n *Names) rcodes(from, to uint64) (want [traffic.RCodes]uint64) {
	for i, q := range n.questions {
		// How many numbers up to x, exclusive, are those of question i.
		upTo := func(x uint64) uint64 { return (x + frames - 1 - uint64(i)) / frames }
		want[q.reply.Rcode] += upTo(to) - upTo(from)
	}
	return want
}
