package conntrack_test

import (
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TCP header flags as on the wire (RFC 9293 section 3.1).
const (
	fin = 0x01
	syn = 0x02
	rst = 0x04
	psh = 0x08
	ack = 0x10
)

// Directions, short for tables.
const (
	fwd = conntrack.Forward
	rep = conntrack.Reply
)

// step is one packet, tracked by its flags alone, and the state after it.
type step struct {
	d     conntrack.Direction
	flags uint8
	want  conntrack.State
}

func TestStates(t *testing.T) {
	to := topology.DefaultTimeouts()
	handshake := []step{{fwd, syn, conntrack.SynSent}, {rep, syn | ack, conntrack.SynRecv}, {fwd, ack, conntrack.Established}}
	tests := []struct {
		name    string
		proto   uint8
		before  []step
		steps   []step
		timeout time.Duration // after the last step that prolongs the flow
		vain    int           // steps at the end that do not
	}{
		{"syn", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent}}, to.TCPSyn, 0},
		{"repeated syn", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent}, {fwd, syn, conntrack.SynSent}}, to.TCPSyn, 0},
		{"ack without answer", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent}, {fwd, ack, conntrack.SynSent}}, to.TCPSyn, 0},
		{"syn ack", packet.ProtoTCP, nil, handshake[:2], to.TCPSyn, 0},
		{"simultaneous open", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent}, {rep, syn, conntrack.SynRecv},
			{fwd, syn | ack, conntrack.SynRecv}, {fwd, ack, conntrack.Established}}, to.TCPEstablished, 0},
		{"backend alone does not establish", packet.ProtoTCP, handshake[:2], []step{{rep, ack, conntrack.SynRecv}}, to.TCPSyn, 0},
		{"handshake", packet.ProtoTCP, nil, handshake, to.TCPEstablished, 0},
		{"data", packet.ProtoTCP, handshake, []step{{fwd, ack | psh, conntrack.Established}, {rep, ack, conntrack.Established}}, to.TCPEstablished, 0},
		{"syn on established", packet.ProtoTCP, handshake, []step{{fwd, syn, conntrack.Established}}, to.TCPEstablished, 1},
		{"challenge ack, then rst", packet.ProtoTCP, handshake, []step{{fwd, syn, conntrack.Established},
			{rep, ack, conntrack.Established}, {fwd, rst, conntrack.Closed}}, to.TCPClose, 0},
		{"client fin", packet.ProtoTCP, handshake, []step{{fwd, fin | ack, conntrack.HalfClosed}}, to.TCPHalfClosed, 0},
		{"backend fin", packet.ProtoTCP, handshake, []step{{rep, fin | ack, conntrack.HalfClosed}}, to.TCPHalfClosed, 0},
		{"fin again from the same side", packet.ProtoTCP, handshake, []step{{rep, fin | ack, conntrack.HalfClosed},
			{rep, fin | ack, conntrack.HalfClosed}}, to.TCPHalfClosed, 1},
		{"data after fin", packet.ProtoTCP, handshake, []step{{fwd, fin | ack, conntrack.HalfClosed},
			{rep, ack | psh, conntrack.HalfClosed}}, to.TCPHalfClosed, 0},
		{"both fins", packet.ProtoTCP, handshake, []step{{fwd, fin | ack, conntrack.HalfClosed},
			{rep, fin | ack, conntrack.TimeWait}, {fwd, ack, conntrack.TimeWait}}, to.TCPTimeWait, 0},
		{"first ack carries fin", packet.ProtoTCP, handshake[:2], []step{{fwd, fin | ack, conntrack.HalfClosed}}, to.TCPHalfClosed, 0},
		{"fin flood obtains no long timeout", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent},
			{fwd, fin, conntrack.SynSent}, {fwd, fin | ack, conntrack.SynSent}}, to.TCPSyn, 2},
		{"backend fin before the handshake is over", packet.ProtoTCP, handshake[:2], []step{{rep, fin | ack, conntrack.SynRecv}}, to.TCPSyn, 1},
		{"rst from client", packet.ProtoTCP, handshake, []step{{fwd, rst, conntrack.Closed}}, to.TCPClose, 0},
		{"rst from backend", packet.ProtoTCP, handshake, []step{{rep, rst | ack, conntrack.Closed}}, to.TCPClose, 0},
		{"refused", packet.ProtoTCP, nil, []step{{fwd, syn, conntrack.SynSent}, {rep, rst | ack, conntrack.Closed}}, to.TCPClose, 0},
		{"rst in time wait", packet.ProtoTCP, handshake, []step{{fwd, fin | ack, conntrack.HalfClosed},
			{rep, fin | ack, conntrack.TimeWait}, {fwd, rst, conntrack.Closed}}, to.TCPClose, 0},
		{"rst flood", packet.ProtoTCP, handshake, []step{{fwd, rst, conntrack.Closed}, {fwd, rst, conntrack.Closed},
			{rep, rst | ack, conntrack.Closed}}, to.TCPClose, 2},
		{"fin flood in time wait", packet.ProtoTCP, handshake, []step{{fwd, fin | ack, conntrack.HalfClosed},
			{rep, fin | ack, conntrack.TimeWait}, {fwd, fin | ack, conntrack.TimeWait}, {rep, fin, conntrack.TimeWait}}, to.TCPTimeWait, 2},
		{"data and fin after rst", packet.ProtoTCP, handshake, []step{{fwd, rst, conntrack.Closed},
			{rep, ack | psh, conntrack.Closed}, {rep, fin | ack, conntrack.Closed}, {fwd, syn, conntrack.Closed}}, to.TCPClose, 3},
		{"udp one way", packet.ProtoUDP, nil, []step{{fwd, 0, conntrack.UDPSingle}, {fwd, 0, conntrack.UDPSingle}}, to.UDP, 0},
		{"udp both ways", packet.ProtoUDP, nil, []step{{fwd, 0, conntrack.UDPSingle}, {rep, 0, conntrack.UDPStream},
			{fwd, 0, conntrack.UDPStream}}, to.UDPStream, 0},
		{"icmp", packet.ProtoICMP, nil, []step{{fwd, 0, conntrack.ICMP}, {rep, 0, conntrack.ICMP}}, to.ICMP, 0},
		{"icmpv6", packet.ProtoICMPv6, nil, []step{{fwd, 0, conntrack.ICMP}, {rep, 0, conntrack.ICMP}}, to.ICMP, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, 10).Register()
			now := 5 * second
			h.Enter(now)
			f := mustInsert(t, h, tt.proto, 1)
			for i, s := range append(append([]step{}, tt.before...), tt.steps...) {
				h.Leave()
				now += second
				h.Enter(now)
				h.Packet(f, s.d, s.flags, 60)
				if f.State() != s.want {
					t.Fatalf("after packet %d: %v, want %v", i, f.State(), s.want)
				}
			}
			h.Leave()
			lifetime(t, h, tt.proto, 1, now-int64(tt.vain)*second, int64(tt.timeout))
		})
	}
}

