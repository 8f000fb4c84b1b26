package packet_test

import (
	"math/rand/v2"
	"net"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"sluice/xdp/packet"
)

// The tests here compare with gopacket, another implementation of the same formats.

// generator makes random packets with gopacket.
type generator struct {
	*rand.Rand
	next  []gopacket.SerializableLayer
	want  packet.Info // what Parse is to find
	extra int         // bytes of headers between the IP header and the transport header
}

func (g *generator) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

func (g *generator) port() uint16 { return uint16(g.Uint32()) }

// frame makes a frame, and sets want.
func (g *generator) frame(t *testing.T) []byte {
	t.Helper()
	g.next, g.extra, g.want = nil, 0, packet.Info{HasPorts: true, L3: 14, Family: 4}
	if g.IntN(2) == 0 {
		g.want.Family = 6
	}
	g.ethernet()
	var network gopacket.NetworkLayer
	if g.want.Family == 4 {
		network = g.ipv4()
	} else {
		network = g.ipv6()
	}
	g.transport(network)
	payload := g.bytes(g.IntN(100))
	buf := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, options, append(g.next, gopacket.Payload(payload))...); err != nil {
		t.Fatal(err)
	}
	g.want.End += g.want.L4 + len(payload)
	return append(buf.Bytes(), g.bytes(g.IntN(20))...) // padding, besides that of gopacket to 60 bytes
}

func (g *generator) ethernet() {
	types := []layers.EthernetType{layers.EthernetTypeIPv4}
	if g.want.Family == 6 {
		types[0] = layers.EthernetTypeIPv6
	}
	for range g.IntN(3) {
		types = append([]layers.EthernetType{layers.EthernetTypeDot1Q}, types...)
	}
	if len(types) == 3 && g.IntN(2) == 0 {
		types[0] = layers.EthernetTypeQinQ
	}
	g.next = append(g.next, &layers.Ethernet{SrcMAC: g.bytes(6), DstMAC: g.bytes(6), EthernetType: types[0]})
	for i, next := range types[1:] {
		tag := &layers.Dot1Q{VLANIdentifier: uint16(g.IntN(4096)), Priority: uint8(g.IntN(8)), Type: next}
		g.next = append(g.next, tag)
		if i == 0 {
			g.want.VLAN = uint16(tag.Priority)<<13 | tag.VLANIdentifier
		}
		g.want.VLANs++
		g.want.L3 += 4
	}
}

func (g *generator) proto() layers.IPProtocol {
	g.want.Proto = []uint8{udp, tcp, icmp4}[g.IntN(3)]
	if g.want.Proto == icmp4 && g.want.Family == 6 {
		g.want.Proto = icmp6
	}
	g.want.Tuple.Proto = g.want.Proto
	return layers.IPProtocol(g.want.Proto)
}

func (g *generator) ipv4() gopacket.NetworkLayer {
	src, dst := packet.Addr4(g.Uint32()), packet.Addr4(g.Uint32())
	ip := &layers.IPv4{Version: 4, TTL: uint8(g.Uint32()), TOS: uint8(g.Uint32()), Id: g.port(), Protocol: g.proto(),
		SrcIP: src.Netip().AsSlice(), DstIP: dst.Netip().AsSlice()}
	if g.IntN(2) == 0 {
		ip.Flags, g.want.DF = layers.IPv4DontFragment, true
	}
	if g.IntN(4) == 0 {
		ip.Options, g.want.Options = []layers.IPv4Option{{OptionType: 148, OptionLength: 4, OptionData: []byte{0, 0}}}, true
		g.extra = 4
	}
	g.want.Tuple.Src, g.want.Tuple.Dst, g.want.TTL, g.want.TOS = src, dst, ip.TTL, ip.TOS
	g.want.L4 = g.want.L3 + 20 + g.extra
	g.next = append(g.next, ip)
	return ip
}

func (g *generator) ipv6() gopacket.NetworkLayer {
	ip := &layers.IPv6{Version: 6, HopLimit: uint8(g.Uint32()), TrafficClass: uint8(g.Uint32()), FlowLabel: g.Uint32N(1 << 20),
		NextHeader: g.proto(), SrcIP: net.IP(g.bytes(16)), DstIP: net.IP(g.bytes(16))}
	ip.SrcIP[0], ip.DstIP[0] = 0x20, 0x20
	g.next = append(g.next, ip)
	if g.IntN(4) == 0 {
		// One option of six bytes: eight bytes in all.
		ext := &layers.IPv6Destination{}
		ext.NextHeader, ip.NextHeader = ip.NextHeader, layers.IPProtocolIPv6Destination
		ext.Options = []*layers.IPv6DestinationOption{{OptionType: 1, OptionLength: 4, ActualLength: 6, OptionData: make([]byte, 4)}}
		g.next, g.extra, g.want.Options = append(g.next, ext), 8, true
	}
	g.want.Tuple.Src = packet.Addr{Hi: be64(ip.SrcIP), Lo: be64(ip.SrcIP[8:])}
	g.want.Tuple.Dst = packet.Addr{Hi: be64(ip.DstIP), Lo: be64(ip.DstIP[8:])}
	g.want.TTL, g.want.TOS, g.want.DF = ip.HopLimit, ip.TrafficClass, true
	g.want.L4 = g.want.L3 + 40 + g.extra
	return ip
}

