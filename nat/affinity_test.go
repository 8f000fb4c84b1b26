package nat_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

const second = int64(time.Second)

// sticky returns an edit that gives cart session affinity, and endpoints 10.66.1.1 to 10.66.1.n, of which the first
// two are on this node.
func sticky(n int, timeout time.Duration) func(*topology.Topology, *topology.Service) {
	return func(_ *topology.Topology, s *topology.Service) {
		s.SessionAffinity, s.AffinityTimeout, s.Endpoints = true, timeout, nil
		for i := range n {
			e := endpoint(fmt.Sprintf("10.66.1.%d", i+1), "wk-7")
			if i < 2 {
				e.Node = "gw-a"
			}
			s.Endpoints = append(s.Endpoints, e)
		}
	}
}

// affinityBed opens flows under generations of one topology.
type affinityBed struct {
	t     *testing.T
	pins  *nat.Affinity
	table *nat.Table
	now   int64
	down  []string
	svc   topology.Service
	top   *topology.Topology
}

func newAffinityBed(t *testing.T, edits ...func(*topology.Topology, *topology.Service)) *affinityBed {
	b := &affinityBed{t: t, pins: nat.NewAffinity(1024, 7), top: gateway(), svc: cart(), now: 100 * second}
	b.change(edits...)
	return b
}

// change compiles the next generation, of a fresh topology.
func (b *affinityBed) change(edits ...func(*topology.Topology, *topology.Service)) {
	b.t.Helper()
	and(edits...)(b.top, &b.svc)
	top := *b.top
	svc := b.svc
	svc.Endpoints = append([]topology.Endpoint(nil), svc.Endpoints...)
	top.Services = []topology.Service{svc}
	b.table = compile(b.t, &top, nat.CompileOptions{TableSize: 251, Previous: b.table, Down: down(b.down...)})
}

// endpointOf returns an edit of the endpoint with an address.
func endpointOf(addr string, change func(*topology.Endpoint)) func(*topology.Topology, *topology.Service) {
	return func(_ *topology.Topology, s *topology.Service) {
		for i := range s.Endpoints {
			if s.Endpoints[i].Address.String() == addr {
				change(&s.Endpoints[i])
			}
		}
	}
}

// decide opens a flow.
func (b *affinityBed) decide(proto uint8, src string, sport uint16, dst string, port uint16) nat.Decision {
	tu := tuple(proto, src, sport, dst, port)
	return b.table.Stick(b.pins, b.table.Decide(&tu, nat.Origin{}), &tu, b.now)
}

// web opens a flow from a client outside to the VIP and returns the address of its backend.
func (b *affinityBed) web(sport uint16) string {
	b.t.Helper()
	d := b.decide(overTCP, outside, sport, vip, 8088)
	if d.Verdict != nat.Forward {
		b.t.Fatalf("%s (%s)", d.Verdict, d.Reason)
	}
	return d.Backend.AddrPort.Addr().String()
}

// grow lets the set of backends become one in which the first choice of the client is another than addr.
func (b *affinityBed) grow(addr string) {
	b.t.Helper()
	for n := 4; n < 60; n++ {
		b.change(sticky(n, time.Duration(b.timeout())))
		tu := tuple(overTCP, outside, 1, vip, 8088)
		if d := b.table.Decide(&tu, nat.Origin{}); d.Backend.AddrPort.Addr().String() != addr {
			return
		}
	}
	b.t.Fatal("the first choice did not move")
}

func (b *affinityBed) timeout() int64 { return int64(b.svc.AffinityTimeout) }

// TestAffinitySticky: source port and the address used do not matter.
func TestAffinitySticky(t *testing.T) {
	b := newAffinityBed(t, sticky(3, 3*time.Hour))
	want := b.web(1000)
	b.grow(want)
	b.now += 5 * second
	for _, dst := range []struct {
		addr string
		port uint16
	}{{vip, 8088}, {external, 8088}, {clusterIP, 8088}, {thisNode, 31234}} {
		d := b.decide(overTCP, outside, 2000, dst.addr, dst.port)
		if d.Backend.AddrPort.Addr().String() != want || d.Pin != nat.PinnedOld || d.Verdict != nat.Forward {
			t.Errorf("to %s: %v (pin %d), want %s", dst.addr, d.Backend.AddrPort, d.Pin, want)
		}
	}
}

