package engine

import (
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"strings"

	"sluice/xdp/packet"
)

// A packet of a vector:
//
//	PROTO SRC > DST [KEY=VALUE ...] [quoting PACKET]        PROTO: tcp, udp, icmp, icmpv6, gre
//	hex BYTES                                               a whole frame
//
// SRC and DST are address:port, or an address alone for ICMP and GRE. A port $NAME is bound by an out line and used
// by those after it. Keys, hexadecimal where bits count: ttl, df=0, id, seq, ack and win (TCP), flags=syn,ack, vlan, payload (hex)
// or size (of zeros), type, code, mtu and ident (ICMP), check and ipcheck (checksums; on the way in also "zero" and
// "partial"). For the quoted packet also len (bytes of it that are there) and total (its length field).
type vectorPacket struct {
	spec   packet.Spec
	hex    []byte
	keys   map[string]string
	quoted *vectorPacket
}

// parse reads a description. A port that is not bound yet stays 0.
func (v *vectors) parse(words []string) *vectorPacket {
	v.t.Helper()
	p := &vectorPacket{keys: map[string]string{}}
	if words[0] == "hex" {
		raw, err := hex.DecodeString(strings.Join(words[1:], ""))
		if err != nil {
			v.fatal("%v", err)
		}
		p.hex = raw
		return p
	}
	if len(words) < 4 || words[2] != ">" {
		v.fatal("expected PROTO SRC > DST")
	}
	if i := slices.Index(words, "quoting"); i >= 0 {
		p.quoted, words = v.parse(words[i+1:]), words[:i]
	}
	protos := map[string]uint8{"tcp": packet.ProtoTCP, "udp": packet.ProtoUDP, "icmp": packet.ProtoICMP,
		"icmpv6": packet.ProtoICMPv6, "gre": 47}
	p.spec = packet.Spec{SrcMAC: clientMAC, DstMAC: frontMAC, DF: true, Seq: 1, Window: 0xffff, ID: 0x1234}
	tu := &p.spec.Tuple
	tu.Proto = protos[words[0]]
	if tu.Proto == 0 {
		v.fatal("protocol %s?", words[0])
	}
	tu.Src, tu.SrcPort = v.endpoint(words[1], "src", p)
	tu.Dst, tu.DstPort = v.endpoint(words[3], "dst", p)
	for _, w := range words[4:] {
		key, value, _ := strings.Cut(w, "=")
		p.keys[key] = value
		v.apply(&p.spec, key, value)
	}
	return p
}

func (v *vectors) endpoint(s, which string, p *vectorPacket) (packet.Addr, uint16) {
	v.t.Helper()
	if a, err := netip.ParseAddr(s); err == nil {
		return packet.AddrFrom(a), 0
	}
	addr, name, ok := strings.Cut(s, ":$")
	if ok {
		p.keys["$"+which] = name
		s = addr + ":0"
	}
	ap, err := netip.ParseAddrPort(s)
	if err != nil {
		v.fatal("%v", err)
	}
	if ok {
		return packet.AddrFrom(ap.Addr()), v.vars[name]
	}
	return packet.AddrFrom(ap.Addr()), ap.Port()
}

// apply sets a field of the packet; the keys that only checks and finish look at are let through.
func (v *vectors) apply(s *packet.Spec, key, value string) {
	v.t.Helper()
	switch key {
	case "ttl":
		s.TTL = uint8(v.number(value, 10))
	case "df":
		s.DF = value != "0"
	case "id":
		s.ID = uint16(v.number(value, 16))
	case "seq":
		s.Seq = uint32(v.number(value, 10))
	case "ack":
		s.Ack = uint32(v.number(value, 10))
	case "win":
		s.Window = uint16(v.number(value, 10))
	case "flags":
		spec := TraceSpec{Flags: value}
		flags, err := spec.tcpFlags()
		if err != nil {
			v.fatal("%v", err)
		}
		s.TCPFlags = flags
	case "vlan":
		s.VLAN = uint16(v.number(value, 10))
	case "payload":
		raw, err := hex.DecodeString(value)
		if err != nil {
			v.fatal("%v", err)
		}
		s.Payload = raw
	case "size":
		s.Payload = make([]byte, v.number(value, 10))
	case "type":
		s.ICMPType = uint8(v.number(value, 10))
	case "code":
		s.ICMPCode = uint8(v.number(value, 10))
	case "mtu":
		s.ICMPSeq = uint16(v.number(value, 10))
	case "ident":
		s.Tuple.SrcPort = uint16(v.number(value, 10))
	case "check", "ipcheck", "len", "total":
	default:
		v.fatal("key %s?", key)
	}
}

// build makes the frame of an in line.
func (v *vectors) build(words []string) []byte {
	v.t.Helper()
	p := v.parse(words)
	if p.hex != nil {
		return p.hex
	}
	if p.quoted != nil {
		p.spec.Payload = v.quote(p.quoted)
	}
	frame := packet.Build(make([]byte, 2000), &p.spec)
	var in packet.Info
	if s := packet.Parse(frame, &in); s != packet.OK {
		v.fatal("does not parse: %v", s)
	}
	switch check := p.keys["check"]; check {
	case "":
	case "zero":
		setCheck(frame, &in, 0)
	case "partial":
		setCheck(frame, &in, pseudoSum(&in))
	default:
		if got := checkOf(frame, &in); got != uint16(v.number(check, 16)) {
			v.fatal("the checksum of this packet is %04x", got)
		}
	}
	return frame
}

