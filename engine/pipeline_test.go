package engine

import (
	"net/netip"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// The network of these tests: clients behind interface 0, backends behind interface 1.
const (
	client, client6   = "192.0.2.10", "2001:db8:1::10"
	podClient         = "10.64.3.9"
	gateway, gateway6 = "198.18.0.10", "2001:db8:a::10"
	webIP, webIP6     = "10.96.4.10", "fd00:96::10"
	webVIP            = "203.0.113.5"
	webExt            = "198.51.100.20"
	localVIP          = "203.0.113.6"
	idleIP            = "10.96.4.11"
	back1, back2      = "10.64.0.11", "10.64.0.12"
	back6             = "fd64:10::11"
	routerAddr        = "198.51.100.1"
	webNodePort       = 30080
)

var (
	clientMAC  = [6]byte{2, 0, 0, 0, 0, 1}
	frontMAC   = [6]byte{2, 0, 0, 0, 0, 2}
	backMAC    = [6]byte{2, 0, 0, 0, 0, 3}
	backendMAC = [6]byte{2, 0, 0, 0, 0, 4}
)

func addrs(s ...string) (out []netip.Addr) {
	for _, a := range s {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

// endpoint is a ready endpoint on a node.
func endpoint(addr, node string, ports map[string]uint16) topology.Endpoint {
	return topology.Endpoint{Address: netip.MustParseAddr(addr), Ports: ports, Node: node, Ready: true, Serving: true, Weight: 1}
}

// testTopology has a service on every kind of address.
func testTopology() *topology.Topology {
	ports := []topology.Port{
		{Name: "web", Protocol: topology.TCP, Port: 80, TargetPort: 8080, NodePort: webNodePort},
		{Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353, NodePort: webNodePort + 1},
	}
	target := map[string]uint16{"web": 8080, "dns": 5353}
	return &topology.Topology{
		Gateway: topology.Gateway{
			Node:              "gw-a",
			PodCIDRs:          []netip.Prefix{netip.MustParsePrefix("10.64.0.0/14"), netip.MustParsePrefix("fd64:10::/48")},
			SNATAddresses:     addrs(gateway, gateway6),
			SNATPorts:         topology.PortRange{First: 32768, Last: 60999},
			NodePortAddresses: addrs(gateway, gateway6),
			LocalAddresses:    addrs(gateway, gateway6),
		},
		Cluster: topology.Cluster{
			ServiceCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")},
			NodePortRange: topology.PortRange{First: 30000, Last: 32767},
		},
		Conntrack: topology.Conntrack{MaxFlows: 1024, Timeouts: topology.DefaultTimeouts()},
		Services: []topology.Service{
			{Namespace: "shop", Name: "idle", Type: topology.ClusterIP, ClusterIPs: addrs(idleIP), Ports: []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80, TargetPort: 8080}},
				ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster},
			{Namespace: "shop", Name: "local", Type: topology.LoadBalancer, ClusterIPs: addrs("10.96.4.12"),
				LoadBalancerIPs: addrs(localVIP), ExternalTrafficPolicy: topology.PolicyLocal, InternalTrafficPolicy: topology.PolicyCluster,
				Ports:     []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80, TargetPort: 8080}, {Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353}},
				Endpoints: []topology.Endpoint{endpoint(back1, "gw-a", target)}},
			{Namespace: "shop", Name: "web", Type: topology.LoadBalancer, ClusterIPs: addrs(webIP, webIP6),
				LoadBalancerIPs: addrs(webVIP), ExternalIPs: addrs(webExt),
				ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster, Ports: ports,
				Endpoints: []topology.Endpoint{endpoint(back1, "wk-1", target), endpoint(back6, "wk-1", target)}},
		},
	}
}

// snapshot compiles a topology.
func snapshot(t testing.TB, generation uint64, topo *topology.Topology, previous *nat.Table) *control.Snapshot {
	t.Helper()
	table, err := nat.Compile(topo, nat.CompileOptions{Previous: previous, TableSize: 251})
	if err != nil {
		t.Fatal(err)
	}
	return &control.Snapshot{Generation: generation, Topology: topo, NAT: table}
}

