package engine

import (
	"net/netip"
	"testing"

	"sluice/config/topology"
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// moved is the test topology with the endpoints of the web service somewhere else.
func moved() *topology.Topology {
	t := testTopology()
	t.Services[2].Endpoints = []topology.Endpoint{endpoint(back2, "wk-2", map[string]uint16{"web": 8080, "dns": 5353})}
	return t
}

// TestICMPErrorDoesNotEndADrainingConnection: a TCP connection to a removed endpoint goes on, also after an error
// about one of its packets.
func TestICMPErrorDoesNotEndADrainingConnection(t *testing.T) {
	b := newBed(t, testTopology())
	conn := tuple(tcp, client, 40000, webVIP, 80)
	_, back := b.run(0, frame(conn))
	b.reload(moved())
	router := packet.AddrFrom(netip.MustParseAddr(routerAddr))
	front, _ := b.run(1, quoteError(router, back[0], 1500, packet.TooBig, 1400))
	one(t, front)
	_, back = b.run(0, frame(conn, flags(packet.TCPAck)))
	if got := one(t, back).Tuple.Dst.String(); got != back1 {
		t.Errorf("goes to %s, want %s", got, back1)
	}
}

// TestSYNLeavesARemovedBackend: the client has lost a connection to a removed endpoint and opens another from the
// same port, before and after other packets have come under the new generation.
func TestSYNLeavesARemovedBackend(t *testing.T) {
	for _, tc := range []struct {
		name  string
		first bool // an ordinary segment comes first
	}{{"at once", false}, {"after a segment", true}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			conn := tuple(tcp, client, 40000, webVIP, 80)
			b.run(0, frame(conn))
			b.reload(moved())
			if tc.first {
				_, back := b.run(0, frame(conn, flags(packet.TCPAck)))
				one(t, back)
			}
			_, back := b.run(0, frame(conn))
			if got := one(t, back).Tuple.Dst.String(); got != back2 {
				t.Errorf("new connection goes to %s, want %s", got, back2)
			}
		})
	}
}

// TestForgedSYNDoesNotEndADrainingConnection: whoever knows the ports of a connection to an endpoint that takes no new ones could
// have it forgotten by a SYN. Only a client whose endpoint is silent gets a new connection.
func TestForgedSYNDoesNotEndADrainingConnection(t *testing.T) {
	unready := func() *topology.Topology {
		o := moved()
		e := testTopology().Services[2].Endpoints[0]
		e.Ready, e.Terminating = false, true
		o.Services[2].Endpoints = append(o.Services[2].Endpoints, e)
		o.Services[2].Endpoints[1].Serving = false
		return o
	}
	refusing := func() *topology.Topology {
		o := testTopology()
		o.Services[2].SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		return o
	}
	for name, next := range map[string]func() *topology.Topology{"removed": moved, "not ready": unready, "refused by range": refusing} {
		for _, tc := range []struct {
			name   string
			change []func(*packet.Spec)
			damage bool
			answer bool // the endpoint answers with a challenge ACK
			gap    int64
			anew   bool
		}{
			{"answered", nil, false, true, 1e9, false},
			{"a flood", nil, false, false, 1e6, false},
			{"damaged on purpose", nil, true, false, 1e9, false},
			{"endpoint is dead", nil, false, false, 1e9, true},
		} {
			t.Run(name+", "+tc.name, func(t *testing.T) {
				b := newBed(t, testTopology())
				conn := tuple(tcp, client, 40000, webVIP, 80)
				reply := handshake(b, conn)
				b.reload(next())
				anew := false
				for range 8 {
					b.now += tc.gap
					f := frame(conn, numbers(7000, 0))
					if tc.damage {
						damage(f)
					}
					_, back := b.carry(0, f)
					if len(back) == 0 { // the source range refuses the new connection
						anew = true
						break
					}
					if got := tupleOf(back[0]).Dst; got != reply.Src {
						anew = true
						break
					}
					if tc.answer {
						b.run(1, frame(reply, flags(packet.TCPAck), numbers(2, 2)))
					}
				}
				if anew != tc.anew {
					t.Fatalf("a new connection: %v, want %v", anew, tc.anew)
				}
				if tc.anew {
					return
				}
				_, back := b.run(0, frame(conn, flags(packet.TCPAck|packet.TCPPsh), numbers(2, 2), payload(10)))
				if got := one(t, back).Tuple; got != reply.Reverse() {
					t.Errorf("the connection goes on as %v, want %v", got, reply.Reverse())
				}
			})
		}
	}
}

// tupleOf is the tuple of a packet that was sent, whatever its checksum is.
func tupleOf(frame []byte) packet.Tuple {
	var in packet.Info
	packet.Parse(frame, &in)
	return in.Tuple
}

// TestRetransmittedSYNStaysOnItsFlow: the source port must not change between two copies of one SYN.
func TestRetransmittedSYNStaysOnItsFlow(t *testing.T) {
	b := newBed(t, testTopology())
	conn := tuple(tcp, client, 40000, webVIP, 80)
	_, first := b.run(0, frame(conn))
	b.reload(testTopology())
	_, second := b.run(0, frame(conn))
	if a, c := one(t, first).Tuple, one(t, second).Tuple; a != c {
		t.Errorf("first %v, then %v", a, c)
	}
}

