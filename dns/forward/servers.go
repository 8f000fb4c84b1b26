package forward

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
)

// Servers says who is asked for what.
type Servers []List

// List is who is asked for the names of a domain.
type List struct {
	Domain string // lower case; "" is for all names of no other domain
	Addrs  []netip.AddrPort
}

// ServersOf reads from a topology who is asked, and from the files that it names.
func ServersOf(d *topology.DNS) (Servers, error) {
	var out Servers
	for _, s := range d.Stubs {
		addrs, err := addrsOf(s.Servers)
		if err != nil {
			return nil, fmt.Errorf("dns.stub of %s: %w", s.Domain, err)
		}
		out = append(out, List{s.Domain, addrs})
	}
	if len(d.Forward) > 0 {
		addrs, err := addrsOf(d.Forward)
		if err != nil {
			return nil, fmt.Errorf("dns.forward: %w", err)
		}
		out = append(out, List{"", addrs})
	}
	return out.without(d.Addresses)
}

// without refuses addresses at which this server itself answers.
func (s Servers) without(own []netip.Addr) (Servers, error) {
	for _, l := range s {
		for _, a := range l.Addrs {
			if slices.Contains(own, a.Addr()) && a.Port() == 53 {
				return nil, fmt.Errorf("upstream %v is a DNS address of this gateway: queries would go round in a circle", a)
			}
		}
	}
	return s, nil
}

// Equal reports whether both say the same.
func (s Servers) Equal(o Servers) bool {
	return slices.EqualFunc(s, o, func(a, b List) bool { return a.Domain == b.Domain && slices.Equal(a.Addrs, b.Addrs) })
}

// sorted returns the lists, those of domains with more labels first.
func (s Servers) sorted() Servers {
	out := slices.Clone(s)
	slices.SortStableFunc(out, func(a, b List) int {
		return mdns.CountLabel(mdns.Fqdn(b.Domain)) - mdns.CountLabel(mdns.Fqdn(a.Domain))
	})
	return out
}

// addrsOf returns the servers of a list, those of files in their place, each once.
func addrsOf(list []topology.Upstream) (out []netip.AddrPort, err error) {
	for _, u := range list {
		addrs := []netip.AddrPort{u.Server}
		if u.File != "" {
			if addrs, err = readFile(u.File); err != nil {
				return nil, err
			}
		}
		for _, a := range addrs {
			if !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out, nil
}

// readFile returns the servers of a file in the format of resolv.conf(5).
func readFile(path string) (out []netip.AddrPort, err error) {
	conf, err := mdns.ClientConfigFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the servers of %s: %w", path, err)
	}
	port, err := strconv.ParseUint(conf.Port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%s: port %q: %w", path, conf.Port, err)
	}
	for _, text := range conf.Servers {
		a, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("%s: nameserver %q: expected an address", path, text)
		}
		out = append(out, netip.AddrPortFrom(a, uint16(port)))
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%s lists no nameserver", path)
	}
	return out, nil
}

// String returns the lists as a line for logs: "all: 198.18.0.53:53; corp.example: ...".
func (s Servers) String() string {
	var parts []string
	for _, l := range s {
		domain := l.Domain
		if domain == "" {
			domain = "all"
		}
		var addrs []string
		for _, a := range l.Addrs {
			addrs = append(addrs, a.String())
		}
		parts = append(parts, domain+": "+strings.Join(addrs, " "))
	}
	return strings.Join(parts, "; ")
}
