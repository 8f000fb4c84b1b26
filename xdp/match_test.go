package xdp_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"testing"

	"sluice/xdp"
	"sluice/xdp/packet"

	"sluice/xdp/lab/labtest"
)

func addrs(texts ...string) (out []netip.Addr) {
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

// matchRules have one of everything in both families.
func matchRules() *xdp.Rules {
	return &xdp.Rules{
		Services:      addrs("203.0.113.5", "2001:db8:5::5"),
		Ranges:        []netip.Prefix{netip.MustParsePrefix("198.19.0.0/16"), netip.MustParsePrefix("2001:db8:96::/112")},
		NodePortAddrs: addrs("198.18.0.10", "2001:db8:a::10"),
		NodePorts:     []xdp.ProtoPort{{Proto: packet.ProtoTCP, Port: 30080}, {Proto: packet.ProtoUDP, Port: 30053}},
		SNATAddrs:     addrs("198.18.0.10", "2001:db8:a::10", "198.18.0.11"),
		SNATPorts:     xdp.PortRange{First: 32768, Last: 60999},
		Backends: []xdp.Backend{
			{Addr: netip.MustParseAddr("198.18.64.1"), Proto: packet.ProtoTCP, Port: 8080},
			{Addr: netip.MustParseAddr("2001:db8:b::1"), Proto: packet.ProtoUDP, Port: 5353},
			{Addr: netip.MustParseAddr("198.18.64.1"), Proto: packet.ProtoSCTP, Port: 9},
		},
	}
}

// ip describes an IP packet for build. Addresses decide the family.
type ip struct {
	src, dst     string
	proto        uint8
	sport, dport uint16 // identifier for ICMP
	icmpType     uint8
	quote        []byte // payload of an ICMP error
	options      int    // IPv4: bytes of options; IPv6: see extensions
	extensions   []uint8
	left         uint8  // segments left of routing headers
	frag         uint16 // offset in units of eight bytes
	more         bool
	padding      int // Ethernet padding behind the packet
	tags         int
}

// bytes returns the IP packet.
func (p ip) bytes() []byte {
	l4 := binary.BigEndian.AppendUint16(nil, p.sport)
	l4 = binary.BigEndian.AppendUint16(l4, p.dport)
	l4 = append(l4, make([]byte, 4)...)
	if p.proto == packet.ProtoICMP || p.proto == packet.ProtoICMPv6 {
		l4 = []byte{p.icmpType, 0, 0, 0, byte(p.sport >> 8), byte(p.sport), 0, 1}
		l4 = append(l4, p.quote...)
	}
	src, dst := netip.MustParseAddr(p.src), netip.MustParseAddr(p.dst)
	if src.Is4() {
		return p.bytes4(src, dst, l4)
	}
	return p.bytes6(src, dst, l4)
}

func (p ip) bytes4(src, dst netip.Addr, l4 []byte) []byte {
	b := make([]byte, 20+p.options, 128)
	b[0] = 0x40 | byte(len(b)/4)
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(l4)))
	frag := p.frag
	if p.more {
		frag |= 0x2000
	}
	binary.BigEndian.PutUint16(b[6:], frag)
	b[8], b[9] = 64, p.proto
	copy(b[12:], src.AsSlice())
	copy(b[16:], dst.AsSlice())
	return append(b, l4...)
}

func (p ip) bytes6(src, dst netip.Addr, l4 []byte) []byte {
	next, chain := p.proto, []byte(nil)
	for i := len(p.extensions) - 1; i >= 0; i-- {
		h := make([]byte, 8, 16)
		h[0], next = next, p.extensions[i]
		switch next {
		case 44:
			binary.BigEndian.PutUint16(h[2:], p.frag<<3)
			if p.more {
				h[3] |= 1
			}
		case 51: // the smallest AH with an integrity value: 16 bytes
			h[1], h = 2, append(h, make([]byte, 8)...)
		default: // 16 bytes
			h[1], h = 1, append(h, make([]byte, 8)...)
			if next == 43 {
				h[3] = p.left
			}
		}
		chain = append(h, chain...)
	}
	b := make([]byte, 40, 256)
	b[0] = 0x60
	binary.BigEndian.PutUint16(b[4:], uint16(len(chain)+len(l4)))
	b[6], b[7] = next, 64
	copy(b[8:], src.AsSlice())
	copy(b[24:], dst.AsSlice())
	return append(append(b, chain...), l4...)
}

