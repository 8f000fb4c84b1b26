package zone

import (
	"fmt"
	"net/netip"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// pods adds the names of pods: those of the pods that there are, or one for each address that can be spelled.
func (c *compiler) pods() error {
	top := "\x03pod" + c.domain
	switch c.top.DNS.Pods {
	case topology.PodsInsecure:
		for _, ns := range c.top.Namespaces {
			if c.top.DNS.Shows(ns.Name) && c.only.namespace(ns.Name) {
				c.level(label(ns.Name) + top).pods = true
			}
		}
	case topology.PodsVerified:
		if c.only != nil && len(c.only.podAddrs.all) == 0 {
			return nil
		}
		for i := range c.top.Pods {
			if err := c.pod(&c.top.Pods[i], top); err != nil {
				return err
			}
		}
	}
	return nil
}

// pod adds the names of a pod. One that has ended has given its addresses back.
func (c *compiler) pod(p *topology.Pod, top string) error {
	if p.Ended() || !c.top.DNS.Shows(p.Namespace) {
		return nil
	}
	for _, a := range p.Addresses {
		if !c.only.podAddr(a) {
			continue
		}
		text, err := under(top, p.Namespace, dashed(a))
		if err != nil {
			return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		c.address(c.ensure(text), a)
	}
	return nil
}

// PodAddress returns the address that a name spells which is no node and directly below one where all addresses have names.
func (z *Zones) PodAddress(q *wire.Question) (netip.Addr, bool) {
	if parent := z.parent(q); parent == nil || !parent.has(flagPods) {
		return netip.Addr{}, false
	}
	name := q.Name()
	return undashed(name[1 : 1+name[0]])
}

// undashed reads a label that dashed has written: four numbers are an IPv4 address.
func undashed(label []byte) (netip.Addr, bool) {
	dots, double := 0, false
	for i, b := range label {
		if b == '-' {
			dots++
			double = double || i > 0 && label[i-1] == '-'
		}
	}
	if dots == 3 && !double {
		return undashed4(label)
	}
	return undashed6(label)
}

// undashed4 reads an IPv4 address. It has no leading zeros, which mean octal to some.
func undashed4(label []byte) (netip.Addr, bool) {
	var a [4]byte
	for i := range a {
		part := label
		if i < 3 {
			part, label = cutDash(label)
		}
		if len(part) == 0 || len(part) > 3 || len(part) > 1 && part[0] == '0' {
			return netip.Addr{}, false
		}
		n := 0
		for _, c := range part {
			if c < '0' || c > '9' {
				return netip.Addr{}, false
			}
			n = n*10 + int(c-'0')
		}
		if n > 255 {
			return netip.Addr{}, false
		}
		a[i] = byte(n)
	}
	return netip.AddrFrom4(a), true
}

// cutDash returns what stands before and behind the first dash.
func cutDash(b []byte) (before, after []byte) {
	for i, c := range b {
		if c == '-' {
			return b[:i], b[i+1:]
		}
	}
	return b, nil
}

// undashed6 reads an IPv6 address of groups of hexadecimal digits, of which "--" leaves out some zeros once (RFC 4291 section 2.2).
func undashed6(label []byte) (netip.Addr, bool) {
	var groups [8]uint16
	n, gap := 0, -1
	for i := 0; i < len(label); {
		if label[i] == '-' {
			if i+1 < len(label) && label[i+1] == '-' && gap < 0 {
				gap = n
				i += 2
				continue
			}
			if i == 0 || i+1 == len(label) || label[i-1] == '-' || label[i+1] == '-' {
				return netip.Addr{}, false
			}
			i++
			continue
		}
		value, digits := hexGroup(label[i:])
		if digits == 0 || n == len(groups) {
			return netip.Addr{}, false
		}
		groups[n] = value
		n++
		i += digits
	}
	if gap < 0 && n != len(groups) || gap >= 0 && n == len(groups) {
		return netip.Addr{}, false
	}
	var a [16]byte
	for i := range n {
		at := i
		if gap >= 0 && i >= gap {
			at = i + len(groups) - n
		}
		a[2*at], a[2*at+1] = byte(groups[i]>>8), byte(groups[i])
	}
	return netip.AddrFrom16(a), true
}

// hexGroup reads up to four hexadecimal digits, which a dash or the end follows; 0 digits when they are not.
func hexGroup(b []byte) (value uint16, digits int) {
	for digits < len(b) && b[digits] != '-' {
		d, ok := hexDigit(b[digits])
		if !ok || digits == 4 {
			return 0, 0
		}
		value = value<<4 | uint16(d)
		digits++
	}
	return value, digits
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	}
	return 0, false
}

// isEmpty reports whether a name exists for the RFCs only: because others lie below it.
func isEmpty(n *name) bool {
	return len(n.sets) == 0 && !n.level && n.below == nil && n.text != n.zone.apex
}
