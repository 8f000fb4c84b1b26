package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

// host is one address that SRV records lead to.
type host struct {
	name  string // dotted, without the dot at the end
	addr  netip.Addr
	zone  string // topology zone
	ports map[string]uint16
	what  string // whose the address is
}

// endpoints adds the names of the endpoints of a service, and says of those that have none why.
func (t *tree) endpoints(s *topology.Service, text string) (hosts []host) {
	shown := published(s)
	byName := map[string][]host{}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		label := t.hostLabel(e)
		at := under(text, label)
		t.otherNames(e, text, label, shown(*e))
		switch {
		case t.top.DNS.NoEndpoints:
			t.absent[at] = "endpoints have no names: dns.no_endpoints is set"
			continue
		case !shown(*e):
			t.absent[at] = fmt.Sprintf("endpoint %v of service %q is not ready", e.Address, s.Key())
			continue
		}
		h := host{dotted(at), e.Address, e.Zone, e.Ports, describeEndpoint(s, e)}
		n := t.ensure(at)
		n.address(e.Address, h.what)
		t.ptr(e.Address, h.name, h.what)
		hosts = append(hosts, h)
		byName[at] = append(byName[at], h)
	}
	for at, same := range byName {
		n := t.ensure(at)
		n.kind, n.object, n.note = "endpoint", addressesOf(same), "of service "+s.Key()
		n.below = func(string) string {
			return "nothing is below the name of an endpoint: ports are below that of the service"
		}
		n.srv(s.Ports, same)
	}
	return hosts
}

func addressesOf(hosts []host) string {
	var addrs []string
	for _, h := range hosts {
		if a := h.addr.String(); !slices.Contains(addrs, a) {
			addrs = append(addrs, a)
		}
	}
	return strings.Join(addrs, ", ")
}

// hostLabel returns the label of an endpoint: its hostname, or its pod's name if that is asked for, or its address.
func (t *tree) hostLabel(e *topology.Endpoint) string {
	const maxLabel = 63
	switch {
	case e.Hostname != "":
		return e.Hostname
	case t.top.DNS.PodNames && e.Pod != "" && len(e.Pod) <= maxLabel && !strings.Contains(e.Pod, "."):
		return e.Pod
	}
	return dashed(e.Address)
}

// otherNames notes the names by which an endpoint may be asked for and does not have.
func (t *tree) otherNames(e *topology.Endpoint, text, label string, ready bool) {
	why := fmt.Sprintf("endpoint %v has the name %q instead", e.Address, label)
	if !ready {
		why = fmt.Sprintf("endpoint %v is not ready; when it is, it has the name %q", e.Address, label)
	}
	for _, other := range []string{dashed(e.Address), e.Pod} {
		if other != label && other != "" {
			t.absent[under(text, other)] = why
		}
	}
}

// describeEndpoint says what an endpoint that has a name is.
func describeEndpoint(s *topology.Service, e *topology.Endpoint) string {
	state := "ready"
	if s.PublishNotReady {
		state = "published, ready or not"
	}
	if e.Pod != "" {
		state = "pod " + e.Pod + ", " + state
	}
	return fmt.Sprintf("endpoint %v of service %s (%s)", e.Address, s.Key(), state)
}

// addressHosts returns a host for each address of a service itself.
func addressHosts(text string, s *topology.Service, addrs []netip.Addr, what string) (hosts []host) {
	ports := make(map[string]uint16, len(s.Ports))
	for _, p := range s.Ports {
		ports[p.Name] = p.Port
	}
	for _, a := range addrs {
		hosts = append(hosts, host{name: dotted(text), addr: a, ports: ports, what: what})
	}
	return hosts
}

// srv adds an SRV record for each pair of a host and a port.
func (n *node) srv(ports []topology.Port, hosts []host) {
	for _, h := range hosts {
		for _, p := range ports {
			if number, ok := h.ports[p.Name]; ok {
				n.offer("SRV", fmt.Sprintf("%d %s", number, h.name), fmt.Sprintf("port %s: %s", portName(p), h.what))
			}
		}
	}
}

// ports adds the names of the named ports of a service.
func (t *tree) ports(s *topology.Service, text string, hosts []host) {
	for i, p := range s.Ports {
		if p.Name == "" || len(hosts) == 0 {
			continue
		}
		label := "_" + strings.ToLower(string(p.Protocol))
		at := under(text, label, "_"+p.Name)
		if !slices.ContainsFunc(hosts, func(h host) bool { _, ok := h.ports[p.Name]; return ok }) && !t.top.DNS.Compat {
			t.absent[at] = fmt.Sprintf("no ready endpoint of service %q has port %s", s.Key(), portName(p))
			continue
		}
		n := t.ensure(at)
		n.kind, n.object, n.note = "port", portName(p), "of service "+s.Key()
		n.srv(s.Ports[i:i+1], hosts)
		if t.top.DNS.Compat {
			for _, h := range hosts {
				if h.addr.IsValid() {
					n.address(h.addr, h.what)
				}
			}
		}
		protocol := t.ensure(under(text, label))
		protocol.kind, protocol.note = "protocol", "named ports by "+string(p.Protocol)+" are below it"
		protocol.below = func(string) string { return "no such named port; " + ports(s) }
	}
}

// portName returns a port in the form of "http/TCP".
func portName(p topology.Port) string {
	if p.Name == "" {
		return fmt.Sprintf("%d/%s", p.Port, p.Protocol)
	}
	return p.Name + "/" + string(p.Protocol)
}

// ports says what named ports a service has.
func ports(s *topology.Service) string {
	var names []string
	for _, p := range s.Ports {
		if p.Name != "" {
			names = append(names, portName(p))
		}
	}
	if len(names) == 0 {
		return fmt.Sprintf("service %q has no named port", s.Key())
	}
	return fmt.Sprintf("ports of service %q: %s", s.Key(), strings.Join(names, ", "))
}

// missingBelow returns what is said of names missing below that of a service.
func (t *tree) missingBelow(s *topology.Service) func(string) string {
	return func(label string) string {
		switch {
		case label == "_zone" && !s.Headless:
			return fmt.Sprintf("service %q is not headless: it has no names by topology zone", s.Key())
		case label == "_zone":
			return "names by topology zone are off: dns.zonal is not set"
		case strings.HasPrefix(label, "_"):
			return "no such protocol with named ports; " + ports(s)
		}
		return fmt.Sprintf("service %q has no endpoint of this name", s.Key())
	}
}
