package xdp

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"sluice/xdp/packet"
)

// EtherTypes (IEEE 802 numbers).
const (
	etherIPv4 = 0x0800
	etherVLAN = 0x8100
	etherIPv6 = 0x86dd
	etherQinQ = 0x88a8
)

// Match tells whether a frame is ours. It gives the verdict that the XDP program gives, and so reads packets by itself as
// far as the program does and no further: packet.Parse, for one, refuses packets that the program only looks at the
// addresses of. It looks through the slices one by one: it is for tests and for tracing single packets.
func (r *Rules) Match(frame []byte) bool {
	b, ether := etherPayload(frame)
	if ether != etherIPv4 && ether != etherIPv6 {
		return false
	}
	var p headers
	if !p.parse(b, ether == etherIPv6, false) {
		return false
	}
	dst := p.dst.Netip()
	switch {
	case slices.Contains(r.Services, dst):
		return true
	case slices.ContainsFunc(r.Ranges, func(c netip.Prefix) bool { return c.Contains(dst) }):
		return true
	case p.fragment && r.mayBeOurs(&p):
		return true
	case p.isError():
		return r.matchQuote(&p)
	case slices.Contains(r.NodePortAddrs, dst) && r.isNodePort(&p, p.dport):
		return true
	case slices.Contains(r.SNATAddrs, dst) && r.isSNAT(&p, p.dport, true):
		return true
	}
	return r.isBackend(&p, p.src, p.sport)
}

// mayBeOurs tells whether a fragment may belong to a datagram of ours. Only the first one has ports, and whether that is ours or
// not, the worker has to see it to know what to do with the others.
func (r *Rules) mayBeOurs(p *headers) bool {
	src, dst := p.src.Netip(), p.dst.Netip()
	return slices.Contains(r.NodePortAddrs, dst) || slices.Contains(r.SNATAddrs, dst) ||
		slices.ContainsFunc(r.Backends, func(b Backend) bool { return b.Addr == src })
}

// matchQuote tells whether the packet quoted in the ICMP error p is one that the gateway has sent.
func (r *Rules) matchQuote(p *headers) bool {
	var q headers
	if !q.parse(p.rest, p.v6, true) {
		return false
	}
	if src := q.src.Netip(); q.src == p.dst {
		if slices.Contains(r.NodePortAddrs, src) && r.isNodePort(&q, q.sport) {
			return true
		}
		if slices.Contains(r.SNATAddrs, src) && r.isSNAT(&q, q.sport, false) {
			return true
		}
	}
	return r.isBackend(&q, q.dst, q.dport)
}

func (r *Rules) isNodePort(p *headers, port uint16) bool {
	return p.ports && slices.Contains(r.NodePorts, ProtoPort{p.proto, port})
}

func (r *Rules) isBackend(p *headers, a packet.Addr, port uint16) bool {
	return p.ports && slices.Contains(r.Backends, Backend{a.Netip(), p.proto, port})
}

// isSNAT tells whether port, the gateway's end of p, is from the pool of full NAT. For ICMP it is the identifier of an echo
// reply, or of an echo request that an error quotes.
func (r *Rules) isSNAT(p *headers, port uint16, reply bool) bool {
	if !p.isEcho(reply) && !p.ports {
		return false
	}
	return r.SNATPorts.Contains(port)
}

// etherPayload returns what follows the Ethernet header and up to two VLAN tags, and its EtherType; 0 when they are cut short.
func etherPayload(b []byte) ([]byte, uint16) {
	if len(b) < 14 {
		return nil, 0
	}
	ether, b := binary.BigEndian.Uint16(b[12:]), b[14:]
	for tags := 0; tags < 2 && (ether == etherVLAN || ether == etherQinQ); tags++ {
		if len(b) < 4 {
			return nil, 0
		}
		ether, b = binary.BigEndian.Uint16(b[2:]), b[4:]
	}
	return b, ether
}

// headers are those of an IP packet, or of one quoted in an ICMP error, as far as the rules need them.
type headers struct {
	src, dst     packet.Addr
	sport, dport uint16 // of TCP, UDP, SCTP; both the identifier for ICMP; valid iff ports or icmp
	proto        uint8  // behind the extension headers
	icmpType     uint8
	v6           bool
	later        bool // a fragment other than the first
	fragment     bool // a fragment, whichever
	ports, icmp  bool
	rest         []byte // what is not read yet
}

// parse reads an IP packet up to the first eight bytes of its transport header; false when the IP header contradicts itself
// or the length of b. A quoted packet is cut short, so that its length is not looked at.
func (p *headers) parse(b []byte, v6, quoted bool) bool {
	p.v6 = v6
	ok := false
	if v6 {
		ok = p.parseIPv6(b, quoted)
	} else {
		ok = p.parseIPv4(b, quoted)
	}
	if ok {
		p.parseTransport()
	}
	return ok
}

