package engine

import (
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/engine/control"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// sweepBed is a bed whose snapshots a controller builds, with a sweeper over its flows.
type sweepBed struct {
	*bed
	controller *control.Controller
	sweeper    *sweeper
}

func newSweepBed(t *testing.T, topo *topology.Topology, o control.Options) *sweepBed {
	t.Helper()
	b := &sweepBed{bed: newBed(t, topo)}
	o.Log, o.Published = slog.New(slog.DiscardHandler), func(*control.Snapshot) {
		if b.sweeper != nil {
			b.sweeper.notify()
		}
	}
	var err error
	if b.controller, err = control.New(topo, o); err != nil {
		t.Fatal(err)
	}
	b.sweeper = newSweeper(b.flows, b.controller, b.p.Stale, func() int64 { return b.now })
	t.Cleanup(b.sweeper.handle.Close)
	b.snap = b.controller.Current()
	b.pass(0)
	return b
}

// apply publishes another topology, without a sweep.
func (b *sweepBed) apply(topo *topology.Topology) {
	b.t.Helper()
	if err := b.controller.Apply(topo); err != nil {
		b.t.Fatal(err)
	}
	b.snap = b.controller.Current()
}

// pass sweeps after some time.
func (b *sweepBed) pass(after time.Duration) {
	b.now += int64(after)
	b.sweeper.pass(func(time.Duration) bool { return true })
	b.snap = b.controller.Current()
}

// has reports whether a flow with a tuple is in the table.
func (b *sweepBed) has(tu packet.Tuple) bool {
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	_, _, ok := b.p.Flows.Lookup(&tu)
	return ok
}

// TestSweeperPurges flows in which no packet comes any more, or only the client's, as soon as a generation without their
// endpoint is there; connections stay.
func TestSweeperPurges(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*topology.Topology)
		purged bool
	}{
		{"endpoint removed", func(t *topology.Topology) { *t = *moved() }, true},
		{"scaled to zero", func(t *topology.Topology) { t.Services[2].Endpoints = nil }, true},
		{"service deleted", func(t *topology.Topology) { t.Services = t.Services[:2] }, true},
		{"endpoint not serving", func(t *topology.Topology) {
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Serving = false, false
		}, true},
		{"endpoint terminating", func(t *topology.Topology) {
			t.Services[2].Endpoints[0].Ready, t.Services[2].Endpoints[0].Terminating = false, true
		}, false},
		{"nothing", func(*topology.Topology) {}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newSweepBed(t, testTopology(), control.Options{})
			oneWay, twoWay := tuple(udp, client, 40000, webVIP, 53), tuple(udp, client, 40001, gateway, webNodePort+1)
			other, conn := tuple(udp, client, 40002, localVIP, 53), tuple(tcp, client, 40000, webVIP, 80)
			b.run(0, frame(oneWay), frame(other), frame(conn))
			_, back := b.run(0, frame(twoWay))
			b.run(1, frame(one(t, back).Tuple.Reverse()))
			next := testTopology()
			tc.change(next)
			b.apply(next)
			b.pass(0)
			for _, tu := range []packet.Tuple{oneWay, twoWay} {
				if b.has(tu) == tc.purged {
					t.Errorf("%v is there: %v", tu, !tc.purged)
				}
			}
			if !b.has(conn) {
				t.Error("the connection is gone")
			}
			if !b.has(other) {
				t.Error("another service's flow is gone")
			}
			want := uint64(0)
			if tc.purged {
				want = 2
			}
			if got := b.p.Stale.Purged(); got != want {
				t.Errorf("%d purged, want %d", got, want)
			}
		})
	}
}

