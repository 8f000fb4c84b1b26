package engine

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"
	"testing"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/engine/control"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// Where the tests' gateway answers DNS: at the ClusterIPs of a service, and at an address that no service has.
const (
	dnsIP, dnsIP6 = "10.96.0.10", "fd00:96::a"
	dnsOwn        = "203.0.113.53"
)

// dnsTopology has a cluster's DNS service, which has an endpoint of its own: the gateway comes first.
func dnsTopology(addresses ...string) *topology.Topology {
	topo := testTopology()
	topo.Cluster.Domain, topo.DNS.TTL, topo.DNS.Addresses = "grid.example", 5, addrs(addresses...)
	topo.DNS.ReverseZones = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
	topo.Services = append(topo.Services, topology.Service{Namespace: "kube-system", Name: "kube-dns", Type: topology.ClusterIP,
		ClusterIPs: addrs(dnsIP, dnsIP6), ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{{Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353},
			{Name: "dns-tcp", Protocol: topology.TCP, Port: 53, TargetPort: 5353}, {Name: "metrics", Protocol: topology.TCP, Port: 9153, TargetPort: 9153}},
		Endpoints: []topology.Endpoint{endpoint(back1, "wk-1", map[string]uint16{"dns": 5353, "dns-tcp": 5353, "metrics": 9153})}})
	return topo
}

