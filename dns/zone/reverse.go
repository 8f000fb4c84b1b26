package zone

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// reverseApexes returns the zones that cover a prefix. Reverse names have a label for each 8 bits of an IPv4 address and for each 4
// of an IPv6 one: a prefix that ends inside a label is as many zones as it leaves values of that label, 128 at most.
func reverseApexes(p netip.Prefix) (apexes []string) {
	p = p.Masked()
	step := labelBits(p.Addr())
	labels := (p.Bits() + step - 1) / step
	a := p.Addr().AsSlice()
	for range 1 << (labels*step - p.Bits()) {
		addr, _ := netip.AddrFromSlice(a) // of 4 or 16 bytes, as p.Addr is
		apexes = append(apexes, reverseName(addr, labels))
		increment(a, labels*step)
	}
	return apexes
}

// increment adds one to the number that the first bits of a make, a multiple of 4.
func increment(a []byte, bits int) {
	if bits == 0 {
		return
	}
	i, add := (bits-1)/8, byte(1)
	if bits%8 != 0 {
		add = 1 << 4
	}
	a[i] += add // the bits left of it belong to the prefix: no carry gets there but after the last zone
}

// reverseName returns the name of the first labels of an address in wire form, all of them for a PTR record (RFC 1035 section 3.5,
// RFC 3596 section 2.5).
func reverseName(a netip.Addr, labels int) string {
	var b strings.Builder
	bytes := a.AsSlice()
	for i := labels - 1; i >= 0; i-- {
		var l string
		if a.Is4() {
			l = strconv.Itoa(int(bytes[i]))
		} else {
			l = strconv.FormatInt(int64(bytes[i/2]>>(4*(1-i%2))&0xf), 16)
		}
		b.WriteByte(byte(len(l)))
		b.WriteString(l)
	}
	if a.Is4() {
		b.WriteString("\x07in-addr\x04arpa\x00")
	} else {
		b.WriteString("\x03ip6\x04arpa\x00")
	}
	return b.String()
}

// reversed reads what reverseName has written for all labels of an address.
func reversed(text string) (netip.Addr, bool) {
	var b strings.Builder
	if labels := labelsBelow(text, "\x07in-addr\x04arpa\x00"); len(labels) == 4 {
		slices.Reverse(labels)
		b.WriteString(strings.Join(labels, "."))
	} else if labels := labelsBelow(text, "\x03ip6\x04arpa\x00"); len(labels) == 32 {
		for i, l := range slices.Backward(labels) {
			b.WriteString(l)
			if i > 0 && i%4 == 0 {
				b.WriteByte(':')
			}
		}
	}
	a, err := netip.ParseAddr(b.String())
	return a, err == nil
}

// ptr adds a PTR record if the address lies in a reverse zone.
func (c *compiler) ptr(a netip.Addr, target string) {
	if n := c.reverse(a); n != nil {
		c.set(n, wire.TypePTR, c.ttl, rr{target: target})
	}
}

func (c *compiler) reverse(a netip.Addr) *name {
	for _, p := range c.top.DNS.ReverseZones {
		if p.Contains(a) {
			return c.ensure(reverseName(a, a.BitLen()/labelBits(a)))
		}
	}
	return nil
}

// sharedPTRs adds the PTR records of selected addresses that a service has a part in which is not selected itself. None of its names
// is too long: it was compiled before.
func (c *compiler) sharedPTRs(s *topology.Service, svc string) {
	if c.top.DNS.NoEndpoints || c.alone || s.Type == topology.ExternalName {
		return
	}
	shown := published(s)
	for i := range s.Endpoints {
		if e := &s.Endpoints[i]; c.only.addrs.has(e.Address) && shown(*e) {
			c.ptr(e.Address, label(c.hostLabel(e))+label(s.Name)+label(s.Namespace)+svc)
		}
	}
}

// labelBits returns how many bits of an address a label of its reverse name holds.
func labelBits(a netip.Addr) int {
	if a.Is4() {
		return 8
	}
	return 4
}

// clusterPTRs adds the PTR records of ClusterIPs. An address that is both a ClusterIP and an endpoint's has the name of the
// service alone.
func (c *compiler) clusterPTRs() {
	svc := "\x03svc" + c.domain
	for i := range c.top.Services {
		s := &c.top.Services[i]
		if s.Type == topology.ExternalName || !c.top.DNS.Shows(s.Namespace) {
			continue
		}
		for _, a := range s.ClusterIPs {
			if !c.only.service(s) && !c.shared(a) {
				continue
			}
			n := c.reverse(a)
			if n == nil {
				continue
			}
			if old := n.get(wire.TypePTR); old != nil {
				old.rrs = nil
			}
			// The name is not too long: services has added its records.
			c.set(n, wire.TypePTR, c.ttl, rr{target: label(s.Name) + label(s.Namespace) + svc})
		}
	}
}

// label returns a label in wire form.
func label(s string) string { return string(byte(len(s))) + s }
