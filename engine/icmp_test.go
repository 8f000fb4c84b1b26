package engine

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"testing"

	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// quoteError builds an ICMP error from router to the sender of a packet, quoting length bytes of its IP packet.
func quoteError(from packet.Addr, quoted []byte, length int, e packet.Error, mtu uint16) []byte {
	var in packet.Info
	packet.Parse(quoted, &in)
	buf := make([]byte, 2048)
	copy(buf[128:], quoted)
	start, end, ok := packet.BuildError(buf, 128, 128+in.L3+min(length, in.End-in.L3), truncated(&in, length), e, from, mtu)
	if !ok {
		panic("no room")
	}
	copy(buf[start:], frontMAC[:]) // whoever the packet was sent by or to
	return buf[start:end]
}

// truncated is in as if the packet ended after length bytes.
func truncated(in *packet.Info, length int) *packet.Info {
	c := *in
	c.End = min(c.End, c.L3+length)
	return &c
}

// TestICMPErrorTowardsTheClient has a router and the backend itself complain about a packet that we sent to a backend.
func TestICMPErrorTowardsTheClient(t *testing.T) {
	for _, tc := range []struct {
		name    string
		client  packet.Tuple
		router  string // "" for the backend itself
		length  int    // of the quote
		e       packet.Error
		wantSrc string
	}{
		{"router, full nat, whole packet", tuple(udp, client, 40000, webVIP, 53), routerAddr, 1500, packet.TooBig, routerAddr},
		{"router, full nat, 28 bytes", tuple(udp, client, 40000, webVIP, 53), routerAddr, 28, packet.TooBig, routerAddr},
		{"backend, full nat", tuple(udp, client, 40000, webVIP, 53), "", 1500, packet.PortUnreachable, webVIP},
		{"router, tcp", tuple(tcp, client, 40000, webVIP, 80), routerAddr, 1500, packet.TimeExceeded, routerAddr},
		{"router, tcp cut off before its checksum", tuple(tcp, client, 40000, webVIP, 80), routerAddr, 28, packet.TimeExceeded, routerAddr},
		{"router, source kept", tuple(tcp, client, 40000, localVIP, 80), routerAddr, 1500, packet.HostUnreachable, routerAddr},
		{"backend, source kept", tuple(udp, client, 40000, localVIP, 53), "", 1500, packet.PortUnreachable, localVIP},
		{"router, ipv6", tuple(udp, client6, 40000, webIP6, 53), "2001:db8:f::1", 1500, packet.TooBig, "2001:db8:f::1"},
		{"backend, ipv6", tuple(udp, client6, 40000, webIP6, 53), "", 1500, packet.PortUnreachable, webIP6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			sent := frame(tc.client)
			_, back := b.run(0, append([]byte(nil), sent...))
			translated := one(t, back)
			router := translated.Tuple.Dst
			if tc.router != "" {
				router = packet.AddrFrom(netip.MustParseAddr(tc.router))
			}
			front, _ := b.run(1, quoteError(router, back[0], tc.length, tc.e, 1400))
			out := one(t, front)
			if out.Tuple.Src.String() != tc.wantSrc || out.Tuple.Dst != tc.client.Src {
				t.Errorf("error goes %v > %v, want %s > %v", out.Tuple.Src, out.Tuple.Dst, tc.wantSrc, tc.client.Src)
			}
			var quote packet.Info
			if s := packet.ParseQuote(front[0], &out, &quote); s != packet.OK || quote.Tuple != tc.client {
				t.Fatalf("quotes %v (%v), want %v", quote.Tuple, s, tc.client)
			}
			wantMTU := uint16(0)
			if tc.e == packet.TooBig {
				wantMTU = 1400
			}
			if got := binary.BigEndian.Uint16(front[0][out.L4+6:]); got != wantMTU {
				t.Errorf("MTU %d, want %d", got, wantMTU)
			}
			verifyQuote(t, front[0], &quote)
			if b.counters.Packets(reason.RelatedICMP) != 1 {
				t.Error("not counted as related_icmp")
			}
		})
	}
}

// verifyQuote checks the quoted IPv4 header, and the quoted transport checksum when the quote is whole.
func verifyQuote(t *testing.T, frame []byte, quote *packet.Info) {
	t.Helper()
	// The gateway decremented the TTL of what it sent; the quote shows that, with a right header checksum.
	if !packet.VerifyIP(frame, quote) {
		t.Error("quoted header checksum is wrong")
	}
	size := int(binary.BigEndian.Uint16(frame[quote.L3+2:]))
	if quote.Family == 4 && size == quote.End-quote.L3 && !packet.VerifyL4(frame, quote) {
		t.Error("quoted transport checksum is wrong")
	}
	if quote.Family == 6 && quote.End-quote.L3 >= 51 && !packet.VerifyL4(frame, quote) {
		t.Error("quoted transport checksum is wrong")
	}
}