// TestAffinitySliding: each new flow renews the pin; at exactly the timeout it is over.
func TestAffinitySliding(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps []int64 // nanoseconds between the flows
		stays bool
	}{
		{"renewed", []int64{8 * second, 8 * second, 8 * second}, true},
		{"a moment before the timeout", []int64{10*second - 1}, true},
		{"at the timeout", []int64{10 * second}, false},
		{"after it", []int64{8 * second, 8 * second, 11 * second}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newAffinityBed(t, sticky(3, 10*time.Second))
			first := b.web(1000)
			b.grow(first)
			var last string
			for i, step := range tt.steps {
				b.now += step
				last = b.web(2000 + uint16(i))
			}
			if (last == first) != tt.stays {
				t.Errorf("first at %s, at last %s; stays must be %v", first, last, tt.stays)
			}
		})
	}
}

// TestAffinityDefaultTimeout: three hours.
func TestAffinityDefaultTimeout(t *testing.T) {
	b := newAffinityBed(t, sticky(3, 0))
	first := b.web(1000)
	b.grow(first)
	b.now += 10800*second - 1
	if got := b.web(1001); got != first {
		t.Errorf("goes to %s before the timeout, want %s", got, first)
	}
	b.now += 10800 * second
	if got := b.web(1002); got == first {
		t.Errorf("still pinned to %s", got)
	}
}

// TestAffinityTimeoutChanges: the timeout of now counts, also for pins from before.
func TestAffinityTimeoutChanges(t *testing.T) {
	b := newAffinityBed(t, sticky(3, time.Hour))
	b.web(1000)
	b.now += 20 * second
	b.change(func(_ *topology.Topology, s *topology.Service) { s.AffinityTimeout = 10 * time.Second })
	if d := b.decide(overTCP, outside, 2000, vip, 8088); d.Pin != nat.PinnedNew {
		t.Errorf("pin %d, want a new one", d.Pin)
	}
}

// TestAffinityNewPort: a port that joins a service whose clients stick as a whole has their pins.
func TestAffinityNewPort(t *testing.T) {
	var ports []topology.Port
	b := newAffinityBed(t, sticky(3, time.Hour), func(_ *topology.Topology, s *topology.Service) {
		s.AffinityPerService, ports, s.Ports = true, s.Ports, s.Ports[:1]
	})
	first := b.web(1000)
	b.grow(first)
	b.change(func(_ *topology.Topology, s *topology.Service) { s.Ports = ports })
	d := b.decide(overUDP, outside, 2000, vip, 53)
	if got := d.Backend.AddrPort.Addr().String(); got != first || d.Pin != nat.PinnedOld || b.web(2001) != first {
		t.Errorf("dns at %s (pin %d), want %s", got, d.Pin, first)
	}
}

// TestAffinityEndpointGone: a pin to a backend that takes no new flows while others do is void at once, and stays so when
// the backend returns.
func TestAffinityEndpointGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		gone func(*affinityBed, string)
	}{
		{"removed", func(b *affinityBed, addr string) {
			b.change(func(_ *topology.Topology, s *topology.Service) {
				for i := range s.Endpoints {
					if s.Endpoints[i].Address.String() == addr {
						s.Endpoints = append(s.Endpoints[:i:i], s.Endpoints[i+1:]...)
						return
					}
				}
			})
		}},
		{"not ready", func(b *affinityBed, addr string) {
			b.change(endpointOf(addr, func(e *topology.Endpoint) { e.Ready, e.Serving = false, false }))
		}},
		{"terminating and serving", func(b *affinityBed, addr string) {
			b.change(endpointOf(addr, func(e *topology.Endpoint) { e.Ready, e.Terminating = false, true }))
		}},
		{"no weight", func(b *affinityBed, addr string) {
			b.change(endpointOf(addr, func(e *topology.Endpoint) { e.Weight = 0 }))
		}},
		{"down", func(b *affinityBed, addr string) { b.down = []string{addr}; b.change() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newAffinityBed(t, sticky(3, 3*time.Hour))
			first := b.web(1000)
			tt.gone(b, first)
			d := b.decide(overTCP, outside, 2000, vip, 8088)
			second := d.Backend.AddrPort.Addr().String()
			if second == first || d.Pin != nat.PinnedNew {
				t.Fatalf("goes to %s (pin %d), whence %s was to be gone", second, d.Pin, first)
			}
			b.down = nil
			b.change(sticky(3, 3*time.Hour))
			if got := b.web(3000); got != second {
				t.Errorf("goes to %s when it is back, want the new pin %s", got, second)
			}
		})
	}
}