func be64(b []byte) (v uint64) {
	for _, c := range b[:8] {
		v = v<<8 | uint64(c)
	}
	return v
}

func (g *generator) transport(network gopacket.NetworkLayer) {
	sport, dport := g.port(), g.port()
	g.want.End = 8 // the length of the transport header, for now
	switch g.want.Proto {
	case udp:
		h := &layers.UDP{SrcPort: layers.UDPPort(sport), DstPort: layers.UDPPort(dport)}
		h.SetNetworkLayerForChecksum(network)
		g.next = append(g.next, h)
	case tcp:
		h := &layers.TCP{SrcPort: layers.TCPPort(sport), DstPort: layers.TCPPort(dport), Seq: g.Uint32(), SYN: true, PSH: true}
		if g.IntN(2) == 0 {
			h.Options = []layers.TCPOption{{OptionType: layers.TCPOptionKindMSS, OptionLength: 4, OptionData: []byte{5, 0xb4}}}
		}
		h.SetNetworkLayerForChecksum(network)
		g.want.TCPFlags, g.want.End = packet.TCPSyn|packet.TCPPsh, 20+4*len(h.Options)
		g.next = append(g.next, h)
	case icmp4:
		dport, g.want.ICMPType = sport, packet.ICMPEcho
		g.next = append(g.next, &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(8, 0), Id: sport, Seq: g.port()})
	case icmp6:
		dport, g.want.ICMPType = sport, packet.ICMPv6EchoReply
		h := &layers.ICMPv6{TypeCode: layers.CreateICMPv6TypeCode(129, 0)}
		h.SetNetworkLayerForChecksum(network)
		g.next = append(g.next, h, &layers.ICMPv6Echo{Identifier: sport, SeqNumber: g.port()})
	}
	g.want.Tuple.SrcPort, g.want.Tuple.DstPort = sport, dport
}

// TestParseAgreesWithGopacket parses packets that gopacket made, and checks its checksums.
func TestParseAgreesWithGopacket(t *testing.T) {
	g := &generator{Rand: rand.New(rand.NewPCG(3, 3))}
	for i := range 20_000 {
		frame := g.frame(t)
		if got := checkSums(t, frame); got != g.want || t.Failed() {
			t.Fatalf("packet %d, %x:\ngot  %+v\nwant %+v", i, frame, got, g.want)
		}
		want := l4sum(frame, &g.want)
		packet.Complete(frame, &g.want)
		if got := l4sum(frame, &g.want); got != want {
			t.Fatalf("packet %d, %x: checksum %04x, want %04x", i, frame, got, want)
		}
	}
}

// TestBuildAgreesWithGopacket lets gopacket take apart what Build made, and put it together again: the same bytes.
func TestBuildAgreesWithGopacket(t *testing.T) {
	payload := []byte("odd payload")
	port := func(tu packet.Tuple) packet.Tuple { // one behind which gopacket knows no protocol
		tu.DstPort = 40001
		return tu
	}
	for _, tc := range []struct {
		name string
		spec packet.Spec
	}{
		{"udp", packet.Spec{Tuple: port(tuple4(udp)), TTL: 9, ID: 77, DF: true}},
		{"udp in a tag", packet.Spec{Tuple: port(tuple4(udp)), VLAN: 0x2007}},
		{"tcp", packet.Spec{Tuple: port(tuple4(tcp)), Seq: 0x01020304, Ack: 0x05060708, Window: 99, TCPFlags: 0x1f}},
		{"icmp", packet.Spec{Tuple: tuple4(icmp4), ICMPType: 8, ICMPSeq: 5}},
		{"udp over ipv6", packet.Spec{Tuple: port(tuple6(udp)), VLAN: 5}},
		{"tcp over ipv6", packet.Spec{Tuple: port(tuple6(tcp)), TCPFlags: packet.TCPSyn}},
		{"icmpv6", packet.Spec{Tuple: tuple6(icmp6), ICMPType: 128, ICMPSeq: 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Payload = payload
			frame := build(tc.spec)
			// It pads to 60 bytes, which is not of the packet.
			if got := takeApartAndTogether(t, frame, payload); string(got[:len(frame)]) != string(frame) {
				t.Errorf("built %x\nwant  %x", frame, got)
			}
			if in := parse(t, frame); in.Tuple != tc.spec.Tuple {
				t.Errorf("tuple %v, want %v", in.Tuple, tc.spec.Tuple)
			}
		})
	}
}

// takeApartAndTogether decodes a frame and serializes the layers, with lengths and checksums of gopacket.
func takeApartAndTogether(t *testing.T, frame, payload []byte) []byte {
	t.Helper()
	var network gopacket.NetworkLayer
	var parts []gopacket.SerializableLayer
	for _, l := range gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default).Layers() {
		switch l := l.(type) {
		case gopacket.ErrorLayer:
			t.Fatal(l.Error())
		case gopacket.NetworkLayer:
			network = l
		case interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}:
			if err := l.SetNetworkLayerForChecksum(network); err != nil {
				t.Fatal(err)
			}
		}
		parts = append(parts, l.(gopacket.SerializableLayer))
		if l.LayerType() == layers.LayerTypeICMPv6Echo { // whose payload it leaves out
			parts = append(parts, gopacket.Payload(payload))
		}
	}
	buf := gopacket.NewSerializeBuffer()
	options := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, options, parts...); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