// lifetime fails the test unless flow n, last used at time used, is found for exactly timeout longer.
func lifetime(t *testing.T, h *conntrack.Handle, proto uint8, n int, used, timeout int64) {
	t.Helper()
	key, _ := pair(proto, n)
	h.Enter(used + timeout)
	if _, _, ok := h.Lookup(&key); !ok {
		t.Errorf("not found %v after the last packet", time.Duration(timeout))
	}
	h.Leave()
	h.Enter(used + timeout + 1)
	if f, _, ok := h.Lookup(&key); ok {
		t.Errorf("%v flow still found 1 ns after its timeout of %v", f.State(), time.Duration(timeout))
	}
	h.Leave()
}

func TestOver(t *testing.T) {
	handshake := []step{{fwd, syn, 0}, {rep, syn | ack, 0}, {fwd, ack, 0}}
	finished := []step{{fwd, fin | ack, 0}, {rep, fin | ack, 0}}
	tests := []struct {
		name  string
		steps []step
		want  bool
	}{
		{"syn", handshake[:1], false},
		{"established", handshake, false},
		{"half closed", append(handshake, finished[0]), false},
		{"time wait", append(handshake, finished...), true},
		{"after rst", append(handshake, step{rep, rst, 0}), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, 10).Register()
			h.Enter(second)
			f := mustInsert(t, h, packet.ProtoTCP, 1)
			for _, s := range tt.steps {
				h.Packet(f, s.d, s.flags, 60)
			}
			if got := f.Over(); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

func TestCounters(t *testing.T) {
	h := open(t, 100).Register()
	h.Enter(second)
	f := mustInsert(t, h, packet.ProtoUDP, 1)
	h.Packet(f, fwd, 0, 100)
	h.Packet(f, fwd, 0, 28)
	h.Packet(f, rep, 0, 1500)
	f.Scratch(fwd).Store(7)
	f.Scratch(rep).Store(8)
	for _, want := range []struct {
		d              conntrack.Direction
		packets, bytes uint64
	}{{fwd, 2, 128}, {rep, 1, 1500}} {
		if p, b := f.Counters(want.d); p != want.packets || b != want.bytes {
			t.Errorf("%v: %d packets, %d bytes, want %d, %d", want.d, p, b, want.packets, want.bytes)
		}
	}
	// The next user of the memory starts from zero.
	h.Remove(f)
	for range 3 {
		h.Leave()
		h.Enter(2 * second)
	}
	seen := false
	for n := range 40 {
		g := mustInsert(t, h, packet.ProtoUDP, 100+n)
		seen = seen || g == f
		for _, d := range []conntrack.Direction{fwd, rep} {
			if p, b := g.Counters(d); p != 0 || b != 0 || g.Scratch(d).Load() != 0 {
				t.Fatalf("new flow has %d packets, %d bytes, scratch %d", p, b, g.Scratch(d).Load())
			}
		}
		if g.Created() != 2*second || g.Seen() != 2*second || g.State() != conntrack.UDPSingle {
			t.Fatalf("new flow: created %d, seen %d, %v", g.Created(), g.Seen(), g.State())
		}
	}
	if !seen {
		t.Error("the removed flow's memory was not used again")
	}
}