// TestAffinityDraining: the last endpoints, all on their way out, keep their clients; with a ready one they lose them.
func TestAffinityDraining(t *testing.T) {
	b := newAffinityBed(t, sticky(3, 3*time.Hour))
	first := b.web(1000)
	for i := range 3 {
		addr := fmt.Sprintf("10.66.1.%d", i+1)
		b.change(endpointOf(addr, func(e *topology.Endpoint) { e.Ready, e.Terminating = false, true }))
	}
	if got := b.web(1001); got != first {
		t.Errorf("goes to %s, want %s: all are terminating", got, first)
	}
	b.change(func(_ *topology.Topology, s *topology.Service) {
		s.Endpoints = append(s.Endpoints, endpoint("10.66.1.99", "wk-7"))
	})
	if got := b.web(1002); got != "10.66.1.99" {
		t.Errorf("goes to %s, want the ready endpoint", got)
	}
}

// TestAffinityLocal: it holds inside the Local set (kubernetes/kubernetes#55429).
func TestAffinityLocal(t *testing.T) {
	b := newAffinityBed(t, sticky(6, 3*time.Hour), etpLocal)
	first := b.web(1000)
	for sport := range uint16(20) {
		if got := b.web(2000 + sport); got != first {
			t.Fatalf("goes to %s, want %s", got, first)
		}
	}
	// Through the ClusterIP the same pin holds, because the endpoint is in that set as well.
	d := b.decide(overTCP, outside, 3000, clusterIP, 8088)
	if d.Backend.AddrPort.Addr().String() != first || d.Pin != nat.PinnedOld {
		t.Errorf("to the clusterip: %v, want %s", d.Backend.AddrPort, first)
	}
	// A pin to an endpoint elsewhere does not hold in the Local set.
	b.change(endpointOf(first, func(e *topology.Endpoint) { e.Node = "wk-9" }))
	if got := b.web(3001); got == first {
		t.Errorf("goes to %s, which is not local any more", got)
	}
}

// TestAffinityScope: pins belong to a service port, or to the service.
func TestAffinityScope(t *testing.T) {
	for _, tt := range []struct {
		name       string
		perService bool
	}{{"port", false}, {"service", true}} {
		t.Run(tt.name, func(t *testing.T) {
			scope := func(_ *topology.Topology, s *topology.Service) { s.AffinityPerService = tt.perService }
			b := newAffinityBed(t, sticky(3, 3*time.Hour), scope)
			web := b.web(1000)
			b.grow(web)
			d := b.decide(overUDP, outside, 1000, vip, 53)
			dns := d.Backend.AddrPort.Addr().String()
			if tt.perService && dns != web || d.Backend.Port != 5353 || (d.Pin == nat.PinnedOld) != tt.perService {
				t.Errorf("web at %s, dns at %v (pin %d)", web, d.Backend.AddrPort, d.Pin)
			}
		})
	}
}

// TestAffinityPerServiceChoosesAlike: also without pins the ports of a service choose one address for a client.
func TestAffinityPerServiceChoosesAlike(t *testing.T) {
	perService := func(_ *topology.Topology, s *topology.Service) { s.AffinityPerService = true }
	b := newAffinityBed(t, sticky(5, 3*time.Hour), perService)
	for i := range 100 {
		src := fmt.Sprintf("203.0.113.%d", i+1)
		web, dns := tuple(overTCP, src, 1, vip, 8088), tuple(overUDP, src, 2, vip, 53)
		x, y := b.table.Decide(&web, nat.Origin{}), b.table.Decide(&dns, nat.Origin{})
		if x.Backend.Addr != y.Backend.Addr {
			t.Errorf("%s: web %v, dns %v", src, x.Backend.AddrPort, y.Backend.AddrPort)
		}
	}
}