func (p *headers) parseIPv4(b []byte, quoted bool) bool {
	if len(b) < 20 || b[0]>>4 != 4 {
		return false
	}
	header, total := int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:]))
	if header < 20 || total < header {
		return false
	}
	if !quoted {
		if total > len(b) {
			return false
		}
		b = b[:total]
	}
	if header > len(b) {
		return false
	}
	p.src, p.dst = packet.Addr4(binary.BigEndian.Uint32(b[12:])), packet.Addr4(binary.BigEndian.Uint32(b[16:]))
	field := binary.BigEndian.Uint16(b[6:])
	p.proto, p.later, p.fragment = b[9], field&0x1fff != 0, field&0x3fff != 0
	p.rest = b[header:]
	return true
}

func (p *headers) parseIPv6(b []byte, quoted bool) bool {
	if len(b) < 40 || b[0]>>4 != 6 {
		return false
	}
	if !quoted {
		total := 40 + int(binary.BigEndian.Uint16(b[4:]))
		if total > len(b) {
			return false
		}
		b = b[:total]
	}
	p.src = packet.AddrFrom(netip.AddrFrom16([16]byte(b[8:24])))
	p.dst = packet.AddrFrom(netip.AddrFrom16([16]byte(b[24:40])))
	if p.src.Is4() || p.dst.Is4() { // mapped addresses do not belong on a wire, and would pass for the IPv4 ones
		return false
	}
	p.proto, p.rest = b[6], b[40:]
	for range 8 {
		if !p.skipExtension() {
			break
		}
	}
	return true
}

// Numbers of IPv6 extension headers (RFC 8200 section 4).
const (
	hopByHop = 0
	routing  = 43
	fragment = 44
	dstOpts  = 60
)

// skipExtension reads one IPv6 extension header and reports whether another may follow. One that is cut short leaves no
// transport, and nothing is read behind a routing header with segments left.
func (p *headers) skipExtension() bool {
	kind, length := p.proto, 0
	switch kind {
	case hopByHop, routing, dstOpts, fragment:
	default:
		return false
	}
	if len(p.rest) >= 8 {
		length = extensionLength(kind, p.rest)
	}
	if length == 0 || length > len(p.rest) {
		p.rest = nil
		return false
	}
	if kind == routing && p.rest[3] != 0 {
		return false
	}
	p.proto = p.rest[0]
	if kind == fragment {
		field := binary.BigEndian.Uint16(p.rest[2:])
		p.later, p.fragment = field>>3 != 0, field>>3 != 0 || field&1 != 0
	}
	p.rest = p.rest[length:]
	return !p.later
}

// extensionLength returns the bytes of the extension header at b: eight, plus units of eight but for the fragment header.
func extensionLength(kind uint8, b []byte) int {
	if kind == fragment {
		return 8
	}
	return 8 + int(b[1])*8
}

func (p *headers) parseTransport() {
	p.icmp = p.proto == packet.ProtoICMP && !p.v6 || p.proto == packet.ProtoICMPv6 && p.v6
	p.ports = p.proto == packet.ProtoTCP || p.proto == packet.ProtoUDP || p.proto == packet.ProtoSCTP
	if p.later || len(p.rest) < 8 {
		p.icmp, p.ports = false, false
	}
	switch {
	case p.ports:
		p.sport, p.dport = binary.BigEndian.Uint16(p.rest), binary.BigEndian.Uint16(p.rest[2:])
	case p.icmp:
		p.icmpType = p.rest[0]
		p.sport = binary.BigEndian.Uint16(p.rest[4:])
		p.dport, p.rest = p.sport, p.rest[8:]
	}
}

// isError tells whether p is an ICMP error: unreachable, source quench, redirect, time exceeded, parameter problem; for
// ICMPv6 those that RFC 4443 defines.
func (p *headers) isError() bool {
	if !p.icmp {
		return false
	}
	if p.v6 {
		return p.icmpType >= 1 && p.icmpType <= 4
	}
	return p.icmpType >= 3 && p.icmpType <= 5 || p.icmpType == 11 || p.icmpType == 12
}

// isEcho tells whether p is an echo reply, or request.
func (p *headers) isEcho(reply bool) bool {
	want := [...]uint8{8, 0}
	if p.v6 {
		want = [...]uint8{128, 129}
	}
	if reply {
		return p.icmp && p.icmpType == want[1]
	}
	return p.icmp && p.icmpType == want[0]
}