// TestUDPFlowFollowsItsAddress: the address now belongs to another service. What the flow's old service does is no
// matter.
func TestUDPFlowFollowsItsAddress(t *testing.T) {
	b := newBed(t, testTopology())
	datagram := tuple(udp, client, 40000, webVIP, 53)
	b.run(0, frame(datagram))
	topo := testTopology()
	web := &topo.Services[2]
	web.LoadBalancerIPs = nil
	other := *web
	other.Name, other.ClusterIPs, other.ExternalIPs = "other", addrs("10.96.4.13"), nil
	other.LoadBalancerIPs = addrs(webVIP)
	other.Ports = []topology.Port{{Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353}}
	other.Endpoints = []topology.Endpoint{endpoint(back2, "wk-2", map[string]uint16{"dns": 5353})}
	topo.Services = append(topo.Services, other)
	b.reload(topo)
	_, back := b.run(0, frame(datagram))
	if got := one(t, back).Tuple.Dst.String(); got != back2 {
		t.Errorf("goes to %s, want %s", got, back2)
	}
}

// TestUDPToAnUnreadyEndpoint: publish_not_ready_addresses makes an endpoint ready that does not serve.
func TestUDPToAnUnreadyEndpoint(t *testing.T) {
	topo := testTopology()
	topo.Services[2].Endpoints[0].Serving = false
	b := newBed(t, topo)
	for range 2 {
		_, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
		one(t, back)
	}
}

// TestLastWordsOfARemovedBackend: its answer must not reach the client with the wrong source by way of the kernel.
func TestLastWordsOfARemovedBackend(t *testing.T) {
	b := newBed(t, testTopology())
	_, back := b.run(0, frame(tuple(udp, podClient, 40000, webIP, 53)))
	reply := one(t, back).Tuple.Reverse()
	b.reload(moved())
	front, back := b.run(1, frame(reply))
	if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(reason.NoFlow) != 1 {
		t.Errorf("%d sent, %d punted", len(front)+len(back), len(b.punted))
	}
}

// TestNoFlowForWhatCannotLeave: what is answered with an error takes no room in the flow table.
func TestNoFlowForWhatCannotLeave(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.MTU = 1400 })
	b.run(0, frame(tuple(udp, client, 40000, webVIP, 53), ttl(1)))
	b.run(0, frame(tuple(udp, client, 40000, webVIP, 53), payload(1400)))
	if b.counters.Packets(reason.TTLExceeded) != 1 || b.counters.Packets(reason.TooBig) != 1 {
		t.Error("not counted")
	}
	if live := b.flows.Stats().Live; live != 0 {
		t.Errorf("%d flows", live)
	}
}

// TestErrorsOfTheRouter: a packet that cannot leave is answered from the service's address, or from the gateway's own
// when it is for a host beyond.
func TestErrorsOfTheRouter(t *testing.T) {
	b := newBed(t, testTopology())
	_, back := b.run(0, frame(tuple(tcp, podClient, 40000, webIP, 80)))
	reply := one(t, back).Tuple.Reverse()
	front, _ := b.run(0, frame(tuple(tcp, podClient, 40000, webIP, 80), flags(packet.TCPAck), ttl(1)))
	if got := one(t, front).Tuple.Src.String(); got != webIP {
		t.Errorf("towards the client from %s, want %s", got, webIP)
	}
	_, back = b.run(1, frame(reply, flags(packet.TCPAck), ttl(1)))
	if got := one(t, back).Tuple.Src.String(); got != gateway {
		t.Errorf("towards the backend from %s, want %s", got, gateway)
	}
}

// TestForgedICMPError: it quotes a packet of a flow, but is not sent to the address that this packet came from.
func TestForgedICMPError(t *testing.T) {
	b := newBed(t, testTopology())
	_, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
	router := packet.AddrFrom(netip.MustParseAddr(routerAddr))
	forged := quoteError(router, back[0], 1500, packet.PortUnreachable, 0)
	var in packet.Info
	packet.Parse(forged, &in)
	vip := packet.AddrFrom(netip.MustParseAddr(webVIP)).V4()
	copy(forged[in.L3+16:], []byte{byte(vip >> 24), byte(vip >> 16), byte(vip >> 8), byte(vip)})
	forged[in.L3+10], forged[in.L3+11] = 0, 0
	check := ^packet.Sum(forged[in.L3:in.L4], 0)
	forged[in.L3+10], forged[in.L3+11] = byte(check>>8), byte(check)
	front, back := b.run(1, forged)
	if len(front)+len(back) != 0 || b.counters.Packets(reason.UnrelatedICMP) != 1 {
		t.Errorf("%d sent, %d unrelated", len(front)+len(back), b.counters.Packets(reason.UnrelatedICMP))
	}
}

// TestNeighbourDiscoveryIsTheKernels, even when it asks for a service address.
func TestNeighbourDiscoveryIsTheKernels(t *testing.T) {
	b := newBed(t, testTopology())
	solicit := func(s *packet.Spec) { s.ICMPType, s.TTL = 135, 255 }
	b.run(0, frame(tuple(packet.ProtoICMPv6, client6, 0, webIP6, 0), payload(16), solicit))
	if len(b.punted) != 1 {
		t.Errorf("%d punted", len(b.punted))
	}
}

// TestResolveIsAskedAgain when the first request was turned away, though no other packet comes.
func TestResolveIsAskedAgain(t *testing.T) {
	b := newBed(t, testTopology())
	b.hops = hops(2, func(h *fib.NextHop) { h.State = fib.Incomplete })
	b.refuse = true
	b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
	if len(b.resolved) != 0 {
		t.Fatal("the request was to be turned away")
	}
	b.refuse = false
	for range 3 {
		b.now += 5e6
		b.p.Tick(b.snap, b.now)
	}
	if len(b.resolved) != 1 || b.resolved[0].Gateway.String() != back1 {
		t.Errorf("asked for %+v, want %s once", b.resolved, back1)
	}
}