// TestAffinityPerServiceTwoPortsOfOneAddress: two endpoints share an address; the pin then means the very endpoint at its
// own port of the service.
func TestAffinityPerServiceTwoPortsOfOneAddress(t *testing.T) {
	b := newAffinityBed(t, sticky(1, 3*time.Hour), func(_ *topology.Topology, s *topology.Service) {
		s.AffinityPerService = true
		twin := endpoint("10.66.1.1", "wk-7")
		twin.Ports = map[string]uint16{"web": 9091}
		s.Endpoints = append(s.Endpoints, twin)
	})
	seen := map[uint16]bool{}
	for i := range 50 {
		src := fmt.Sprintf("203.0.113.%d", i+1)
		first := b.decide(overTCP, src, 1, vip, 8088).Backend
		if again := b.decide(overTCP, src, 2, vip, 8088).Backend; again != first {
			t.Fatalf("%s: %v, then %v", src, first.AddrPort, again.AddrPort)
		}
		if dns := b.decide(overUDP, src, 1, vip, 53).Backend; dns.Addr != first.Addr {
			t.Fatalf("%s: dns at %v", src, dns.AddrPort)
		}
		seen[first.Port] = true
	}
	if !seen[9090] || !seen[9091] {
		t.Errorf("ports %v, want both", seen)
	}
}

// TestAffinityWithoutPins: with the table lost before each flow, a client still has one backend, while clients spread.
func TestAffinityWithoutPins(t *testing.T) {
	b := newAffinityBed(t, sticky(4, 3*time.Hour))
	seen := map[string]bool{}
	for i := range 50 {
		src := fmt.Sprintf("203.0.113.%d", i+1)
		first := b.decide(overTCP, src, 1, vip, 8088).Backend
		seen[first.AddrPort.String()] = true
		for sport := range uint16(20) {
			b.pins = nat.NewAffinity(64, rand.Uint64())
			if got := b.decide(overTCP, src, sport, vip, 8088).Backend; got != first {
				t.Fatalf("%s goes to %v, want %v", src, got.AddrPort, first.AddrPort)
			}
		}
	}
	if len(seen) != 4 {
		t.Errorf("50 clients use %d backends, want 4", len(seen))
	}
	b.pins = nil
	if d := b.decide(overTCP, outside, 1, vip, 8088); d.Verdict != nat.Forward || d.Pin != nat.Unpinned {
		t.Errorf("without a table: %s, pin %d", d.Verdict, d.Pin)
	}
}

// TestAffinityOffAndOn: without affinity nothing is pinned, and what was pinned before it was off is forgotten.
func TestAffinityOffAndOn(t *testing.T) {
	b := newAffinityBed(t, sticky(3, 3*time.Hour))
	first := b.web(1000)
	b.grow(first)
	if got := b.web(1001); got != first {
		t.Fatalf("goes to %s, want the pin %s", got, first)
	}
	b.change(func(_ *topology.Topology, s *topology.Service) { s.SessionAffinity = false })
	seen := map[string]bool{}
	for sport := range uint16(100) {
		d := b.decide(overTCP, outside, sport, vip, 8088)
		if seen[d.Backend.AddrPort.String()] = true; d.Pin != nat.Unpinned {
			t.Fatalf("pin %d without affinity", d.Pin)
		}
	}
	if len(seen) < 2 {
		t.Error("one client's flows do not spread without affinity")
	}
	b.change(func(_ *topology.Topology, s *topology.Service) { s.SessionAffinity = true })
	if d := b.decide(overTCP, outside, 1, vip, 8088); d.Pin != nat.PinnedNew {
		t.Errorf("pin %d, want a new one after affinity was off", d.Pin)
	}
}

// TestAffinityHairpin: the decision is made for the pinned backend, not for the first choice.
func TestAffinityHairpin(t *testing.T) {
	b := newAffinityBed(t, sticky(1, 3*time.Hour))
	if d := b.decide(overTCP, "10.66.1.1", 1, clusterIP, 8088); d.Reason != reason.Hairpin || !d.SNAT {
		t.Fatalf("%s, snat %v, want a hairpin", d.Reason, d.SNAT)
	}
	for n := 2; n < 60; n++ { // until the first choice is another
		b.change(sticky(n, 3*time.Hour))
		tu := tuple(overTCP, "10.66.1.1", 1, clusterIP, 8088)
		if d := b.table.Decide(&tu, nat.Origin{}); d.Reason == reason.Hairpin {
			continue
		}
		d := b.decide(overTCP, "10.66.1.1", 2, clusterIP, 8088)
		if d.Reason != reason.Hairpin || !d.SNAT || d.SNATAddr.String() != ourV4 {
			t.Errorf("%s, snat %v, want the hairpin that is pinned", d.Reason, d.SNAT)
		}
		return
	}
	t.Fatal("the first choice did not move")
}