// newDNSBed is a bed whose gateway answers DNS.
func newDNSBed(t testing.TB, topo *topology.Topology) *bed {
	t.Helper()
	b := newBed(t, topo)
	var err error
	if b.snap, err = control.Build(topo, nil, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

// query returns a query for addresses.
func query(t testing.TB, name string) []byte {
	t.Helper()
	q, err := dns.Query(name, "A")
	if err != nil {
		t.Fatal(err)
	}
	q[0], q[1] = 0xab, 0xcd
	return q
}

// carrying sets the payload.
func carrying(payload []byte) func(*packet.Spec) {
	return func(s *packet.Spec) { s.Payload = payload }
}

// queries are names with the response codes that they get.
func queries() map[string]int {
	return map[string]int{
		"web.shop.svc.grid.example": 0, "WEB.shop.SVC.grid.example": 0, "none.shop.svc.grid.example": 3, "svc.grid.example": 0, "example.org": 5,
	}
}

// TestDNSInPlace: what comes back is byte for byte what the responder says, from where the query was sent to, in the frame that
// it came in.
func TestDNSInPlace(t *testing.T) {
	for _, at := range []struct{ from, to string }{{client, dnsIP}, {client, dnsOwn}, {client6, dnsIP6}} {
		for name, rcode := range queries() {
			for _, vlan := range []uint16{0, 7} {
				b := newDNSBed(t, dnsTopology(dnsIP, dnsIP6, dnsOwn))
				tu := tuple(udp, at.from, 40000, at.to, 53)
				q := query(t, name)
				front, back := b.run(0, frame(tu, carrying(q), func(s *packet.Spec) { s.VLAN = vlan }))
				if len(back) != 0 || len(b.punted) != 0 || b.counters.Packets(reason.DNSAnswered) != 1 {
					t.Fatalf("%s: %d to a backend, %d punted", name, len(back), len(b.punted))
				}
				in := one(t, front)
				want := make([]byte, dns.UDPLimit)
				want = want[:dns.Responder{}.Answer(b.snap.Names.Zones, q, want, dns.Client{Limit: dns.UDPLimit})]
				if got := packet.UDPPayload(front[0], &in); !bytes.Equal(got, want) || int(got[3]&15) != rcode {
					t.Errorf("%s: %x, want %x with response code %d", name, got, want, rcode)
				}
				if in.Tuple != tu.Reverse() || in.TTL != 64 || [6]byte(front[0]) != clientMAC || [6]byte(front[0][6:]) != frontMAC || in.VLANs > 0 != (vlan > 0) {
					t.Errorf("%s: answered as %+v, %x", name, in, front[0][:18])
				}
				if n := b.p.DNSCounters(); n.Queries() != 1 || n.Replies[rcode] != 1 {
					t.Errorf("%s: counted %+v", name, n)
				}
			}
		}
	}
}

// TestDNSElsewhere leaves to the sockets what other servers have to be asked for, and what a search path may lead to.
func TestDNSElsewhere(t *testing.T) {
	topo := dnsTopology(dnsIP)
	topo.DNS.Forward, topo.DNS.Autopath = []topology.Upstream{{File: "/etc/resolv.conf"}}, true
	topo.Pods = []topology.Pod{{Namespace: "shop", Name: "client", Addresses: []netip.Addr{netip.MustParseAddr(client)}}}
	for name, passed := range map[string]bool{"example.org": true, "none.shop.svc.grid.example": true, "none.ops.svc.grid.example": false,
		"web.shop.svc.grid.example": false} {
		b := newDNSBed(t, topo)
		sent := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(query(t, name)))
		front, _ := b.run(0, sent)
		counted := b.p.DNSCounters()
		if got := len(b.punted) == 1 && len(front) == 0 && bytes.Equal(b.punted[0], sent); got != passed || counted.Queries() > 0 == passed {
			t.Errorf("%s: %d punted, %d answered, counted %+v", name, len(b.punted), len(front), counted)
		}
	}
	no := query(t, "example.org")
	no[2] &^= 1 // RD
	b := newDNSBed(t, topo)
	if front, _ := b.run(0, frame(tuple(udp, client, 40000, dnsIP, 53), carrying(no))); len(front) != 1 || len(b.punted) != 0 {
		t.Errorf("without recursion: %d answered, %d punted", len(front), len(b.punted))
	}
}

// TestDNSCases puts the cases of the DNS server on the ring: the replies are byte for byte what the responder says, which the cases of
// package dns hold to what sockets say.
func TestDNSCases(t *testing.T) {
	cases := dnstest.Cases(t)
	topo := dnsTopology(dnsIP, dnsIP6)
	for i := range cases {
		c := &cases[i]
		if c.Query.TCP {
			continue
		}
		z := c.Zones(t)
		for _, at := range []struct{ from, to string }{{client, dnsIP}, {client6, dnsIP6}} {
			t.Run(c.ID+"/"+at.to, func(t *testing.T) {
				b := newDNSBed(t, topo)
				names := *b.snap.Names
				names.Zones, b.snap.Names = z, &names
				q, want := c.Message(t), make([]byte, dns.UDPLimit)
				want = want[:dns.Responder{}.Answer(z, q, want, dns.Client{Limit: dns.UDPLimit})]
				front, _ := b.run(0, frame(tuple(udp, at.from, 40000, at.to, 53), carrying(q)))
				var got []byte
				if len(front) > 0 {
					in := one(t, front)
					got = packet.UDPPayload(front[0], &in)
				} else if b.counters.Packets(reason.DNSIgnored) != 1 {
					t.Fatal("no reply, and not counted")
				}
				c.Check(t, got, c.Limit(false))
				if !bytes.Equal(got, want) {
					t.Errorf("%x, want %x", got, want)
				}
			})
		}
	}
}

// TestDNSForSockets is what one frame is not enough for: it is punted as it came, all of it.
func TestDNSForSockets(t *testing.T) {
	q := query(t, "web.shop.svc.grid.example")
	udp4, udp6 := tuple(udp, client, 40000, dnsIP, 53), tuple(udp, client6, 40000, dnsIP6, 53)
	const destination = 60
	padding := []byte{0, 0, 1, 4, 0, 0, 0, 0}
	quoted := packet.Build(make([]byte, 256), &packet.Spec{Tuple: tuple(tcp, dnsIP, 53, client, 40000), TCPFlags: packet.TCPAck, DF: true})
	for name, frames := range map[string][][]byte{
		"tcp":            {frame(tuple(tcp, client, 40000, dnsIP, 53)), frame(tuple(tcp, client, 40000, dnsIP, 53), flags(packet.TCPAck))},
		"fragments":      pieces(frame(udp4, text(3000)), 7, 1480, 1480),
		"fragments6":     pieces(frame(udp6, text(3000)), 7, 1480, 1480),
		"ipv4 options":   {withOptions(frame(udp4, carrying(q)), 148, 4, 0, 0)},
		"ipv6 options":   {withExtensions(frame(udp6, carrying(q)), []byte{destination}, padding)},
		"errors of icmp": {icmpAbout(t, quoted)},
	} {
		t.Run(name, func(t *testing.T) {
			b := newDNSBed(t, dnsTopology(dnsIP, dnsIP6))
			front, back := b.run(0, frames...)
			if len(front)+len(back) != 0 || !slices.EqualFunc(b.punted, frames, bytes.Equal) {
				t.Errorf("%d and %d sent, %d of %d punted unchanged", len(front), len(back), len(b.punted), len(frames))
			}
		})
	}
}

// icmpAbout returns a router's error about a packet that the gateway has sent: too big.
func icmpAbout(t *testing.T, sent []byte) []byte {
	t.Helper()
	var in packet.Info
	if packet.Parse(sent, &in) != packet.OK {
		t.Fatal("cannot be parsed")
	}
	buf := make([]byte, 1024)
	copy(buf[256:], sent)
	start, end, ok := packet.BuildError(buf, 256, 256+len(sent), &in, packet.TooBig, packet.AddrFrom(netip.MustParseAddr(routerAddr)), 1280)
	if !ok {
		t.Fatal("no room")
	}
	f := buf[start:end]
	copy(f, frontMAC[:])
	copy(f[6:], clientMAC[:])
	return f
}

// TestDNSRefuses drops what is no query, is damaged, or could not be answered but to somebody else.
func TestDNSRefuses(t *testing.T) {
	q := query(t, "web.shop.svc.grid.example")
	answer := slices.Clone(q)
	answer[2] |= 0x80
	damaged := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(q))
	damaged[len(damaged)-1] ^= 1
	broadcast := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(q))
	broken := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(q))
	broken[14+8]++ // TTL, and not the header checksum
	copy(broadcast, []byte{255, 255, 255, 255, 255, 255})
	for _, tc := range []struct {
		name  string
		frame []byte
		why   reason.Reason
	}{
		{"an answer", frame(tuple(udp, client, 53, dnsIP, 53), carrying(answer)), reason.DNSIgnored},
		{"empty", frame(tuple(udp, client, 40000, dnsIP, 53)), reason.DNSIgnored},
		{"short", frame(tuple(udp, client, 40000, dnsIP, 53), carrying(q[:11])), reason.DNSIgnored},
		{"damaged", damaged, reason.BadChecksum},
		{"damaged header", broken, reason.Malformed},
		{"from itself", frame(tuple(udp, gateway, 53, dnsIP, 53), carrying(q)), reason.Martian},
		{"from a service port", frame(tuple(udp, webIP, 53, dnsIP, 53), carrying(q)), reason.Martian},
		{"from multicast", frame(tuple(udp, "224.0.0.251", 5353, dnsIP, 53), carrying(q)), reason.Martian},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newDNSBed(t, dnsTopology(dnsIP, dnsIP6))
			front, back := b.carry(0, tc.frame)
			if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(tc.why) != 1 {
				t.Errorf("%d and %d sent, %d punted, %d counted as %v", len(front), len(back), len(b.punted), b.counters.Packets(tc.why), tc.why)
			}
		})
	}
	b := newDNSBed(t, dnsTopology(dnsIP, dnsIP6))
	if b.run(0, broadcast); len(b.punted) != 1 {
		t.Errorf("a broadcast frame: %d punted", len(b.punted))
	}
}