// TestHealthPurgesLikeRemoval: an endpoint that fails its health check loses its UDP flows, and no connections, even where
// those of endpoints that leave are reset.
func TestHealthPurgesLikeRemoval(t *testing.T) {
	down := false
	topo := resetting(moved())
	topo.Services[2].Endpoints = append(topo.Services[2].Endpoints, testTopology().Services[2].Endpoints...)
	b := newSweepBed(t, topo, control.Options{Down: func(_, _ string, a netip.AddrPort) bool {
		return down && a.Addr().String() == back1
	}})
	var onFirst []packet.Tuple
	for port := uint16(40000); len(onFirst) < 2; port++ {
		for _, tu := range []packet.Tuple{tuple(udp, client, port, webVIP, 53), tuple(tcp, client, port, webVIP, 80)} {
			_, back := b.run(0, frame(tu))
			has := func(o packet.Tuple) bool { return o.Proto == tu.Proto }
			if one(t, back).Tuple.Dst.String() == back1 && !slices.ContainsFunc(onFirst, has) {
				onFirst = append(onFirst, tu)
			}
		}
	}
	down = true
	b.apply(topo)
	b.pass(0)
	for _, tu := range onFirst {
		if b.has(tu) != (tu.Proto == tcp) {
			t.Errorf("%v is there: %v", tu, b.has(tu))
		}
		_, back := b.run(0, frame(tu, flags(packet.TCPAck)))
		in := one(t, back)
		if toFirst := in.Tuple.Dst.String() == back1; toFirst != (tu.Proto == tcp) || tu.Proto == tcp && in.TCPFlags&packet.TCPRst != 0 {
			t.Errorf("%v goes to %v with flags %#x", tu, in.Tuple.Dst, in.TCPFlags)
		}
	}
}

// TestLateReplies: what an endpoint still sends after its client has been moved to another must not be routed to the client
// from the endpoint's own address, however the flow was found out to be stale.
func TestLateReplies(t *testing.T) {
	datagram := tuple(udp, podClient, 40000, webIP, 53) // a pod's source is kept
	for _, tc := range []struct {
		name string
		stir func(*sweepBed)
	}{
		{"swept", func(b *sweepBed) { b.pass(0) }},
		{"by the client's next datagram", func(b *sweepBed) { b.run(0, frame(datagram)) }},
		{"by the first late reply", func(*sweepBed) {}},
		{"swept, and the client has moved", func(b *sweepBed) { b.pass(0); b.run(0, frame(datagram)) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newSweepBed(t, testTopology(), control.Options{})
			_, back := b.run(0, frame(datagram))
			reply := one(t, back).Tuple.Reverse()
			b.apply(moved())
			tc.stir(b)
			for range 3 {
				front, back := b.run(1, frame(reply))
				if len(front)+len(back)+len(b.punted) != 0 {
					t.Fatalf("%d sent, %d punted", len(front)+len(back), len(b.punted))
				}
				b.now += lateFor * int64(time.Second)
			}
			if n := b.counters.Packets(reason.NoFlow); n != 3 {
				t.Errorf("%d counted, want 3", n)
			}
			_, back = b.run(0, frame(datagram))
			if got := one(t, back).Tuple.Dst.String(); got != back2 {
				t.Fatalf("client goes to %s, want %s", got, back2)
			}
			front, _ := b.run(1, frame(one(t, back).Tuple.Reverse()))
			if got := one(t, front).Tuple; got != datagram.Reverse() {
				t.Errorf("the new endpoint's reply is %v, want %v", got, datagram.Reverse())
			}
			stranger := reply
			stranger.DstPort++
			b.run(1, frame(stranger))
			b.now += 2 * lateFor * int64(time.Second)
			b.run(1, frame(reply))
			if len(b.punted) != 2 {
				t.Errorf("%d punted, want a stranger's and one after a long silence", len(b.punted))
			}
		})
	}
}

// TestSweeperSparesWhatIsNewerThanItsWalk: while it walks, a generation brings endpoints that those before did not have, and flows
// are opened to them.
func TestSweeperSparesWhatIsNewerThanItsWalk(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	for i := range uint16(600) { // more than one step
		b.run(0, frame(tuple(udp, client, 1000+i, webVIP, 53)))
	}
	none := testTopology()
	none.Services[2].Endpoints = nil
	b.apply(none)
	b.sweeper.step = 0
	late := tuple(udp, client, 40000, webVIP, 53)
	var reply packet.Tuple
	b.sweeper.pass(func(time.Duration) bool {
		if reply.Proto == 0 {
			b.apply(moved())
			for i := range uint16(600) { // in the place of those that were purged, and behind the others
				b.run(0, frame(tuple(udp, client, 2000+i, webVIP, 53)))
			}
			_, back := b.run(0, frame(late))
			reply = one(t, back).Tuple.Reverse()
		}
		return true
	})
	if n := b.p.Stale.Purged(); n != 600 {
		t.Errorf("%d purged, want the 600 that have lost their endpoint", n)
	}
	front, _ := b.run(1, frame(reply))
	if got := one(t, front).Tuple; got != late.Reverse() {
		t.Errorf("the reply is %v, want %v", got, late.Reverse())
	}
}