// TestAffinityLeavesOthersAlone: a decision without a backend stays as it is.
func TestAffinityLeavesOthersAlone(t *testing.T) {
	b := newAffinityBed(t, sticky(1, 3*time.Hour))
	for dst, want := range map[string]nat.Verdict{"10.112.9.9": nat.Drop, clusterIP: nat.Reject, anyPod: nat.Pass} {
		if d := b.decide(overTCP, outside, 1, dst, unknown); d.Verdict != want || d.Pin != nat.Unpinned {
			t.Errorf("to %s: %s, pin %d, want %s", dst, d.Verdict, d.Pin, want)
		}
	}
}

// TestAffinityStorm crowds a table of 8 pins: the oldest gives way, every client keeps getting an answer, and those that
// keep coming keep their pins.
func TestAffinityStorm(t *testing.T) {
	b := newAffinityBed(t, sticky(3, 3*time.Hour))
	b.pins = nat.NewAffinity(1, 7)
	first := b.web(1)
	b.grow(first)
	for i := range 10000 {
		b.now++
		src := netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String()
		if d := b.decide(overTCP, src, 1, vip, 8088); d.Verdict != nat.Forward || d.Pin != nat.PinnedNew {
			t.Fatalf("%s: %s, pin %d", src, d.Verdict, d.Pin)
		}
		if i%5 == 0 {
			if got := b.web(2); got != first {
				t.Fatalf("after %d others the client is at %s, want %s", i, got, first)
			}
		}
	}
	for i := range 8 { // as many others as there are places
		b.now++
		b.decide(overTCP, fmt.Sprintf("198.19.0.%d", i), 1, vip, 8088)
	}
	if d := b.decide(overTCP, outside, 3, vip, 8088); d.Pin != nat.PinnedNew {
		t.Errorf("pin %d: the oldest pin was to go", d.Pin)
	}
}

func TestAffinitySize(t *testing.T) {
	for pins, want := range map[int]int{0: 8, 1: 8, 8: 8, 9: 16, 16: 16, 17: 32, 1000: 1024, nat.AffinityPins: 65536} {
		if got := nat.AffinitySize(nat.NewAffinity(pins, 1)); got != want {
			t.Errorf("%d pins: room for %d, want %d", pins, got, want)
		}
	}
}

// TestAffinityRace lets workers of different generations, that have different first choices, pin one client at once: all
// must end with one backend.
func TestAffinityRace(t *testing.T) {
	const workers, rounds = 8, 2000
	pins := nat.NewAffinity(1, 7) // one bucket: clients crowd each other out as well
	for round := range rounds {
		key := nat.AffinityKey(pins, packet.Addr{Lo: uint64(round)})
		results := make([]uint32, workers)
		var start, done sync.WaitGroup
		start.Add(1)
		for w := range workers {
			done.Go(func() {
				start.Wait()
				results[w] = nat.AffinityInsert(pins, key, uint32(w+1), int64(round))
			})
		}
		start.Done()
		done.Wait()
		for w, got := range results {
			if got != results[0] {
				t.Fatalf("round %d: worker %d has backend %d, worker 0 %d", round, w, got, results[0])
			}
		}
		if n := nat.AffinityCount(pins, key); n != 1 {
			t.Fatalf("round %d: %d pins", round, n)
		}
	}
}