// TestDNSPartialChecksum: a sender on this host leaves the sum to a card that there is not.
func TestDNSPartialChecksum(t *testing.T) {
	f := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(query(t, "web.shop.svc.grid.example")))
	var in packet.Info
	packet.Parse(f, &in)
	pseudo := packet.Sum(f[26:34], uint32(in.Proto)+uint32(in.End-in.L4))
	binary.BigEndian.PutUint16(f[in.L4+6:], pseudo)
	for mode, want := range map[nat.ChecksumMode]reason.Reason{nat.Auto: reason.DNSAnswered, nat.Incremental: reason.BadChecksum} {
		b := newDNSBed(t, dnsTopology(dnsIP))
		b.p.Checksum = mode
		if b.run(0, f); b.counters.Packets(want) != 1 {
			t.Errorf("mode %v: not counted as %v", mode, want)
		}
	}
}

// TestDNSLeavesTheRest: other ports of the address are the service's, and without an address all is.
func TestDNSLeavesTheRest(t *testing.T) {
	b := newDNSBed(t, dnsTopology(dnsIP, dnsIP6))
	if _, back := b.run(0, frame(tuple(tcp, client, 40000, dnsIP, 9153))); len(back) != 1 {
		t.Errorf("port 9153: %d sent to the endpoint", len(back))
	}
	b = newDNSBed(t, dnsTopology())
	if _, back := b.run(0, frame(tuple(udp, client, 40000, dnsIP, 53), carrying(query(t, "svc.grid.example")))); len(back) != 1 {
		t.Errorf("no address: %d sent to the endpoint", len(back))
	}
	if b.snap.Names != nil {
		t.Error("zones are compiled that nobody asks for")
	}
}