// TestOldConnectionsLastWords: a client uses its port again while the backend of the connection before is still sending. Where the
// client's address is kept that must not be routed to it untranslated.
func TestOldConnectionsLastWords(t *testing.T) {
	conn := tuple(tcp, podClient, 40000, webIP, 80) // a pod's source is kept
	other := func() *topology.Topology {
		o := testTopology()
		o.Services[2].Endpoints[0].Ready, o.Services[2].Endpoints[0].Serving = false, false
		o.Services[2].Endpoints = append(o.Services[2].Endpoints, moved().Services[2].Endpoints...)
		return o
	}
	for _, tc := range []struct {
		name string
		next func() *topology.Topology
		stir func(b *sweepBed, reply packet.Tuple)
	}{
		{"over, then its endpoint is not ready", other, func(b *sweepBed, reply packet.Tuple) {
			fin := flags(packet.TCPAck | packet.TCPFin)
			b.run(0, frame(conn, fin, numbers(2, 2)))
			b.run(1, frame(reply, fin, numbers(2, 3)))
			b.run(0, frame(conn))
		}},
		{"aborted, then its endpoint is not ready", other, func(b *sweepBed, _ packet.Tuple) {
			b.run(0, frame(conn, flags(packet.TCPRst), numbers(2, 0)))
			b.run(0, frame(conn))
		}},
		{"to be reset, but the client is first", func() *topology.Topology { return resetting(moved()) },
			func(b *sweepBed, _ packet.Tuple) {
				for range 3 {
					b.now += 2e9
					b.run(0, frame(conn, numbers(1000, 0)))
				}
			}},
		{"reset, but the RST was lost", func() *topology.Topology { return resetting(moved()) },
			func(b *sweepBed, reply packet.Tuple) {
				b.run(1, frame(reply, flags(packet.TCPAck), numbers(2, 2)))
				b.now += int64(b.snap.Topology.Conntrack.Timeouts.TCPClose) + 1e9
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newSweepBed(t, testTopology(), control.Options{})
			reply := handshake(b.bed, conn)
			b.apply(tc.next())
			tc.stir(b, reply)
			before := b.counters.Packets(reason.NoFlow)
			front, back := b.run(1, frame(reply, flags(packet.TCPAck|packet.TCPFin), numbers(2, 2)))
			if len(front)+len(back)+len(b.punted) != 0 || b.counters.Packets(reason.NoFlow) != before+1 {
				t.Errorf("%d sent, %d punted", len(front)+len(back), len(b.punted))
			}
		})
	}
}

// TestOneTalkativeBackendKeepsOnlyItself among what has departed, through any number of generations.
func TestOneTalkativeBackendKeepsOnlyItself(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	_, back := b.run(0, frame(tuple(udp, podClient, 40000, webIP, 53)))
	late := one(t, back).Tuple.Reverse()
	for i := range 20 {
		topo := testTopology()
		topo.Services = topo.Services[2:]
		e := &topo.Services[0].Endpoints[0]
		e.Address = netip.MustParseAddr("10.64.1.1")
		for range i {
			e.Address = e.Address.Next()
		}
		b.apply(topo)
		b.pass(0)
		b.run(1, frame(late))
		b.pass(lateFor * time.Second / 2)
	}
	d := b.snap.Departed.Backends
	if !slices.Contains(d, xdp.Backend{Addr: netip.MustParseAddr(back1), Proto: udp, Port: 5353}) {
		t.Error("the backend that still sends is forgotten")
	}
	if len(d) > 10 {
		t.Errorf("%d backends are kept after 20 generations: %v", len(d), d)
	}
	if len(b.punted) != 0 {
		t.Errorf("%d late packets go on as they are", len(b.punted))
	}
}