// bed is a pipeline between two interfaces in memory.
type bed struct {
	t        testing.TB
	port     *xdp.Memory
	flows    *conntrack.Table
	p        *Pipeline
	snap     *control.Snapshot
	hops     *fib.Snapshot
	resolved []fib.NextHop
	refuse   bool // turn requests to resolve away
	punted   [][]byte
	puntFull bool
	now      int64
	counters Counters
}

func (b *bed) Current() *fib.Snapshot { return b.hops }

func (b *bed) Resolve(h fib.NextHop) bool {
	if !b.refuse {
		b.resolved = append(b.resolved, h)
	}
	return !b.refuse
}

func (b *bed) Punt(_ int, frame []byte) bool {
	if !b.puntFull {
		b.punted = append(b.punted, append([]byte(nil), frame...))
	}
	return !b.puntFull
}

// hops routes backends out of interface 1 and all else out of interface 0; changes are applied to the backends' hop.
func hops(generation uint64, change func(*fib.NextHop)) *fib.Snapshot {
	return fib.Static(generation, routes(change)...)
}

// routes are those of hops.
func routes(change func(*fib.NextHop)) []fib.Route {
	front := fib.NextHop{State: fib.Ready, Iface: 0, MTU: 1500, SrcMAC: frontMAC, DstMAC: clientMAC}
	back := fib.NextHop{State: fib.Ready, Iface: 1, MTU: 1500, SrcMAC: backMAC, DstMAC: backendMAC}
	if change != nil {
		change(&back)
	}
	local := fib.NextHop{State: fib.Local, Iface: -1}
	route := func(prefix string, h fib.NextHop) fib.Route {
		return fib.Route{Prefix: netip.MustParsePrefix(prefix), Hop: h}
	}
	return []fib.Route{route("0.0.0.0/0", front), route("::/0", front), route("10.64.0.0/24", back),
		route("fd64:10::/64", back), route(gateway+"/32", local), route(gateway6+"/128", local)}
}

func newBed(t testing.TB, topo *topology.Topology) *bed {
	t.Helper()
	b := &bed{t: t, now: 1e9, hops: hops(1, nil), snap: snapshot(t, 1, topo, nil)}
	var err error
	if b.flows, err = conntrack.New(conntrack.Options{MaxFlows: topo.Conntrack.MaxFlows, Timeouts: topo.Conntrack.Timeouts,
		Liberal: topo.Conntrack.TCPLiberal}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.flows.Close() })
	b.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 1024, Interfaces: []xdp.Interface{
		{Name: "front", MAC: frontMAC, MTU: 1500}, {Name: "back", MAC: backMAC, MTU: 1500}}})
	handle := b.flows.Register()
	t.Cleanup(handle.Close)
	b.p = NewPipeline(PipelineConfig{Port: b.port, Flows: handle, NextHops: b, Punter: b, Counters: &b.counters, PortSeed: 1})
	return b
}

// reload publishes another topology.
func (b *bed) reload(topo *topology.Topology) {
	b.snap = snapshot(b.t, b.snap.Generation+1, topo, b.snap.NAT)
}

// run takes frames through the pipeline as one batch and returns what left each interface.
func (b *bed) run(iface int, frames ...[]byte) (front, back [][]byte) {
	b.t.Helper()
	front, back = b.carry(iface, frames...)
	for _, f := range append(append([][]byte(nil), front...), back...) {
		verify(b.t, f)
	}
	return front, back
}

// carry is run for frames whose checksums are wrong.
func (b *bed) carry(iface int, frames ...[]byte) (front, back [][]byte) {
	b.t.Helper()
	if err := b.port.Deliver(iface, frames...); err != nil {
		b.t.Fatal(err)
	}
	got := make([]xdp.Frame, len(frames))
	n := b.port.Receive(got)
	b.p.Process(b.snap, b.now, got[:n])
	if err := b.port.Flush(); err != nil {
		b.t.Fatal(err)
	}
	front, back = b.port.Sent(0), b.port.Sent(1)
	b.audit()
	return front, back
}

