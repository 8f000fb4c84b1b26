package conntrack_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/xdp/packet"
)

// model is what the table should be: a map, with states told from what has been seen rather than stepped through.
type model struct {
	flows map[packet.Tuple]*modelFlow
	to    topology.Timeouts
	tick  int64
}

type modelFlow struct {
	tuples                       [2]packet.Tuple
	id                           uint32
	seen                         int64
	packets                      [2]uint64
	answered, confirmed, aborted bool // SYN from the backend, ACK after it, RST
	fins                         [2]bool
	replied                      bool
}

func (f *modelFlow) packet(d conntrack.Direction, flags uint8, now int64) {
	f.packets[d]++
	before := *f
	f.follow(d, flags)
	idle := f.tuples[0].Proto == packet.ProtoTCP && (before.aborted || flags&(fin|rst) != 0 || before.confirmed && flags&syn != 0)
	if !idle || f.state() != before.state() {
		f.seen = now
	}
}

// state is what a change of which shows that the flow goes on.
func (f *modelFlow) state() [5]bool {
	return [5]bool{f.answered, f.confirmed, f.aborted, f.fins[0], f.fins[1]}
}

func (f *modelFlow) follow(d conntrack.Direction, flags uint8) {
	f.replied = f.replied || d == rep
	f.aborted = f.aborted || flags&rst != 0
	if f.tuples[0].Proto != packet.ProtoTCP || f.aborted || f.fins[0] && f.fins[1] {
		return
	}
	f.confirmed = f.confirmed || f.answered && d == fwd && flags&(syn|ack) == ack
	f.answered = f.answered || d == rep && flags&syn != 0
	f.fins[d] = f.fins[d] || f.confirmed && flags&fin != 0
}

func (f *modelFlow) timeout(to topology.Timeouts) time.Duration {
	switch proto := f.tuples[0].Proto; {
	case proto == packet.ProtoICMP:
		return to.ICMP
	case proto == packet.ProtoUDP && f.replied:
		return to.UDPStream
	case proto == packet.ProtoUDP:
		return to.UDP
	case f.aborted:
		return to.TCPClose
	case f.fins[0] && f.fins[1]:
		return to.TCPTimeWait
	case f.fins[0] || f.fins[1]:
		return to.TCPHalfClosed
	case f.confirmed:
		return to.TCPEstablished
	}
	return to.TCPSyn
}

// lookup returns the flow that has key, nil when there is none or it has expired. Within one tick before its end
// a flow may have expired or not: unsure.
func (m *model) lookup(key packet.Tuple, now int64) (f *modelFlow, unsure bool) {
	f = m.flows[key]
	if f == nil {
		return nil, false
	}
	if left := int64(f.timeout(m.to)) - (now - f.seen); left < 0 {
		m.remove(f)
		return nil, false
	} else if left < m.tick {
		return f, true
	}
	return f, false
}

func (m *model) remove(f *modelFlow) {
	delete(m.flows, f.tuples[0])
	delete(m.flows, f.tuples[1])
}

// driver runs random operations on a table and the model.
type driver struct {
	t       *testing.T
	r       *rand.Rand
	tab     *conntrack.Table
	handles []*conntrack.Handle
	h       *conntrack.Handle
	m       *model
	now     int64
	nextID  uint32
}

// tuple returns one of 48 tuples.
func (d *driver) tuple(proto uint8) packet.Tuple {
	return packet.Tuple{Src: packet.Addr4(0xc6120001), Dst: packet.Addr4(0xcb007105),
		SrcPort: uint16(d.r.IntN(16)), DstPort: 80, Proto: proto}
}

func (d *driver) proto() uint8 {
	return []uint8{packet.ProtoTCP, packet.ProtoUDP, packet.ProtoICMP}[d.r.IntN(3)]
}

// find compares a lookup, settles what the model is unsure of, and returns both answers.
func (d *driver) find(key packet.Tuple) (*conntrack.Flow, conntrack.Direction, *modelFlow) {
	f, dir, ok := d.h.Lookup(&key)
	want, unsure := d.m.lookup(key, d.now)
	if unsure && !ok {
		d.m.remove(want)
		want = nil
	}
	if ok != (want != nil) {
		d.t.Fatalf("lookup of %v: found %v, want %v", key, ok, want != nil)
	}
	if ok {
		d.compare(f, want)
		if want.tuples[dir] != key {
			d.t.Fatalf("lookup of %v: direction %v of %v", key, dir, want.tuples)
		}
	}
	return f, dir, want
}