// TestDNSSmallLink: where a reply has no room in a frame or on the link it is cut as DNS has it, and not by a router.
func TestDNSSmallLink(t *testing.T) {
	topo := dnsTopology(dnsIP)
	s := &topo.Services[len(topo.Services)-1]
	s.Headless, s.Name, s.ClusterIPs = true, "wide", nil
	for i := range 70 {
		s.Endpoints = append(s.Endpoints, endpoint(netip.AddrFrom4([4]byte{10, 64, 1, byte(i)}).String(), "wk-1", nil))
	}
	b := newDNSBed(t, topo)
	b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 64, Interfaces: []xdp.Interface{{Name: "front", MAC: frontMAC, MTU: 400}}})
	b.p = NewPipeline(PipelineConfig{Port: b.port, Flows: b.p.Flows, NextHops: b, Punter: b, Counters: &b.counters})
	q := query(t, "wide.kube-system.svc.grid.example")
	if err := b.port.Deliver(0, frame(tuple(udp, client, 40000, dnsIP, 53), carrying(q))); err != nil {
		t.Fatal(err)
	}
	frames := make([]xdp.Frame, 1)
	b.p.Process(b.snap, b.now, frames[:b.port.Receive(frames)])
	if err := b.port.Flush(); err != nil {
		t.Fatal(err)
	}
	in := one(t, b.port.Sent(0))
	if size := in.End - in.L3; size > 400 || size < 380 {
		t.Errorf("%d bytes over an MTU of 400", size)
	}
}

// TestDNSDoesNotAllocate, for hits and for what does not exist.
func TestDNSDoesNotAllocate(t *testing.T) {
	b := newDNSBed(t, dnsTopology(dnsIP))
	b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 64, Interfaces: b.port.Interfaces(), Discard: true})
	b.p.Port = b.port
	hit := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(query(t, "web.shop.svc.grid.example")))
	miss := frame(tuple(udp, client, 40000, dnsIP, 53), carrying(query(t, "none.shop.svc.grid.example")))
	frames := make([]xdp.Frame, 2)
	n := testing.AllocsPerRun(100, func() {
		if err := b.port.Deliver(0, hit, miss); err != nil {
			t.Fatal(err)
		}
		b.p.Process(b.snap, b.now, frames[:b.port.Receive(frames)])
		if err := b.port.Flush(); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 || b.counters.Packets(reason.DNSAnswered) < 200 {
		t.Errorf("%v allocations, %d answers", n, b.counters.Packets(reason.DNSAnswered))
	}
}

// TestTraceDNS: trace says that the gateway answers by itself.
func TestTraceDNS(t *testing.T) {
	for proto, want := range map[string]struct {
		verdict string
		why     reason.Reason
	}{"udp": {"forward", reason.DNSAnswered}, "tcp": {"pass", reason.NotOurs}} {
		r, err := Trace(dnsTopology(dnsIP, dnsOwn), TraceSpec{From: FromExternal, Proto: proto,
			Src: netip.MustParseAddrPort(client + ":40000"), Dst: netip.MustParseAddrPort(dnsOwn + ":53")})
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != want.verdict || r.Reason != want.why.String() {
			t.Errorf("%s: %+v", proto, r)
		}
	}
}
