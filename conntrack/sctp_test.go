package conntrack_test

import (
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/xdp/packet"
)

// chunkStep is one SCTP packet and the state after it.
type chunkStep struct {
	d     conntrack.Direction
	chunk packet.Chunk
	want  conntrack.State
}

// Tags: packets of the client carry clientTag, which the backend has asked for.
const clientTag, backendTag = 0x11111111, 0x22222222

// chunkOf makes a packet of direction d with the right tag.
func chunkOf(d conntrack.Direction, typ uint8) packet.Chunk {
	return packet.Chunk{Type: typ, Tag: [2]uint32{clientTag, backendTag}[d]}
}

func TestSCTPStates(t *testing.T) {
	to := topology.DefaultTimeouts()
	opening := packet.Chunk{Type: packet.SCTPInit, InitiateTag: backendTag}
	initAck := chunkOf(rep, packet.SCTPInitAck)
	initAck.InitiateTag = clientTag
	right := func(d conntrack.Direction, typ uint8, want conntrack.State) chunkStep {
		return chunkStep{d, chunkOf(d, typ), want}
	}
	wrong := func(d conntrack.Direction, typ uint8, want conntrack.State) chunkStep {
		return chunkStep{d, packet.Chunk{Type: typ, Tag: 0x33333333}, want}
	}
	reflected := func(d conntrack.Direction, typ uint8, want conntrack.State) chunkStep {
		c := chunkOf(d.Other(), typ)
		c.Reflected = true
		return chunkStep{d, c, want}
	}
	handshake := []chunkStep{
		{fwd, opening, conntrack.CookieWait}, {rep, initAck, conntrack.CookieWait},
		right(fwd, packet.SCTPCookieEcho, conntrack.CookieEchoed), right(rep, packet.SCTPCookieAck, conntrack.Associated),
	}
	tests := []struct {
		name    string
		before  []chunkStep
		steps   []chunkStep
		timeout time.Duration // after the last step that prolongs the flow
		vain    int           // steps at the end that do not
	}{
		{"init", nil, handshake[:1], to.SCTPSetup, 0},
		{"init ack", nil, handshake[:2], to.SCTPSetup, 0},
		{"cookie echo", nil, handshake[:3], to.SCTPSetup, 0},
		{"handshake", nil, handshake, to.SCTP, 0},
		{"data", handshake, []chunkStep{right(fwd, packet.SCTPData, conntrack.Associated)}, to.SCTP, 0},
		{"data with another tag", handshake, []chunkStep{wrong(fwd, packet.SCTPData, conntrack.Associated)}, to.SCTP, 0},
		{"cookie ack without echo", handshake[:2], []chunkStep{
			right(rep, packet.SCTPCookieAck, conntrack.CookieWait),
		}, to.SCTPSetup, 0},
		{"cookie echo with a wrong tag", handshake[:2], []chunkStep{
			wrong(fwd, packet.SCTPCookieEcho, conntrack.CookieWait),
		}, to.SCTPSetup, 0},
		{"refused", handshake[:1], []chunkStep{right(rep, packet.SCTPAbort, conntrack.SCTPClosed)}, to.SCTPShutdown, 0},
		{"refusal with a wrong tag", handshake[:1], []chunkStep{
			wrong(rep, packet.SCTPAbort, conntrack.CookieWait),
		}, to.SCTPSetup, 1},
		{"init again in an association", handshake, []chunkStep{{fwd, opening, conntrack.Associated}}, to.SCTP, 0},
		{"shutdown", handshake, []chunkStep{right(fwd, packet.SCTPShutdown, conntrack.ShuttingDown),
			right(rep, packet.SCTPData, conntrack.ShuttingDown),
			right(rep, packet.SCTPShutdownAck, conntrack.ShuttingDown)}, to.SCTPShutdown, 0},
		{"shutdown complete", handshake, []chunkStep{right(rep, packet.SCTPShutdown, conntrack.ShuttingDown),
			right(fwd, packet.SCTPShutdownAck, conntrack.ShuttingDown),
			right(rep, packet.SCTPShutdownComplete, conntrack.SCTPClosed)}, to.SCTPShutdown, 0},
		{"shutdown complete, tag reflected", handshake, []chunkStep{right(rep, packet.SCTPShutdown, conntrack.ShuttingDown),
			reflected(rep, packet.SCTPShutdownComplete, conntrack.SCTPClosed)}, to.SCTPShutdown, 0},
		{"shutdown complete out of turn", handshake, []chunkStep{
			right(rep, packet.SCTPShutdownComplete, conntrack.Associated),
		}, to.SCTP, 0},
		{"shutdown with a wrong tag", handshake, []chunkStep{
			wrong(rep, packet.SCTPShutdown, conntrack.Associated),
		}, to.SCTP, 0},
		{"abort", handshake, []chunkStep{right(fwd, packet.SCTPAbort, conntrack.SCTPClosed)}, to.SCTPShutdown, 0},
		{"abort, tag reflected", handshake, []chunkStep{
			reflected(fwd, packet.SCTPAbort, conntrack.SCTPClosed),
		}, to.SCTPShutdown, 0},
		{"abort with a wrong tag", handshake, []chunkStep{wrong(fwd, packet.SCTPAbort, conntrack.Associated)}, to.SCTP, 1},
		{"abort with the other tag unreflected", handshake, []chunkStep{
			{fwd, chunkOf(rep, packet.SCTPAbort), conntrack.Associated}}, to.SCTP, 1},
		{"what comes after abort", handshake, []chunkStep{right(fwd, packet.SCTPAbort, conntrack.SCTPClosed),
			right(rep, packet.SCTPData, conntrack.SCTPClosed), right(rep, packet.SCTPShutdown, conntrack.SCTPClosed)}, to.SCTPShutdown, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := open(t, 10).Register()
			now := 5 * second
			h.Enter(now)
			f := mustInsert(t, h, packet.ProtoSCTP, 1)
			for i, s := range append(append([]chunkStep{}, tt.before...), tt.steps...) {
				h.Leave()
				now += second
				h.Enter(now)
				h.Chunk(f, s.d, &s.chunk, 60)
				if f.State() != s.want {
					t.Fatalf("after packet %d: %v, want %v", i, f.State(), s.want)
				}
			}
			if f.Over() != (f.State() == conntrack.SCTPClosed) {
				t.Errorf("%v: over %v", f.State(), f.Over())
			}
			h.Leave()
			lifetime(t, h, packet.ProtoSCTP, 1, now-int64(tt.vain)*second, int64(tt.timeout))
		})
	}
}