func (d *driver) compare(f *conntrack.Flow, want *modelFlow) {
	for dir := range want.tuples {
		p, b := f.Counters(conntrack.Direction(dir))
		if f.Tuple(conntrack.Direction(dir)) != want.tuples[dir] || f.Meta().Backend != want.id ||
			p != want.packets[dir] || b != 100*p {
			d.t.Fatalf("flow %d %v: is %d %v with %d packets, %d bytes, want %d packets", want.id, want.tuples[dir],
				f.Meta().Backend, f.Tuple(conntrack.Direction(dir)), p, b, want.packets[dir])
		}
	}
}

func (d *driver) insert() {
	proto := d.proto()
	a, b := d.tuple(proto), d.tuple(proto)
	d.find(a) // settles what is unsure
	d.find(b)
	have, _ := d.m.lookup(a, d.now)
	taken, _ := d.m.lookup(b, d.now)
	want := conntrack.Inserted
	if have != nil {
		want = conntrack.Exists
	} else if taken != nil || a == b {
		want = conntrack.Clash
	}
	d.nextID++
	f, dir, r := d.h.Insert(&a, &b, conntrack.Meta{Backend: d.nextID})
	if r != want {
		d.t.Fatalf("insert of %v, %v: %v, want %v", a, b, r, want)
	}
	switch r {
	case conntrack.Exists:
		d.compare(f, have)
		if have.tuples[dir] != a {
			d.t.Fatalf("insert of %v: exists in direction %v of %v", a, dir, have.tuples)
		}
	case conntrack.Inserted:
		n := &modelFlow{tuples: [2]packet.Tuple{a, b}, id: d.nextID, seen: d.now}
		d.m.flows[a], d.m.flows[b] = n, n
		d.compare(f, n)
	}
}

func (d *driver) packet() {
	f, dir, m := d.find(d.tuple(d.proto()))
	if f == nil {
		return
	}
	flags := []uint8{syn, syn | ack, ack, ack, ack | psh, fin | ack, rst}[d.r.IntN(7)]
	if m.tuples[0].Proto != packet.ProtoTCP {
		flags = 0
	}
	d.h.Packet(f, dir, flags, 100)
	m.packet(dir, flags, d.now)
}

func (d *driver) removeOne() {
	f, _, m := d.find(d.tuple(d.proto()))
	if f == nil {
		return
	}
	if !d.h.Remove(f) {
		d.t.Fatalf("removing flow %d: false", m.id)
	}
	d.m.remove(m)
}

// batch leaves, moves the clock and enters with any of the handles.
func (d *driver) batch() {
	d.h.Leave()
	d.now += []int64{0, 1, 1e6, 1e9, 12e9, 40e9, 4000e9}[d.r.IntN(7)]
	d.h = d.handles[d.r.IntN(len(d.handles))]
	if d.r.IntN(4) == 0 {
		d.tab.Sweep(d.h, d.now, d.r.IntN(600))
	}
	d.h.Enter(d.now)
}

// TestModel runs random operations, with a moving clock, against the map; on one chain, on few and on many.
func TestModel(t *testing.T) {
	for _, buckets := range []int{1, 4, 256} {
		for seed := range uint64(4) {
			d := driver{t: t, r: rand.New(rand.NewPCG(seed, uint64(buckets))), tab: conntrack.NewOnHeap(options(64), buckets, 1)}
			d.handles = []*conntrack.Handle{d.tab.Register(), d.tab.Register(), d.tab.Register()}
			d.m = &model{flows: map[packet.Tuple]*modelFlow{}, to: topology.DefaultTimeouts(), tick: second / 10}
			d.h = d.handles[0]
			d.h.Enter(0)
			for range 30000 {
				switch n := d.r.IntN(100); {
				case n < 30:
					d.insert()
				case n < 80:
					d.packet()
				case n < 88:
					d.removeOne()
				case n < 98:
					d.batch()
				default:
					check(t, d.tab)
				}
			}
			if s := d.tab.Stats(); s.Inserted < 1000 || s.Expired < 500 || s.Removed < 100 || s.Clashes < 100 || s.Exists < 1000 {
				t.Errorf("the run was too thin: %+v", s)
			}
		}
	}
}