// frame returns the packet behind an Ethernet header and VLAN tags.
func (p ip) frame() []byte {
	b := []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}
	for i := range p.tags {
		if i == 0 && p.tags > 1 {
			b = append(b, 0x88, 0xa8, 0, 100)
		} else {
			b = append(b, 0x81, 0x00, 0, byte(i))
		}
	}
	body := p.bytes()
	if body[0]>>4 == 4 {
		b = append(b, 0x08, 0x00)
	} else {
		b = append(b, 0x86, 0xdd)
	}
	return append(append(b, body...), make([]byte, p.padding)...)
}

// matchCases are frames with the verdict that the rules of matchRules ask for.
func matchCases() []matchCase {
	const tcp, udp, sctp, icmp, icmp6 = packet.ProtoTCP, packet.ProtoUDP, packet.ProtoSCTP, packet.ProtoICMP, packet.ProtoICMPv6
	quote := func(p ip) []byte { return p.bytes() }
	fromSNAT := ip{src: "198.18.0.10", dst: "198.18.64.9", proto: tcp, sport: 40000, dport: 80}
	return []matchCase{
		{"service, any port", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: tcp, dport: 9}.frame(), true},
		{"service, any protocol", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: 47}.frame(), true},
		{"service, echo request", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: icmp, icmpType: 8}.frame(), true},
		{"service, later fragment", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: udp, frag: 100}.frame(), true},
		{"service, IPv6", ip{src: "2001:db8::1", dst: "2001:db8:5::5", proto: udp, dport: 1}.frame(), true},
		{"service, frame cut behind the IP header", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: tcp}.frame()[:14+20], false},
		{"service as source", ip{src: "203.0.113.5", dst: "198.18.0.1", proto: tcp, sport: 80, dport: 9}.frame(), false},
		{"service range", ip{src: "198.18.0.1", dst: "198.19.255.255", proto: tcp, dport: 1}.frame(), true},
		{"behind the service range", ip{src: "198.18.0.1", dst: "198.20.0.0", proto: tcp, dport: 1}.frame(), false},
		{"service range, IPv6", ip{src: "2001:db8::1", dst: "2001:db8:96::ffff", proto: tcp, dport: 1}.frame(), true},
		{"behind the service range, IPv6", ip{src: "2001:db8::1", dst: "2001:db8:96::1:0", proto: tcp}.frame(), false},

		{"one VLAN tag", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: tcp, tags: 1}.frame(), true},
		{"two VLAN tags", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: tcp, tags: 2}.frame(), true},
		{"three VLAN tags", ip{src: "198.18.0.1", dst: "203.0.113.5", proto: tcp, tags: 3}.frame(), false},
		{"two VLAN tags, IPv6", ip{src: "2001:db8::1", dst: "2001:db8:5::5", proto: tcp, tags: 2}.frame(), true},

		{"NodePort", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: tcp, dport: 30080}.frame(), true},
		{"NodePort behind IPv4 options", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: tcp, dport: 30080, options: 40}.frame(), true},
		{"NodePort, padded frame", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: udp, dport: 30053, padding: 18}.frame(), true},
		{"NodePort of the other protocol", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: udp, dport: 30080}.frame(), false},
		{"NodePort as source port", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: tcp, sport: 30080, dport: 22}.frame(), false},
		{"NodePort on another address", ip{src: "198.18.0.1", dst: "198.18.0.11", proto: tcp, dport: 30080}.frame(), false},
		{"NodePort, first fragment", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: tcp, dport: 30080, more: true}.frame(), true},
		{"NodePort, later fragment", ip{src: "198.18.0.1", dst: "198.18.0.10", proto: tcp, dport: 30080, frag: 1}.frame(), true},
		{"NodePort, IPv6 extensions", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{0, 43, 60}}.frame(), true},
		{"NodePort behind AH", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{0, 51}}.frame(), false},
		{"NodePort behind a routing header with segments left", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{60, 43}, left: 1}.frame(), false},
		{"NodePort, IPv6 first fragment", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{44}, more: true}.frame(), true},
		{"NodePort, IPv6 later fragment", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{44}, frag: 32}.frame(), true},
		{"NodePort behind eight extensions", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{0, 60, 60, 60, 60, 60, 60, 60}}.frame(), true},
		{"NodePort behind nine extensions", ip{src: "2001:db8::1", dst: "2001:db8:a::10", proto: tcp, dport: 30080,
			extensions: []uint8{0, 60, 60, 60, 60, 60, 60, 60, 60}}.frame(), false},
		{"service behind nine extensions", ip{src: "2001:db8::1", dst: "2001:db8:5::5", proto: tcp,
			extensions: []uint8{0, 60, 60, 60, 60, 60, 60, 60, 60}}.frame(), true},

		{"SNAT reply, first port", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: tcp, sport: 80, dport: 32768}.frame(), true},
		{"SNAT reply, last port", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: udp, sport: 80, dport: 60999}.frame(), true},
		{"below the SNAT ports", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: tcp, dport: 32767}.frame(), false},
		{"above the SNAT ports", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: tcp, dport: 61000}.frame(), false},
		{"SNAT port, SCTP", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: sctp, dport: 40000}.frame(), true},
		{"SNAT echo reply", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: icmp, icmpType: 0, sport: 40000}.frame(), true},
		{"SNAT echo reply, other identifier", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: icmp, sport: 7}.frame(), false},
		{"echo request to the SNAT address", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: icmp, icmpType: 8, sport: 40000}.frame(), false},
		{"SNAT echo reply, IPv6", ip{src: "2001:db8::9", dst: "2001:db8:a::10", proto: icmp6, icmpType: 129, sport: 40000}.frame(), true},
		{"ICMPv6 over IPv4", ip{src: "198.18.64.9", dst: "198.18.0.11", proto: icmp6, icmpType: 129, sport: 40000}.frame(), false},

		{"backend's reply", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: tcp, sport: 8080, dport: 4000}.frame(), true},
		{"backend's own connection", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: tcp, sport: 4000, dport: 8080}.frame(), false},
		{"backend's other protocol", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: udp, sport: 8080}.frame(), false},
		{"backend's reply, SCTP", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: sctp, sport: 9}.frame(), true},
		{"backend's reply, first fragment", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: tcp, sport: 8080, more: true}.frame(), true},
		{"backend's reply, later fragment", ip{src: "198.18.64.1", dst: "198.18.0.1", proto: tcp, sport: 8080, frag: 3}.frame(), true},
		{"backend's reply, IPv6", ip{src: "2001:db8:b::1", dst: "2001:db8::1", proto: udp, sport: 5353}.frame(), true},

		{"error about a packet from an SNAT port", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 3,
			quote: quote(fromSNAT)}.frame(), true},
		{"error about a packet from another port", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.10", dst: "198.18.64.9", proto: tcp, sport: 22})}.frame(), false},
		{"error about an SNAT packet, sent to another address", ip{src: "198.18.3.3", dst: "198.18.0.11", proto: icmp, icmpType: 3,
			quote: quote(fromSNAT)}.frame(), false},
		{"error about a translated ping", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 11,
			quote: quote(ip{src: "198.18.0.10", dst: "198.18.64.9", proto: icmp, icmpType: 8, sport: 40000})}.frame(), true},
		{"error about the node's own answer to a ping", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 11,
			quote: quote(ip{src: "198.18.0.10", dst: "198.18.64.9", proto: icmp, icmpType: 0, sport: 40000})}.frame(), false},
		{"error about a NodePort's answer", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.10", dst: "198.18.0.1", proto: tcp, sport: 30080})}.frame(), true},
		{"error about a packet to a backend", ip{src: "198.18.3.3", dst: "198.18.0.1", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.1", dst: "198.18.64.1", proto: tcp, sport: 4000, dport: 8080})}.frame(), true},
		{"error about a packet to a backend, IPv6", ip{src: "2001:db8::3", dst: "2001:db8::1", proto: icmp6, icmpType: 2,
			quote: quote(ip{src: "2001:db8::1", dst: "2001:db8:b::1", proto: udp, dport: 5353})}.frame(), true},
		{"error about another port of a backend", ip{src: "198.18.3.3", dst: "198.18.0.1", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.1", dst: "198.18.64.1", proto: tcp, dport: 22})}.frame(), false},
		{"error with a quote that is cut short", ip{src: "198.18.3.3", dst: "198.18.0.1", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.1", dst: "198.18.64.1", proto: tcp, dport: 8080})[:27]}.frame(), false},
		{"error about a later fragment", ip{src: "198.18.3.3", dst: "198.18.0.1", proto: icmp, icmpType: 3,
			quote: quote(ip{src: "198.18.0.1", dst: "198.18.64.1", proto: tcp, dport: 8080, frag: 5})}.frame(), false},
		{"error to a service address", ip{src: "198.18.3.3", dst: "203.0.113.5", proto: icmp, icmpType: 3}.frame(), true},
		{"echo request that carries a quote", ip{src: "198.18.3.3", dst: "198.18.0.10", proto: icmp, icmpType: 8,
			quote: quote(fromSNAT)}.frame(), false},

		{"nothing to do with us", ip{src: "198.18.0.1", dst: "198.18.0.2", proto: tcp, sport: 8080, dport: 30080}.frame(), false},
		{"not IP", []byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x06, 0, 1, 8, 0}, false},
		{"IPv6 header under the IPv4 type", mangle(ip{src: "198.18.0.1", dst: "203.0.113.5"}, 14, 0x65), false},
		{"header length below 20", mangle(ip{src: "198.18.0.1", dst: "203.0.113.5"}, 14, 0x44), false},
		{"total length below the header", mangle(ip{src: "198.18.0.1", dst: "203.0.113.5"}, 17, 19), false},
		{"total length beyond the frame", mangle(ip{src: "198.18.0.1", dst: "203.0.113.5"}, 17, 29), false},
		{"IPv6 length beyond the frame", mangle(ip{src: "2001:db8::1", dst: "2001:db8:5::5"}, 19, 9), false},
		{"IPv4-mapped address in an IPv6 header", ip{src: "2001:db8::1", dst: "::ffff:203.0.113.5", proto: tcp}.frame(), false},
	}
}

type matchCase struct {
	name  string
	frame []byte
	want  bool
}

// mangle returns the frame of p with one byte changed.
func mangle(p ip, at int, value byte) []byte {
	f := p.frame()
	f[at] = value
	return f
}

func TestMatch(t *testing.T) {
	r := matchRules()
	for _, tc := range matchCases() {
		t.Run(tc.name, func(t *testing.T) {
			if got := r.Match(tc.frame); got != tc.want {
				t.Errorf("ours: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestProgram gives the same frames to the XDP program.
func TestProgram(t *testing.T) {
	labtest.NeedRoot(t)
	c := xdp.NewClassifier(t, matchRules())
	for _, tc := range matchCases() {
		t.Run(tc.name, func(t *testing.T) {
			if got := c.Ours(t, tc.frame); got != tc.want {
				t.Errorf("ours: %v, want %v", got, tc.want)
			}
		})
	}
}

// TestProgramAgrees gives random frames, most of them near a rule and some of them damaged, to the program and to Match.
func TestProgramAgrees(t *testing.T) {
	labtest.NeedRoot(t)
	r := matchRules()
	c := xdp.NewClassifier(t, r)
	rng := rand.New(rand.NewPCG(1, 2))
	ours := 0
	const rounds = 30_000
	for i := range rounds {
		frame := randomFrame(rng)
		got, want := c.Ours(t, frame), r.Match(frame)
		if got != want {
			t.Fatalf("round %d: the program says ours: %v, Match says %v\n%x", i, got, want, frame)
		}
		if got {
			ours++
		}
	}
	if ours < rounds/10 || ours > rounds*9/10 {
		t.Errorf("%d of %d frames are ours: the generator misses the rules", ours, rounds)
	}
}

func pick[T any](rng *rand.Rand, from ...T) T { return from[rng.IntN(len(from))] }

// randomIP returns a packet whose addresses, protocols and ports are often those of matchRules.
func randomIP(rng *rand.Rand, depth int) ip {
	p := ip{
		proto:    pick[uint8](rng, 1, 6, 6, 17, 17, 58, 132, 47, uint8(rng.Uint32())),
		sport:    pick[uint16](rng, 8080, 5353, 9, 30080, 30053, 40000, 32767, uint16(rng.Uint32())),
		dport:    pick[uint16](rng, 8080, 5353, 30080, 30053, 40000, 61000, uint16(rng.Uint32())),
		icmpType: pick[uint8](rng, 0, 8, 3, 11, 1, 2, 128, 129, uint8(rng.IntN(16))),
		more:     rng.IntN(8) == 0,
		tags:     pick(rng, 0, 0, 0, 1, 2, 3),
		padding:  pick(rng, 0, 0, 18),
	}
	if rng.IntN(8) == 0 {
		p.frag = uint16(rng.IntN(1 << 13))
	}
	v4 := []string{"203.0.113.5", "198.19.3.4", "198.18.0.10", "198.18.0.10", "198.18.0.11", "198.18.64.1", "198.18.64.1", "198.18.0.1"}
	v6 := []string{"2001:db8:5::5", "2001:db8:96::7", "2001:db8:a::10", "2001:db8:a::10", "2001:db8:b::1", "2001:db8::1", "::ffff:203.0.113.5"}
	if rng.IntN(2) == 0 {
		p.src, p.dst = pick(rng, v4[2:]...), pick(rng, v4...)
		p.options = pick(rng, 0, 0, 0, 4, 40)
	} else {
		p.src, p.dst = pick(rng, v6[2:]...), pick(rng, v6...)
		for range pick(rng, 0, 0, 1, 2, 9) {
			p.extensions = append(p.extensions, pick[uint8](rng, 0, 43, 44, 51, 60))
		}
		p.left = pick[uint8](rng, 0, 0, 0, 1)
	}
	if depth > 0 && rng.IntN(4) > 0 {
		p.quote = randomIP(rng, depth-1).bytes()
		p.quote = p.quote[:len(p.quote)-pick(rng, 0, 0, 0, rng.IntN(len(p.quote)))]
	}
	return p
}

func randomFrame(rng *rand.Rand) []byte {
	f := randomIP(rng, 1).frame()
	switch rng.IntN(6) {
	case 0:
		f[rng.IntN(len(f))] = byte(rng.Uint32())
	case 1: // one of the bytes that hold lengths and kinds
		f[min(14+rng.IntN(60), len(f)-1)] = byte(rng.IntN(16))
	case 2:
		f = f[:14+rng.IntN(len(f)-14)]
	}
	return f
}

// FuzzMatch feeds frames to Match, and as root to the program too.
func FuzzMatch(f *testing.F) {
	for _, tc := range matchCases() {
		f.Add(tc.frame)
	}
	r := matchRules()
	var c *xdp.Classifier
	if os.Geteuid() == 0 {
		c = xdp.NewClassifier(f, r)
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		got := r.Match(frame)
		if c == nil || len(frame) < 14 || len(frame) > 3000 { // what the kernel takes for a test run
			return
		}
		if want := c.Ours(t, frame); got != want {
			t.Errorf("Match says %v, the program %v", got, want)
		}
	})
}

// TestSetRules replaces rules and checks that what is in both sets is ours and nothing is left of the old one.
func TestSetRules(t *testing.T) {
	labtest.NeedRoot(t)
	c := xdp.NewClassifier(t, matchRules())
	to := func(dst string) []byte {
		return ip{src: "198.18.0.1", dst: dst, proto: packet.ProtoTCP, dport: 30080}.frame()
	}
	next := &xdp.Rules{
		Services:      addrs("203.0.113.5", "203.0.113.6"),
		NodePortAddrs: addrs("198.18.0.11"),
		NodePorts:     []xdp.ProtoPort{{Proto: packet.ProtoTCP, Port: 30080}},
	}
	check(t, c.SetRules(next))
	for _, tc := range []struct {
		name, dst string
		want      bool
	}{
		{"in both", "203.0.113.5", true},
		{"new", "203.0.113.6", true},
		{"range that is gone", "198.19.0.1", false},
		{"address that was NodePort and SNAT", "198.18.0.10", false},
		{"address that was SNAT and is NodePort", "198.18.0.11", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := c.Ours(t, to(tc.dst)); got != tc.want {
				t.Errorf("ours: %v, want %v", got, tc.want)
			}
		})
	}
	if n := c.Entries(t); n != 4 {
		t.Errorf("the maps hold %d entries, want 4", n)
	}
	check(t, c.SetRules(nil))
	if n := c.Entries(t); n != 0 {
		t.Errorf("without rules the maps hold %d entries", n)
	}
}

// TestSetRulesTooMany checks that rules which do not fit leave the current ones in place.
func TestSetRulesTooMany(t *testing.T) {
	labtest.NeedRoot(t)
	c := xdp.NewClassifier(t, matchRules())
	before := c.Entries(t)
	next := &xdp.Rules{Services: addrs("203.0.113.9")}
	for i := range 300 {
		next.Ranges = append(next.Ranges, netip.MustParsePrefix(fmt.Sprintf("198.18.%d.%d/32", i/256, i%256)))
	}
	if err := c.SetRules(next); err == nil {
		t.Fatal("300 service ranges were taken, though the map holds 256")
	} else {
		t.Log(err)
	}
	if n := c.Entries(t); n != before {
		t.Errorf("the maps hold %d entries, want the %d from before", n, before)
	}
	r := matchRules()
	for _, tc := range matchCases() {
		if got := c.Ours(t, tc.frame); got != r.Match(tc.frame) {
			t.Errorf("%s: ours: %v", tc.name, got)
		}
	}
	check(t, c.SetRules(&xdp.Rules{Services: addrs("203.0.113.9")}))
	if n := c.Entries(t); n != 1 {
		t.Errorf("after a set that fits the maps hold %d entries, want 1", n)
	}
}

// BenchmarkProgram times the XDP program in the kernel, with 10,000 services and as many backends in its maps.
func BenchmarkProgram(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	r := matchRules()
	for i := range 10_000 {
		low := [4]byte{100, 64, byte(i >> 8), byte(i)}
		r.Services = append(r.Services, netip.AddrFrom4(low))
		r.Backends = append(r.Backends, xdp.Backend{Addr: netip.AddrFrom4(low), Proto: packet.ProtoTCP, Port: 8080})
	}
	c := xdp.NewClassifier(b, r)
	for _, bc := range []struct {
		name  string
		frame []byte
	}{
		{"service", ip{src: "198.18.0.1", dst: "100.64.1.1", proto: packet.ProtoTCP, dport: 80}.frame()},
		{"backend reply", ip{src: "100.64.1.1", dst: "198.18.0.1", proto: packet.ProtoTCP, sport: 8080}.frame()},
		{"not ours", ip{src: "198.18.0.1", dst: "198.18.0.2", proto: packet.ProtoTCP, dport: 80}.frame()},
		{"not ours, IPv6", ip{src: "2001:db8::1", dst: "2001:db8::2", proto: packet.ProtoTCP, dport: 80}.frame()},
		{"not IP", ip{src: "198.18.0.1", dst: "198.18.0.2", tags: 3}.frame()},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportMetric(float64(c.Time(b, bc.frame, max(b.N, 100_000)).Nanoseconds()), "ns/pkt")
			b.ReportMetric(0, "ns/op") // which would be the time of the system call
		})
	}
}