// TestICMPErrorTowardsTheBackend has a router on the client's side complain about a reply.
func TestICMPErrorTowardsTheBackend(t *testing.T) {
	for _, tc := range []struct {
		name   string
		client packet.Tuple
	}{
		{"full nat", tuple(tcp, client, 40000, webVIP, 80)},
		{"source kept", tuple(tcp, client, 40000, localVIP, 80)},
		{"ipv6", tuple(tcp, client6, 40000, webIP6, 80)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			_, back := b.run(0, frame(tc.client))
			reply := one(t, back).Tuple.Reverse()
			front, _ := b.run(1, frame(reply, flags(packet.TCPSyn|packet.TCPAck)))
			one(t, front)
			router := packet.AddrFrom(netip.MustParseAddr(routerAddr))
			if !tc.client.Src.Is4() {
				router = packet.AddrFrom(netip.MustParseAddr("2001:db8:f::1"))
			}
			_, back = b.run(0, quoteError(router, front[0], 1500, packet.TooBig, 1400))
			out := one(t, back)
			if out.Tuple.Src != router || out.Tuple.Dst != reply.Src {
				t.Errorf("error goes %v > %v, want %v > %v", out.Tuple.Src, out.Tuple.Dst, router, reply.Src)
			}
			var quote packet.Info
			if s := packet.ParseQuote(back[0], &out, &quote); s != packet.OK || quote.Tuple != reply {
				t.Errorf("quotes %v (%v), want %v", quote.Tuple, s, reply)
			}
			verifyQuote(t, back[0], &quote)
		})
	}
}

// TestICMPErrorsThatAreNot covers errors that must not be translated.
func TestICMPErrorsThatAreNot(t *testing.T) {
	router := packet.AddrFrom(netip.MustParseAddr(routerAddr))
	untracked := frame(tuple(udp, webVIP, 53, client, 40000))
	damaged := func(f []byte) []byte { f[len(f)-1] ^= 1; return f }
	gre := quoteError(router, untracked, 1500, packet.TooBig, 1400)
	var in packet.Info
	packet.Parse(gre, &in)
	gre[in.L4+8+9] = 47
	packet.Complete(gre, &in)
	for _, tc := range []struct {
		name  string
		frame []byte
		why   reason.Reason
	}{
		{"quotes no flow", quoteError(router, untracked, 1500, packet.TooBig, 1400), reason.UnrelatedICMP},
		{"quotes another protocol", gre, reason.BadICMP},
		{"quotes nothing", quoteError(router, untracked, 0, packet.TooBig, 1400), reason.BadICMP},
		{"quotes half a header", quoteError(router, untracked, 12, packet.TooBig, 1400), reason.BadICMP},
		{"quotes no ports", quoteError(router, untracked, 24, packet.TooBig, 1400), reason.BadICMP},
		{"to the node itself", quoteError(router, frame(tuple(udp, gateway, 9, client, 9)), 1500, packet.TooBig, 1400), reason.NotOurs},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, testTopology())
			front, back := b.run(0, tc.frame)
			if len(front)+len(back) != 0 || b.counters.Packets(tc.why) != 1 {
				t.Errorf("%d packets sent, %d counted as %v", len(front)+len(back), b.counters.Packets(tc.why), tc.why)
			}
		})
	}
	t.Run("damaged", func(t *testing.T) {
		b := newBed(t, testTopology())
		_, back := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53)))
		front, _ := b.run(1, damaged(quoteError(router, back[0], 1500, packet.TooBig, 1400)))
		if len(front) != 0 || b.counters.Packets(reason.BadICMP) != 1 {
			t.Errorf("%d packets sent", len(front))
		}
	})
}

// TestICMPVector is a fragmentation-needed error whose checksums were computed elsewhere: C 192.0.2.10, V 203.0.113.5, B1
// 10.0.0.7, R 198.51.100.1; the quote has 28 bytes, an inner length of 1500, id 4242 hex, DF, TTL 60, sequence 1000.
func TestICMPVector(t *testing.T) {
	topo := testTopology()
	svc := &topo.Services[1]
	svc.LoadBalancerIPs, svc.Endpoints[0].Address = addrs("203.0.113.5"), netip.MustParseAddr("10.0.0.7")
	topo.Services = topo.Services[1:2]
	b := newBed(t, topo)
	_, _ = b.run(0, frame(tuple(tcp, client, 40000, "203.0.113.5", 80)))
	raw, err := hex.DecodeString("020000000002020000000001" + "0800" +
		"45000038123440004001" + "0000" + "c6336401" + "cb007105" + // R > V
		"0304" + "570b" + "00000578" +
		"450005dc424240003c06" + "f8c9" + "cb007105" + "c000020a" + "00509c40" + "000003e8") // V:80 > C:40000
	if err != nil {
		t.Fatal(err)
	}
	check := ^packet.Sum(raw[14:34], 0)
	binary.BigEndian.PutUint16(raw[24:], check)
	front, back := b.run(0, raw)
	got := append(front, back...)
	one(t, got)
	f := got[0]
	if c := binary.BigEndian.Uint16(f[36:]); c != 0x37cb {
		t.Errorf("ICMP checksum %04x, want 37cb", c)
	}
	if c := binary.BigEndian.Uint16(f[52:]); c != 0x2ac9 {
		t.Errorf("inner header checksum %04x, want 2ac9", c)
	}
	if p := binary.BigEndian.Uint16(f[62:]); p != 8080 {
		t.Errorf("inner source port %d, want 8080", p)
	}
}

// TestRejectVector is the ICMP port unreachable for a UDP packet, whose checksum was computed elsewhere; it quotes
// the whole packet.
func TestRejectVector(t *testing.T) {
	topo := testTopology()
	topo.Services[2].Endpoints = nil
	b := newBed(t, topo)
	front, _ := b.run(0, frame(tuple(udp, client, 40000, webVIP, 53), func(s *packet.Spec) { s.ID = 0x1234 }))
	one(t, front)
	if c := binary.BigEndian.Uint16(front[0][36:]); c != 0xfb29 {
		t.Errorf("ICMP checksum %04x, want fb29", c)
	}
}