// audit checks that every frame is in its place: none is lost, and the worker holds those that wait.
func (b *bed) audit() {
	b.t.Helper()
	a, err := b.port.Audit()
	if err != nil {
		b.t.Fatal(err)
	}
	if a.Worker != b.p.Pending() {
		b.t.Fatalf("the worker holds %d frames, %d wait: %+v", a.Worker, b.p.Pending(), a)
	}
}

// verify checks all checksums of a packet that was sent.
func verify(t testing.TB, frame []byte) packet.Info {
	t.Helper()
	var in packet.Info
	if s := packet.Parse(frame, &in); s != packet.OK {
		t.Fatalf("sent a packet that does not parse (%v): %x", s, frame)
	}
	if !packet.VerifyIP(frame, &in) || !packet.VerifyL4(frame, &in) {
		t.Fatalf("sent a wrong checksum: %v %x", in.Tuple, frame)
	}
	return in
}

// one expects exactly one packet and returns what it is.
func one(t testing.TB, frames [][]byte) packet.Info {
	t.Helper()
	if len(frames) != 1 {
		t.Fatalf("%d packets, want 1", len(frames))
	}
	return verify(t, frames[0])
}

func tuple(proto uint8, src string, sport uint16, dst string, dport uint16) packet.Tuple {
	return packet.Tuple{Src: packet.AddrFrom(netip.MustParseAddr(src)), Dst: packet.AddrFrom(netip.MustParseAddr(dst)),
		SrcPort: sport, DstPort: dport, Proto: proto}
}

// frame builds a packet as a client sends it; TCP flags are SYN unless given.
func frame(tu packet.Tuple, change ...func(*packet.Spec)) []byte {
	s := packet.Spec{SrcMAC: clientMAC, DstMAC: frontMAC, Tuple: tu, TTL: 64, DF: true, Seq: 1, Window: 0xffff}
	switch tu.Proto {
	case packet.ProtoTCP:
		s.TCPFlags = packet.TCPSyn
	case packet.ProtoUDP:
		s.Payload = []byte("abc")
	case packet.ProtoSCTP:
		s.Payload = initChunk()
	}
	for _, c := range change {
		c(&s)
	}
	return packet.Build(make([]byte, 9000), &s)
}

func flags(f uint8) func(*packet.Spec) { return func(s *packet.Spec) { s.TCPFlags = f } }
func ttl(v uint8) func(*packet.Spec)   { return func(s *packet.Spec) { s.TTL = v } }
func payload(n int) func(*packet.Spec) { return func(s *packet.Spec) { s.Payload = make([]byte, n) } }

const (
	tcp = packet.ProtoTCP
	udp = packet.ProtoUDP
)

