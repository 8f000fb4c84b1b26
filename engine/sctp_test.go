package engine

import (
	"encoding/binary"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/engine/control"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

const sctp = packet.ProtoSCTP

// sctpTopology has the web service on SCTP port 9899, too.
func sctpTopology() *topology.Topology {
	topo := testTopology()
	web := &topo.Services[2]
	for i := range topo.Services {
		if topo.Services[i].Name == "web" {
			web = &topo.Services[i]
		}
	}
	web.Ports = append(web.Ports, topology.Port{Name: "signal", Protocol: topology.SCTP, Port: 9899, TargetPort: 3868, NodePort: 30899})
	for i := range web.Endpoints {
		ports := map[string]uint16{"signal": 3868}
		for k, v := range web.Endpoints[i].Ports {
			ports[k] = v
		}
		web.Endpoints[i].Ports = ports
	}
	return topo
}

// chunk is the payload of an SCTP packet, and tag its verification tag.
func chunk(tag uint32, b ...byte) func(*packet.Spec) {
	return func(s *packet.Spec) { s.Seq, s.Payload = tag, b }
}

// initAck answers initChunk with a tag of the server's own, 0x77.
func initAck() []byte {
	b := initChunk()
	b[0], b[7] = packet.SCTPInitAck, 0x77
	return b
}

// TestSCTPAssociation opens and uses an association: full NAT, source kept, IPv6, NodePort. Every checksum on the way is verified by
// the bed.
func TestSCTPAssociation(t *testing.T) {
	for name, tu := range map[string]packet.Tuple{
		"vip": tuple(sctp, client, 40000, webVIP, 9899), "source kept": tuple(sctp, podClient, 40000, webIP, 9899),
		"ipv6": tuple(sctp, client6, 40000, webIP6, 9899), "node port": tuple(sctp, client, 40000, gateway, 30899),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, sctpTopology())
			init := frame(tu)
			if !control.Rules(b.snap.NAT).Match(init) {
				t.Error("an INIT to the service is not redirected")
			}
			_, back := b.run(0, init)
			out := one(t, back).Tuple
			if out.DstPort != 3868 {
				t.Fatalf("arrives as %v", out)
			}
			reply := frame(out.Reverse(), chunk(traceTag, initAck()...), from(backMAC))
			if !control.Rules(b.snap.NAT).Match(reply) {
				t.Error("a reply is not redirected")
			}
			front, _ := b.run(1, reply)
			if got := one(t, front).Tuple; got != tu.Reverse() {
				t.Errorf("the reply arrives as %v, want %v", got, tu.Reverse())
			}
			b.run(0, frame(tu, chunk(0x77, packet.SCTPCookieEcho, 0, 0, 8, 1, 2, 3, 4)))
			b.run(1, frame(out.Reverse(), chunk(traceTag, packet.SCTPCookieAck, 0, 0, 4), from(backMAC)))
			if got := b.stateOf(tu); got != conntrack.Associated {
				t.Errorf("state %v", got)
			}
			_, back = b.run(0, frame(tu, chunk(0x77, packet.SCTPAbort, 0, 0, 4)))
			if one(t, back); b.stateOf(tu) == conntrack.Associated {
				t.Error("an ABORT does not end the association")
			}
		})
	}
}

// stateOf returns the state of the flow of a tuple.
func (b *bed) stateOf(tu packet.Tuple) conntrack.State {
	b.t.Helper()
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	f, _, ok := b.p.Flows.Lookup(&tu)
	if !ok {
		b.t.Fatal("no flow")
	}
	return f.State()
}

// TestSCTPWithoutAssociation opens nothing but by INIT.
func TestSCTPWithoutAssociation(t *testing.T) {
	for name, c := range map[string][]byte{"data": {0, 3, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}, "abort": {6, 0, 0, 4}, "no chunk": nil} {
		b := newBed(t, sctpTopology())
		front, back := b.run(0, frame(tuple(sctp, client, 40000, webVIP, 9899), chunk(1, c...)))
		if len(front)+len(back) != 0 || b.counters.Packets(reason.NoFlow) != 1 {
			t.Errorf("%s: %d sent, %d without a flow", name, len(front)+len(back), b.counters.Packets(reason.NoFlow))
		}
	}
}