// TestSweeperForgetsDepartedBackends, as soon as they have had neither flows nor late packets for some time, and not before.
func TestSweeperForgetsDepartedBackends(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	conn, datagram := tuple(tcp, podClient, 40000, webIP, 80), tuple(udp, podClient, 40000, webIP, 53)
	reply := handshake(b.bed, conn)
	_, back := b.run(0, frame(datagram))
	late := one(t, back).Tuple.Reverse()
	topo := moved()
	topo.Services[1].Endpoints = nil // of the other service on the same endpoint
	b.apply(topo)
	departed := func(proto uint8, port uint16) bool {
		return slices.Contains(b.snap.Departed.Backends, xdp.Backend{Addr: netip.MustParseAddr(back1), Proto: proto, Port: port})
	}
	const all = lateFor * time.Second
	expect := func(when string, tcpLeft, udpLeft bool) {
		t.Helper()
		if departed(tcp, 8080) != tcpLeft || departed(udp, 5353) != udpLeft {
			t.Errorf("%s: departed %v, want tcp %v, udp %v", when, b.snap.Departed, tcpLeft, udpLeft)
		}
	}
	b.pass(0)
	b.pass(all - time.Second)
	expect("before its time", true, true)
	b.run(1, frame(late))
	b.pass(time.Second)
	expect("after a late packet", true, true)
	b.pass(all)
	expect("after silence", true, false)
	b.run(1, frame(reply, flags(packet.TCPRst), numbers(2, 0)))
	b.pass(time.Second)
	expect("while the last connection closes", true, false)
	b.pass(all - time.Second)
	expect("soon after it", true, false)
	b.pass(time.Second)
	expect("after the last connection", false, false)
	b.apply(topo)
	b.pass(0)
	if len(b.sweeper.idle) != 0 {
		t.Errorf("keeps %v", b.sweeper.idle)
	}
}

// TestSweeperForgetsDepartedAddresses: a connection to an address or a NodePort that the service does not have any longer goes
// on, so that its packets must come to us until it has ended.
func TestSweeperForgetsDepartedAddresses(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	replies := map[string]packet.Tuple{}
	for name, conn := range map[string]packet.Tuple{
		"vip": tuple(tcp, client, 40000, webVIP, 80), "node port": tuple(tcp, client, 40000, gateway, webNodePort),
	} {
		replies[name] = handshake(b.bed, conn)
	}
	next := testTopology()
	web := &next.Services[2]
	web.LoadBalancerIPs, web.ExternalIPs = nil, nil
	web.Ports[0].NodePort, web.Ports[1].NodePort = 0, 0
	b.apply(next)
	expect := func(when string, services []netip.Addr, ports ...xdp.ProtoPort) {
		t.Helper()
		if d := &b.snap.Departed; !slices.Equal(d.Services, services) || !slices.Equal(d.NodePorts, ports) {
			t.Errorf("%s: departed %v %v, want %v %v", when, d.Services, d.NodePorts, services, ports)
		}
	}
	const all = lateFor * time.Second
	tcpPort, udpPort := xdp.ProtoPort{Proto: tcp, Port: webNodePort}, xdp.ProtoPort{Proto: udp, Port: webNodePort + 1}
	b.pass(0)
	expect("at first", addrs(webExt, webVIP), tcpPort, udpPort)
	b.pass(all)
	expect("with connections", addrs(webVIP), tcpPort)
	b.run(1, frame(replies["vip"], flags(packet.TCPRst), numbers(2, 0)))
	b.pass(all)
	expect("with one connection", nil, tcpPort)
	b.run(1, frame(replies["node port"], flags(packet.TCPRst), numbers(2, 0)))
	b.pass(all)
	expect("without", nil)
}

// TestSweeperForgetsDepartedNodePortAddresses: the same for an address that serves no NodePorts any longer.
func TestSweeperForgetsDepartedNodePortAddresses(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	conn := tuple(tcp, client, 40000, gateway, webNodePort)
	reply := handshake(b.bed, conn)
	next := testTopology()
	next.Gateway.NodePortAddresses = nil
	b.apply(next)
	expect := func(when string, want ...string) {
		t.Helper()
		if got := b.snap.Departed.NodePortAddrs; !slices.Equal(got, addrs(want...)) {
			t.Errorf("%s: departed %v, want %v", when, got, want)
		}
		for _, a := range addrs(want...) {
			if !slices.Contains(b.snap.Rules.NodePortAddrs, a) {
				t.Errorf("%s: %v is not among the rules", when, a)
			}
		}
	}
	b.pass(0)
	expect("at first", gateway, gateway6)
	_, back := b.run(0, frame(conn, flags(packet.TCPAck), numbers(2, 2)))
	if got := one(t, back).Tuple; got != reply.Reverse() {
		t.Errorf("goes on as %v", got)
	}
	b.pass(lateFor * time.Second)
	expect("with a connection", gateway)
	b.run(1, frame(reply, flags(packet.TCPRst), numbers(2, 0)))
	b.pass(lateFor * time.Second)
	expect("without")
	b.apply(testTopology())
	if !slices.Equal(b.snap.Rules.NodePortAddrs, addrs(gateway, gateway6)) {
		t.Errorf("once they are back: %v", b.snap.Rules.NodePortAddrs)
	}
}