// TestForward opens a flow on every kind of address and sends a packet each way.
func TestForward(t *testing.T) {
	for _, tc := range []struct {
		name     string
		packet   packet.Tuple
		snat     string // "" when the client's address is kept
		backend  string
		port     uint16
		why      reason.Reason
		fromPort int // interface
	}{
		{"clusterip from outside, tcp", tuple(tcp, client, 40000, webIP, 80), gateway, back1, 8080, reason.ClusterIP, 0},
		{"clusterip from outside, udp", tuple(udp, client, 40000, webIP, 53), gateway, back1, 5353, reason.ClusterIP, 0},
		{"clusterip from a pod keeps the source", tuple(tcp, podClient, 40000, webIP, 80), "", back1, 8080, reason.ClusterIP, 0},
		{"clusterip, ipv6 tcp", tuple(tcp, client6, 40000, webIP6, 80), gateway6, back6, 8080, reason.ClusterIP, 0},
		{"clusterip, ipv6 udp", tuple(udp, client6, 40000, webIP6, 53), gateway6, back6, 5353, reason.ClusterIP, 0},
		{"vip, tcp", tuple(tcp, client, 40000, webVIP, 80), gateway, back1, 8080, reason.LoadBalancer, 0},
		{"vip, udp", tuple(udp, client, 40000, webVIP, 53), gateway, back1, 5353, reason.LoadBalancer, 0},
		{"vip, policy Local keeps the source, tcp", tuple(tcp, client, 40000, localVIP, 80), "", back1, 8080, reason.LoadBalancer, 0},
		{"vip, policy Local keeps the source, udp", tuple(udp, client, 40000, localVIP, 53), "", back1, 5353, reason.LoadBalancer, 0},
		{"external ip", tuple(tcp, client, 40000, webExt, 80), gateway, back1, 8080, reason.ExternalIP, 0},
		{"node port, tcp", tuple(tcp, client, 40000, gateway, webNodePort), gateway, back1, 8080, reason.NodePort, 0},
		{"node port, udp ipv6", tuple(udp, client6, 40000, gateway6, webNodePort+1), gateway6, back6, 5353, reason.NodePort, 0},
		{"hairpin", tuple(tcp, back1, 40000, webIP, 80), gateway, back1, 8080, reason.Hairpin, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			_, back := b.run(tc.fromPort, frame(tc.packet))
			out := one(t, back)
			wantSrc, wantPort := tc.packet.Src.String(), tc.packet.SrcPort
			if tc.snat != "" {
				wantSrc, wantPort = tc.snat, out.Tuple.SrcPort
				if p := out.Tuple.SrcPort; p < 32768 || p > 60999 {
					t.Errorf("source port %d is outside the pool", p)
				}
			}
			if want := tuple(tc.packet.Proto, wantSrc, wantPort, tc.backend, tc.port); out.Tuple != want {
				t.Fatalf("forward packet is %v, want %v", out.Tuple, want)
			}
			if out.TTL != 63 {
				t.Errorf("TTL %d, want 63", out.TTL)
			}
			if m := back[0]; [6]byte(m[:6]) != backendMAC || [6]byte(m[6:12]) != backMAC {
				t.Errorf("link-layer addresses %x", m[:12])
			}
			if got := b.counters.Packets(tc.why); got != 1 {
				t.Errorf("counted %d times as %v", got, tc.why)
			}
			replies := [2][][]byte{}
			replies[0], replies[1] = b.run(1, frame(out.Tuple.Reverse(), flags(packet.TCPSyn|packet.TCPAck)))
			if in := one(t, replies[tc.fromPort]); in.Tuple != tc.packet.Reverse() {
				t.Errorf("reply is %v, want %v", in.Tuple, tc.packet.Reverse())
			}
			_, back = b.run(tc.fromPort, frame(tc.packet, flags(packet.TCPAck)))
			if again := one(t, back); again.Tuple != out.Tuple {
				t.Errorf("second packet is %v, want %v", again.Tuple, out.Tuple)
			}
			if got := b.counters.Packets(reason.Established); got != 2 {
				t.Errorf("%d packets of established flows, want 2", got)
			}
		})
	}
}

