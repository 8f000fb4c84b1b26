package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// maxUpstreams is how many servers a list may have. More are of no use: the first that answer are asked.
const maxUpstreams = 15

// dnsPort is the port of servers that are given without one.
const dnsPort = 53

// forwarding resolves who is asked for names that the topology does not have.
func (r *resolver) forwarding() {
	in, out := &r.in.DNS, &r.out.DNS
	out.Forward = r.upstreams("dns.forward", in.Forward)
	for _, text := range slices.Sorted(maps.Keys(in.Stub)) {
		path := "dns.stub." + text
		s := Stub{Domain: strings.ToLower(strings.TrimSuffix(text, ".")), Servers: r.upstreams(path, in.Stub[text])}
		twice := slices.ContainsFunc(out.Stubs, func(o Stub) bool { return o.Domain == s.Domain })
		switch {
		case !isSubdomain(s.Domain):
			r.fault(path, "%q is not a domain: expected one like \"corp.example.org\", and dns.forward for all others", text)
		case twice:
			r.fault(path, "%q is there twice", s.Domain)
		case r.answersItself(s.Domain):
			r.fault(path, "names of %q are answered from this topology: expected another domain", text)
		case len(in.Stub[text]) == 0:
			r.fault(path, "no server: expected addresses, or the path of a resolv.conf")
		default:
			out.Stubs = append(out.Stubs, s)
		}
	}
	slices.SortFunc(out.Stubs, func(a, b Stub) int { return strings.Compare(a.Domain, b.Domain) })
}

// answersItself reports whether a domain lies in a zone of names. Reverse zones may have stubs below them, which are never asked: that is
// found out when zones are made, and no fault, since the default of reverse_zones depends on the nodes.
func (r *resolver) answersItself(domain string) bool {
	for _, zone := range []string{r.out.Cluster.Domain, r.out.DNS.ExternalZone} {
		if zone != "" && (domain == zone || strings.HasSuffix(domain, "."+zone)) {
			return true
		}
	}
	return false
}

// upstreams reads a list of servers and files.
func (r *resolver) upstreams(path string, list []string) (out []Upstream) {
	if len(list) > maxUpstreams {
		r.fault(path, "%d servers: expected %d at most", len(list), maxUpstreams)
	}
	for i, text := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		u, ok := r.upstream(at, strings.TrimSpace(text))
		if ok && slices.Contains(out, u) {
			r.fault(at, "%s is there twice", text)
		} else if ok {
			out = append(out, u)
		}
	}
	return out
}

// upstream reads a server, with or without a port, or the path of a file.
func (r *resolver) upstream(path, text string) (Upstream, bool) {
	if strings.HasPrefix(text, "/") {
		return Upstream{File: text}, true
	}
	server, ok := serverAddr(text)
	switch a := server.Addr(); {
	case !ok:
		r.fault(path, "%q is not a server: expected an address like \"198.18.0.53\" or \"[2001:db8::53]:5353\", or the path of a file like "+
			"\"/etc/resolv.conf\"", text)
		return Upstream{}, false
	case a.IsUnspecified() || a.IsMulticast():
		r.fault(path, "%v cannot be the address of a server", a)
		return Upstream{}, false
	case r.in.DNS.Address == a.String():
		r.fault(path, "%v is dns.address: queries would go round in a circle", a)
		return Upstream{}, false
	}
	return Upstream{Server: server}, true
}

// serverAddr reads an address with a port, which is that of DNS when it is left out.
func serverAddr(text string) (server netip.AddrPort, ok bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		server = netip.AddrPortFrom(a, dnsPort)
	} else if server, err = netip.ParseAddrPort(text); err != nil {
		return server, false
	}
	return server, server.Port() != 0 && server.Addr().Zone() == "" && !server.Addr().Is4In6()
}