// TestAffinityMarks: a pin that another worker has not made valid yet does not count, and gives way.
func TestAffinityMarks(t *testing.T) {
	for slot := range 8 {
		pins := nat.NewAffinity(1, 7)
		key := nat.AffinityKey(pins, packet.Addr{Lo: 1})
		nat.AffinityMark(pins, key, slot, 5)
		if got := nat.AffinityInsert(pins, key, 6, 1); got != 6 || nat.AffinityCount(pins, key) != 1 {
			t.Errorf("slot %d: pinned to %d by %d pins, want 6 by one", slot, got, nat.AffinityCount(pins, key))
		}
		if got := nat.AffinityInsert(pins, key, 7, 1); got != 6 {
			t.Errorf("slot %d: pinned anew to %d, want 6", slot, got)
		}
	}
}

// TestAffinityMarksEverywhere: where all places are being written the new pin takes one of them.
func TestAffinityMarksEverywhere(t *testing.T) {
	pins := nat.NewAffinity(1, 7)
	for slot := range 8 {
		nat.AffinityMark(pins, nat.AffinityKey(pins, packet.Addr{Lo: uint64(100 + slot)}), slot, 5)
	}
	key := nat.AffinityKey(pins, packet.Addr{Lo: 1})
	if got := nat.AffinityInsert(pins, key, 6, 1); got != 6 || nat.AffinityCount(pins, key) != 1 {
		t.Errorf("pinned to %d by %d pins, want 6 by one", got, nat.AffinityCount(pins, key))
	}
}

// TestAffinityModel compares a table with room for all with a map, over random flows, times and sets.
func TestAffinityModel(t *testing.T) {
	const timeout = 10 * second
	type pin struct {
		backend string
		used    int64
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	b := newAffinityBed(t, sticky(6, time.Duration(timeout)))
	model := map[string]pin{}
	for step := range 20000 {
		b.now += rnd.Int64N(second / 10)
		if step%100 == 0 { // another set: some are not ready, at least one is
			ready := 1 + rnd.IntN(1<<6-1)
			b.change(func(_ *topology.Topology, s *topology.Service) {
				for i := range s.Endpoints {
					s.Endpoints[i].Ready = ready>>i&1 == 1
				}
			})
		}
		src := fmt.Sprintf("203.0.113.%d", rnd.IntN(60))
		d := b.decide(overTCP, src, uint16(step), vip, 8088)
		got := d.Backend.AddrPort.String()
		usable := map[string]bool{}
		for _, c := range d.Candidates {
			usable[c.AddrPort.String()] = true
		}
		old, ok := model[src]
		held := ok && b.now-old.used < timeout && usable[old.backend]
		if held != (d.Pin == nat.PinnedOld) || held && got != old.backend || !usable[got] {
			t.Fatalf("step %d, %s: %s (pin %d) of %v; the model has %v, held %v", step, src, got, d.Pin, usable, old, held)
		}
		model[src] = pin{got, b.now}
	}
}

// TestAffinityConcurrent has many workers use few clients while pins expire: nobody gets what is not in the set.
func TestAffinityConcurrent(t *testing.T) {
	b := newAffinityBed(t, sticky(5, time.Second))
	b.pins = nat.NewAffinity(16, 7)
	var done sync.WaitGroup
	for w := range 4 {
		done.Go(func() {
			now := 100 * second
			for i := range 5000 {
				now += second / 3 * int64(i%5)
				tu := tuple(overTCP, fmt.Sprintf("203.0.113.%d", (i*7+w)%40), uint16(i), vip, 8088)
				d := b.table.Stick(b.pins, b.table.Decide(&tu, nat.Origin{}), &tu, now)
				if d.Verdict != nat.Forward || d.Backend == nil || d.Pin == nat.Unpinned {
					t.Errorf("%s, backend %v, pin %d", d.Verdict, d.Backend, d.Pin)
					return
				}
			}
		})
	}
	done.Wait()
}

func TestStickAllocates(t *testing.T) {
	for _, perService := range []bool{false, true} {
		scope := func(_ *topology.Topology, s *topology.Service) { s.AffinityPerService = perService }
		b := newAffinityBed(t, sticky(5, time.Hour), scope)
		tu := tuple(overTCP, outside, 1, vip, 8088)
		if n := testing.AllocsPerRun(100, func() {
			tu.Src.Lo++ // new pins, and the next time old ones
			for range 2 {
				if d := b.table.Stick(b.pins, b.table.Decide(&tu, nat.Origin{}), &tu, b.now); d.Verdict != nat.Forward {
					t.Fatal(d.Verdict)
				}
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