// quote makes the bytes that an ICMP error quotes.
func (v *vectors) quote(p *vectorPacket) []byte {
	frame := packet.Build(make([]byte, 2000), &p.spec)
	ip := frame[packet.EthernetLen:]
	if total := p.keys["total"]; total != "" && p.spec.Tuple.Src.Is4() {
		binary.BigEndian.PutUint16(ip[2:], uint16(v.number(total, 10)))
		ip[10], ip[11] = 0, 0
		binary.BigEndian.PutUint16(ip[10:], ^packet.Sum(ip[:packet.IPv4Len], 0))
	}
	if n := p.keys["len"]; n != "" {
		ip = ip[:v.number(n, 10)]
	}
	return ip
}

// compare holds a frame that was sent to its description.
func (v *vectors) compare(frame []byte, words []string) {
	v.t.Helper()
	p := v.parse(words)
	if p.hex != nil {
		if string(frame) != string(p.hex) {
			v.fatal("sent %x", frame)
		}
		return
	}
	var in, quote packet.Info
	packet.Parse(frame, &in)
	v.compareInfo(frame, &in, p)
	if p.spec.VLAN != in.VLAN || in.VLANs > 1 {
		v.fatal("sent in VLAN %d", in.VLAN)
	}
	if (p.quoted != nil) != in.ICMPError {
		v.fatal("an error: %v, type %d", in.ICMPError, in.ICMPType)
	}
	if p.quoted == nil {
		return
	}
	if s := packet.ParseQuote(frame, &in, &quote); s != packet.OK {
		v.fatal("the quote does not parse: %v in %x", s, frame)
	}
	if !packet.VerifyIP(frame, &quote) {
		v.fatal("wrong header checksum in the quote: %x", frame)
	}
	v.compareInfo(frame, &quote, p.quoted)
}

// compareInfo compares the tuple and the fields that are named.
func (v *vectors) compareInfo(frame []byte, in *packet.Info, p *vectorPacket) {
	v.t.Helper()
	got, want := in.Tuple, p.spec.Tuple
	v.bind(p.keys["$src"], got.SrcPort, &want.SrcPort)
	v.bind(p.keys["$dst"], got.DstPort, &want.DstPort)
	if in.IsICMP() {
		got.SrcPort, got.DstPort, want.SrcPort, want.DstPort = 0, 0, 0, 0
	}
	if got != want {
		v.fatal("sent %v", got)
	}
	l4 := frame[in.L4:in.End]
	for key := range p.keys {
		ok := true
		switch key {
		case "ttl":
			ok = in.TTL == p.spec.TTL
		case "flags":
			ok = in.TCPFlags == p.spec.TCPFlags
		case "type":
			ok = in.ICMPType == p.spec.ICMPType
		case "code":
			ok = in.ICMPCode == p.spec.ICMPCode
		case "mtu":
			ok = binary.BigEndian.Uint16(l4[6:]) == p.spec.ICMPSeq
		case "ident":
			ok = binary.BigEndian.Uint16(l4[4:]) == p.spec.Tuple.SrcPort
		case "payload":
			ok = string(l4[8:]) == string(p.spec.Payload)
		case "check":
			ok = uint64(checkOf(frame, in)) == v.number(p.keys[key], 16)
		case "ipcheck":
			ok = uint64(binary.BigEndian.Uint16(frame[in.L3+10:])) == v.number(p.keys[key], 16)
		case "len":
			ok = uint64(in.End-in.L3) == v.number(p.keys[key], 10)
		case "vlan", "$src", "$dst":
		default:
			v.fatal("key %s cannot be expected", key)
		}
		if !ok {
			v.fatal("%s is not %s: %x", key, p.keys[key], frame)
		}
	}
}

// bind gives a variable its value the first time, which must be a port of the pool, and makes it the wanted one.
func (v *vectors) bind(name string, got uint16, want *uint16) {
	v.t.Helper()
	if name == "" {
		return
	}
	if _, bound := v.vars[name]; !bound {
		if r := v.snap.NAT.SNATPorts(); got < r.First || got > r.Last {
			v.fatal("source port %d is outside the pool", got)
		}
		v.vars[name] = got
	}
	*want = v.vars[name]
}

// checkAt returns the transport checksum's place.
func checkAt(frame []byte, in *packet.Info) []byte {
	at := map[uint8]int{packet.ProtoTCP: 16, packet.ProtoUDP: 6, packet.ProtoICMP: 2, packet.ProtoICMPv6: 2}[in.Proto]
	return frame[in.L4+at:]
}

func checkOf(frame []byte, in *packet.Info) uint16 {
	return binary.BigEndian.Uint16(checkAt(frame, in))
}
func setCheck(frame []byte, in *packet.Info, v uint16) {
	binary.BigEndian.PutUint16(checkAt(frame, in), v)
}

// pseudoSum is what a sender with checksum offload leaves in the checksum field: the sum of the pseudo-header.
func pseudoSum(in *packet.Info) uint16 {
	src, dst := in.Tuple.Src.Netip().AsSlice(), in.Tuple.Dst.Netip().AsSlice()
	return packet.Sum(slices.Concat(src, dst), uint32(in.Proto)+uint32(in.End-in.L4))
}