// TestSweeperWalksOncePerGeneration, in steps, and begins anew when one was cut short.
func TestSweeperWalksOncePerGeneration(t *testing.T) {
	topo := testTopology()
	topo.Gateway.MasqueradeAll = true // so that no backend departs
	topo.Services = topo.Services[2:]
	b := newSweepBed(t, topo, control.Options{})
	const flows = 600
	for i := range uint16(flows) {
		b.run(0, frame(tuple(udp, client, 1000+i, webVIP, 53)))
	}
	b.sweeper.step = 0
	rests := 0
	rest := func(time.Duration) bool { rests++; return true }
	b.sweeper.pass(rest)
	if rests != 0 {
		t.Fatal("walks without a change")
	}
	next := testTopology()
	next.Gateway.MasqueradeAll, next.Services = true, nil
	b.apply(next)
	b.sweeper.pass(func(time.Duration) bool { return false })
	if n := b.p.Stale.Purged(); n == 0 || n == flows {
		t.Fatalf("%d purged by the first step of a walk that was cut short", n)
	}
	b.sweeper.pass(rest)
	if n := b.p.Stale.Purged(); n != flows || rests < 2 || b.flows.Stats().Live != 0 {
		t.Fatalf("%d purged with %d rests", n, rests)
	}
	b.pass(lateFor * time.Second) // and the service's addresses are forgotten
	rests = 0
	b.sweeper.pass(rest)
	if rests != 0 {
		t.Error("walks again without a change")
	}
}

// TestSweeperRuns in the background: told of a generation, or of many at once.
func TestSweeperRuns(t *testing.T) {
	b := newSweepBed(t, testTopology(), control.Options{})
	b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { b.sweeper.run(ctx); close(done) }()
	for range 10 {
		b.apply(moved())
	}
	for end := time.Now().Add(10 * time.Second); b.p.Stale.Purged() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not swept")
		}
	}
	cancel()
	<-done
}

// TestStaleIsBounded: however many flows are purged, the place of what is remembered is the same, and nothing is
// taken for late that is not.
func TestStaleIsBounded(t *testing.T) {
	s := NewStale()
	b := newBed(t, testTopology())
	b.run(0, frame(tuple(udp, podClient, 40000, webIP, 53)))
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	forward := tuple(udp, podClient, 40000, webIP, 53)
	f, _, _ := b.p.Flows.Lookup(&forward)
	reply := f.Tuple(1)
	if n := testing.AllocsPerRun(100, func() { s.remember(f, b.now); s.isLate(&reply, b.now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !s.isLate(&reply, b.now+lateFor*1e9) || s.isLate(&reply, b.now+(2*lateFor+1)*1e9) {
		t.Error("remembered for another time")
	}
	late := 0
	for i := range uint16(60000) {
		other := reply
		other.DstPort = i
		if other != reply && s.isLate(&other, b.now) {
			late++
		}
	}
	tcpReply := reply
	tcpReply.Proto = tcp
	if late != 0 || s.isLate(&tcpReply, b.now) {
		t.Errorf("%d others are taken for late", late)
	}
}

// BenchmarkSweep is a walk over flows that all go on.
func BenchmarkSweep(b *testing.B) {
	topo := testTopology()
	topo.Conntrack.MaxFlows = 1 << 17
	const flows = 100_000
	bed := newBed(b, topo)
	var meta conntrack.Meta
	for p := range bed.snap.NAT.Ports() {
		if p.Proto == udp && p.Service.Name == "web" {
			meta.Service, meta.Backend = p.ID, p.Backends()[0].ID
		}
	}
	bed.p.Flows.Enter(bed.now)
	for i := range flows {
		forward := tuple(udp, client, uint16(i), webVIP, 53)
		forward.Src.Lo += uint64(i >> 16)
		reply := tuple(udp, back1, 5353, client, uint16(i))
		reply.Dst = forward.Src
		if f, _, _ := bed.p.Flows.Insert(&forward, &reply, meta); f == nil {
			b.Fatal("no room")
		}
	}
	bed.p.Flows.Leave()
	s := &sweeper{flows: bed.flows, handle: bed.flows.Register(), stale: bed.p.Stale, step: stepTime,
		now: func() int64 { return bed.now }}
	for b.Loop() {
		s.walk(bed.snap, func(time.Duration) bool { return true })
	}
	if bed.flows.Stats().Live != flows {
		b.Fatalf("%d flows left", bed.flows.Stats().Live)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/flows, "ns/flow")
}