// TestSCTPChecksums: a damaged packet is dropped and not made to look sound; one that its sender left to the network card is
// completed, unless checksums are said to be right.
func TestSCTPChecksums(t *testing.T) {
	damaged := frame(tuple(sctp, client, 40000, webVIP, 9899))
	damaged[len(damaged)-1] ^= 1
	missing := frame(tuple(sctp, client, 40000, webVIP, 9899))
	var in packet.Info
	packet.Parse(missing, &in)
	clear(missing[in.L4+8 : in.L4+12])
	for _, tc := range []struct {
		name string
		f    []byte
		mode nat.ChecksumMode
		sent bool
	}{
		{"damaged", damaged, nat.Auto, false}, {"damaged, in full", damaged, nat.Full, false},
		{"missing", missing, nat.Auto, true}, {"missing, in full", missing, nat.Full, true},
		{"missing, incremental", missing, nat.Incremental, false},
	} {
		b := newBed(t, sctpTopology())
		b.p.Checksum = tc.mode
		_, back := b.run(0, tc.f)
		if (len(back) == 1) != tc.sent || (b.counters.Packets(reason.BadChecksum) == 1) == tc.sent {
			t.Errorf("%s: %d sent, %d dropped", tc.name, len(back), b.counters.Packets(reason.BadChecksum))
		}
	}
	// Somebody else's is the kernel's, whatever its checksum.
	b := newBed(t, sctpTopology())
	other := frame(tuple(sctp, client, 40000, gateway, 2905))
	other[len(other)-1] ^= 1
	if b.run(0, other); len(b.punted) != 1 {
		t.Error("not punted")
	}
}

// TestSCTPRefused: unknown ports get ICMP, also where TCP gets resets.
func TestSCTPRefused(t *testing.T) {
	topo := sctpTopology()
	topo.Gateway.RejectWith = rejectReset
	b := newBed(t, topo)
	front, _ := b.run(0, frame(tuple(sctp, client, 40000, webVIP, 1)))
	if got := one(t, front); got.ICMPType != 3 || got.ICMPCode != 3 {
		t.Errorf("answered by %d/%d", got.ICMPType, got.ICMPCode)
	}
}

// TestSCTPErrors translates an ICMP error that quotes no more than ports and verification tag.
func TestSCTPErrors(t *testing.T) {
	b := newBed(t, sctpTopology())
	tu := tuple(sctp, client, 40000, webVIP, 9899)
	_, back := b.run(0, frame(tu))
	out := back[0]
	var in packet.Info
	packet.Parse(out, &in)
	quote := out[in.L3 : in.L4+8]
	err := frame(tuple(packet.ProtoICMP, routerAddr, 0, in.Tuple.Src.String(), 0), from(backMAC), func(s *packet.Spec) {
		s.ICMPType, s.ICMPCode, s.ICMPSeq, s.Payload = 3, 4, 1400, quote
	})
	if !control.Rules(b.snap.NAT).Match(err) {
		t.Error("not redirected")
	}
	front, _ := b.run(1, err)
	got := one(t, front)
	var inner packet.Info
	if packet.ParseQuote(front[0], &got, &inner) != packet.OK || inner.Tuple != tu {
		t.Errorf("quotes %v, want %v", inner.Tuple, tu)
	}
	if tag := binary.BigEndian.Uint32(front[0][inner.L4+4:]); tag != 1 { // as in every frame here
		t.Errorf("verification tag %x", tag)
	}
}

// TestSCTPFragments are dropped, whatever way they go: the checksum covers what is in others.
func TestSCTPFragments(t *testing.T) {
	b := newBed(t, sctpTopology())
	tu := tuple(sctp, podClient, 40000, webIP, 9899)
	_, back := b.run(0, frame(tu))
	reply := one(t, back).Tuple.Reverse()
	b.run(0, pieces(frame(tu, text(3000)), 7, 1480)...)
	b.run(1, pieces(frame(reply, text(3000), from(backMAC)), 8, 1480)...)
	if n := b.counters.Packets(reason.Fragment); n != 4 || len(b.punted) != 0 {
		t.Errorf("%d dropped, %d punted", n, len(b.punted))
	}
}

// TestUDPWithoutChecksum may do without one over IPv4 only (RFC 8200 section 8.1).
func TestUDPWithoutChecksum(t *testing.T) {
	for name, tc := range map[string]struct {
		to   packet.Tuple
		sent int
	}{"ipv4": {tuple(udp, client, 40000, webVIP, 53), 1}, "ipv6": {tuple(udp, client6, 40000, webIP6, 53), 0}} {
		b := newBed(t, testTopology())
		f := frame(tc.to)
		var in packet.Info
		packet.Parse(f, &in)
		clear(f[in.L4+6 : in.L4+8])
		_, back := b.run(0, f)
		if len(back) != tc.sent || b.counters.Packets(reason.BadChecksum) != uint64(1-tc.sent) {
			t.Errorf("%s: %d sent, %d dropped", name, len(back), b.counters.Packets(reason.BadChecksum))
		}
		if tc.sent == 1 {
			if in := one(t, back); back[0][in.L4+6]|back[0][in.L4+7] != 0 {
				t.Error("it got one")
			}
		}
	}
}