// TestEnds covers every packet that does not leave as it is, by its reason.
func TestEnds(t *testing.T) {
	fragment := func(f []byte) []byte { // a first fragment
		f[14+6] |= 0x20
		f[14+10], f[14+11] = 0, 0
		check := ^packet.Sum(f[14:34], 0)
		f[14+10], f[14+11] = byte(check>>8), byte(check)
		return f
	}
	for _, tc := range []struct {
		name  string
		frame []byte
		why   reason.Reason
		icmp  int // type of the answer on the front interface, -1 for none
		code  uint8
	}{
		{"no endpoints", frame(tuple(tcp, client, 40000, idleIP, 80)), reason.NoEndpoints, 3, 3},
		{"unknown port", frame(tuple(tcp, client, 40000, webIP, 443)), reason.UnknownPort, 3, 3},
		{"unknown port, udp", frame(tuple(udp, client, 40000, webVIP, 99)), reason.UnknownPort, 3, 3},
		{"unknown port, ipv6", frame(tuple(tcp, client6, 40000, webIP6, 443)), reason.UnknownPort, 1, 4},
		{"unallocated", frame(tuple(tcp, client, 40000, "10.96.9.9", 80)), reason.Unallocated, -1, 0},
		{"no flow", frame(tuple(tcp, client, 40000, webIP, 80), flags(packet.TCPAck)), reason.NoFlow, -1, 0},
		{"reset without a flow", frame(tuple(tcp, client, 40000, webIP, 80), flags(packet.TCPRst)), reason.NoFlow, -1, 0},
		{"fragment of an echo", fragment(frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho; s.Payload = make([]byte, 8) })), reason.Fragment, -1, 0},
		{"other protocol", frame(tuple(47, client, 0, webIP, 0), payload(20)), reason.UnsupportedProtocol, -1, 0},
		{"time to live", frame(tuple(tcp, client, 40000, webIP, 80), ttl(1)), reason.TTLExceeded, 11, 0},
		{"hop limit", frame(tuple(tcp, client6, 40000, webIP6, 80), ttl(1)), reason.TTLExceeded, 3, 0},
		{"not ours", frame(tuple(tcp, client, 40000, gateway, 22)), reason.NotOurs, -1, 0},
		{"reply to a connection of the node", frame(tuple(tcp, client, 443, gateway, 40000), flags(packet.TCPSyn|packet.TCPAck)), reason.NotOurs, -1, 0},
		{"transit", frame(tuple(udp, back1, 9999, client, 9999)), reason.NotOurs, -1, 0},
		{"cut short", frame(tuple(tcp, client, 40000, webIP, 80))[:40], reason.Malformed, -1, 0},
		{"echo", frame(tuple(packet.ProtoICMP, client, 7, webVIP, 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho; s.Payload = []byte("odd") }), reason.EchoReply, 0, 0},
		{"echo, ipv6", frame(tuple(packet.ProtoICMPv6, client6, 7, webIP6, 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPv6Echo }), reason.EchoReply, 129, 0},
		{"echo to an unallocated address", frame(tuple(packet.ProtoICMP, client, 7, "10.96.9.9", 7), func(s *packet.Spec) { s.ICMPType = packet.ICMPEcho }), reason.Unallocated, -1, 0},
		{"echo reply to the node", frame(tuple(packet.ProtoICMP, client, 40000, gateway, 40000)), reason.NotOurs, -1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			original := append([]byte(nil), tc.frame...)
			front, back := b.run(0, tc.frame)
			if got := b.counters.Packets(tc.why); got != 1 {
				t.Errorf("not counted as %v", tc.why)
			}
			if len(back) != 0 {
				t.Errorf("%d packets towards the backends", len(back))
			}
			if (tc.why == reason.NotOurs) != (len(b.punted) == 1) {
				t.Errorf("%d packets punted", len(b.punted))
			}
			for _, p := range b.punted {
				if string(p) != string(original) {
					t.Errorf("punted packet was changed:\n%x\n%x", original, p)
				}
			}
			if tc.icmp < 0 {
				if len(front) != 0 {
					t.Errorf("answered: %x", front[0])
				}
				return
			}
			answer := one(t, front)
			var asked packet.Info
			packet.Parse(original, &asked)
			if int(answer.ICMPType) != tc.icmp || answer.ICMPCode != tc.code {
				t.Errorf("answer is type %d code %d, want %d, %d", answer.ICMPType, answer.ICMPCode, tc.icmp, tc.code)
			}
			if answer.Tuple.Src != asked.Tuple.Dst || answer.Tuple.Dst != asked.Tuple.Src {
				t.Errorf("answer is %v, to %v", answer.Tuple, asked.Tuple)
			}
			if [6]byte(front[0][:6]) != clientMAC {
				t.Errorf("answer goes to %x", front[0][:6])
			}
		})
	}
}
