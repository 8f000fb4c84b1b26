package nat

import (
	"net/netip"

	"sluice/xdp/packet"
)

// family indexes what exists once for each IP version.
type family uint8

const (
	ipv4 family = iota
	ipv6
	families
)

// familyOf returns the family of a.
func familyOf(a packet.Addr) family {
	if a.Is4() {
		return ipv4
	}
	return ipv6
}

// familyOfIP returns the family of a; IPv4-mapped addresses are IPv4.
func familyOfIP(a netip.Addr) family { return familyOf(packet.AddrFrom(a)) }

// prefix is a CIDR in the form of packet.Addr: an address is inside when its masked words equal addr.
type prefix struct{ addr, mask packet.Addr }

// prefixFrom returns p as a prefix. An IPv4 prefix becomes one of the IPv4-mapped range, 96 bits longer.
func prefixFrom(p netip.Prefix) prefix {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	mask := packet.Addr{Hi: highBits(bits), Lo: highBits(max(bits-64, 0))}
	a := packet.AddrFrom(p.Addr())
	return prefix{addr: packet.Addr{Hi: a.Hi & mask.Hi, Lo: a.Lo & mask.Lo}, mask: mask}
}

// highBits returns a word whose n highest bits are set, all of them from 64 on.
func highBits(n int) uint64 { return ^(^uint64(0) >> n) }

// contains reports whether a lies in p. Both are of one family: "::/0" would contain every IPv4 address.
func (p prefix) contains(a packet.Addr) bool {
	return a.Hi&p.mask.Hi == p.addr.Hi && a.Lo&p.mask.Lo == p.addr.Lo
}

// prefixes is a set of CIDRs by family. The lists are short (ranges of a cluster, source ranges of a service) and
// looked at once a flow, so they are searched one by one.
type prefixes [families][]prefix

// prefixesFrom sorts the CIDRs by family.
func prefixesFrom(list []netip.Prefix) prefixes {
	var ps prefixes
	for _, p := range list {
		f := familyOfIP(p.Addr())
		ps[f] = append(ps[f], prefixFrom(p))
	}
	return ps
}

// contains reports whether one of the CIDRs of a's family contains a.
func (ps *prefixes) contains(a packet.Addr) bool {
	for _, p := range ps[familyOf(a)] {
		if p.contains(a) {
			return true
		}
	}
	return false
}
