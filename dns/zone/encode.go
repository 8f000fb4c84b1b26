package zone

import (
	"encoding/binary"
	"net/netip"

	"sluice/config/topology"
)

// appendService writes of a service what its names and records depend on, so that two of the same bytes have the same ones.
func appendService(b []byte, d *topology.DNS, s *topology.Service) []byte {
	for _, text := range []string{s.Namespace, s.Name, string(s.Type), s.ExternalName} {
		b = appendText(b, text)
	}
	b = appendBool(b, s.Headless)
	for _, list := range [][]netip.Addr{s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs} {
		b = appendAddrs(b, list)
	}
	b = binary.AppendUvarint(b, uint64(len(s.LoadBalancerHostnames)))
	for _, name := range s.LoadBalancerHostnames {
		b = appendText(b, name)
	}
	b = binary.AppendUvarint(b, uint64(len(s.Ports)))
	for i := range s.Ports {
		p := &s.Ports[i]
		b = appendText(appendText(b, p.Name), string(p.Protocol))
		b = binary.AppendUvarint(b, uint64(p.Port))
	}
	shown := published(s)
	for i := range s.Endpoints {
		if shown(s.Endpoints[i]) {
			b = appendEndpoint(b, d, s.Ports, &s.Endpoints[i])
		}
	}
	return b
}

// appendEndpoint writes an endpoint that has names.
func appendEndpoint(b []byte, d *topology.DNS, ports []topology.Port, e *topology.Endpoint) []byte {
	b = appendAddr(b, e.Address)
	b = appendText(b, e.Hostname)
	if d.PodNames {
		b = appendText(b, e.Pod)
	} else {
		b = appendText(b, "")
	}
	if d.Zonal {
		b = appendText(b, e.Zone)
	} else {
		b = appendText(b, "")
	}
	for i := range ports {
		number, ok := e.Ports[ports[i].Name]
		if b = appendBool(b, ok); ok {
			b = binary.BigEndian.AppendUint16(b, number)
		}
	}
	return b
}

// appendPod writes a pod that has names, or had if its namespace were shown, behind the length of what it writes.
func appendPod(b []byte, p *topology.Pod) []byte {
	if p.Ended() || len(p.Addresses) == 0 {
		return b
	}
	start := len(b)
	b = append(b, 0, 0)
	b = appendAddrs(appendText(b, p.Namespace), p.Addresses)
	binary.BigEndian.PutUint16(b[start:], uint16(len(b)-start-podHead))
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendAddrs(b []byte, list []netip.Addr) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	for _, a := range list {
		b = appendAddr(b, a)
	}
	return b
}

// appendAddr writes an address. None has a scope: names and records could not hold it.
func appendAddr(b []byte, a netip.Addr) []byte {
	if a.Is4() {
		v4 := a.As4()
		return append(append(b, 4), v4[:]...)
	}
	if !a.IsValid() {
		return append(b, 0)
	}
	v6 := a.As16()
	return append(append(b, 16), v6[:]...)
}

// reader reads what these have written.
type reader struct{ rest []byte }

func (r *reader) service() (s topology.Service) {
	s.Namespace, s.Name, s.Type, s.ExternalName = r.text(), r.text(), topology.ServiceType(r.text()), r.text()
	s.Headless = r.bool()
	s.ClusterIPs, s.ExternalIPs, s.LoadBalancerIPs = r.addrs(), r.addrs(), r.addrs()
	for range r.number() {
		s.LoadBalancerHostnames = append(s.LoadBalancerHostnames, r.text())
	}
	for range r.number() {
		s.Ports = append(s.Ports, topology.Port{Name: r.text(), Protocol: topology.Protocol(r.text()), Port: uint16(r.number())})
	}
	for len(r.rest) > 0 {
		s.Endpoints = append(s.Endpoints, r.endpoint(s.Ports))
	}
	return s
}

func (r *reader) endpoint(ports []topology.Port) topology.Endpoint {
	e := topology.Endpoint{Address: r.addr(), Hostname: r.text(), Pod: r.text(), Zone: r.text(), Ready: true, Ports: map[string]uint16{}}
	for i := range ports {
		if r.bool() {
			e.Ports[ports[i].Name] = binary.BigEndian.Uint16(r.take(2))
		}
	}
	return e
}

func (r *reader) pod() topology.Pod {
	return topology.Pod{Namespace: r.text(), Addresses: r.addrs()}
}

func (r *reader) take(n int) (b []byte) {
	b, r.rest = r.rest[:n], r.rest[n:]
	return b
}

func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string { return string(r.take(int(r.number()))) }

func (r *reader) bool() bool { return r.take(1)[0] == 1 }

func (r *reader) addrs() (list []netip.Addr) {
	for range r.number() {
		list = append(list, r.addr())
	}
	return list
}

func (r *reader) addr() netip.Addr {
	a, _ := netip.AddrFromSlice(r.take(int(r.take(1)[0]))) // the zero Addr of no bytes
	return a
}