// FuzzSCTP: no order of chunks takes a flow out of its protocol's states, or out of the last one.
func FuzzSCTP(f *testing.F) {
	f.Add([]byte{0x01, 0x82, 0x0a, 0x8b, 0x00, 0x87, 0x08, 0x8e, 0x86})
	f.Add([]byte{0x06, 0x01, 0x8e, 0x46})
	tab := open(f, 10)
	f.Fuzz(func(t *testing.T, chunks []byte) {
		h := tab.Register()
		defer h.Close()
		h.Enter(second)
		defer h.Leave()
		a, b := pair(packet.ProtoSCTP, 1)
		flow, _, r := h.Insert(&a, &b, conntrack.Meta{})
		if r != conntrack.Inserted {
			t.Fatal(r)
		}
		defer h.Remove(flow)
		closed := false
		for _, c := range chunks {
			h.Chunk(flow, conntrack.Direction(c>>7), &packet.Chunk{Type: c & 15, Tag: uint32(c>>4) & 3, InitiateTag: uint32(c>>4) & 3,
				Reflected: c&0x40 != 0}, 60)
			st := flow.State()
			if st < conntrack.CookieWait || st > conntrack.SCTPClosed || closed && st != conntrack.SCTPClosed {
				t.Fatalf("%x: %v", chunks, st)
			}
			closed = st == conntrack.SCTPClosed
		}
	})
}
