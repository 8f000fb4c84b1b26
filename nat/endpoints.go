package nat

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/nat/maglev"
	"sluice/xdp/packet"
)

// backends returns the endpoints of svc that serve p, each address and port once, sorted. Of two entries for one
// address the later wins unless it is terminating: a running pod beats the ghost of an earlier one that had its
// address (kubernetes/kubernetes#135266).
func (c *compiler) backends(svc *topology.Service, p *Port) []*Backend {
	at := make(map[netip.AddrPort]*topology.Endpoint, len(svc.Endpoints))
	for i := range svc.Endpoints {
		e := &svc.Endpoints[i]
		port := e.Ports[p.Name]
		if port == 0 {
			continue
		}
		addr := netip.AddrPortFrom(e.Address.Unmap(), port)
		if _, twice := at[addr]; !twice || !e.Terminating {
			at[addr] = e
		}
	}
	list := make([]*Backend, 0, len(at))
	for addr, e := range at {
		list = append(list, c.backend(p, addr, e))
	}
	slices.SortFunc(list, compareBackends)
	c.number(p, list)
	return list
}

// backend returns the Backend, without number, of endpoint e behind p.
func (c *compiler) backend(p *Port, addr netip.AddrPort, e *topology.Endpoint) *Backend {
	return &Backend{
		Addr:     packet.AddrFrom(addr.Addr()),
		AddrPort: addr,
		Port:     addr.Port(),
		Weight:   e.Weight,
		Local:    e.Node != "" && e.Node == c.top.Gateway.Node,
		Down:     c.opts.Down != nil && c.opts.Down(p.Service.Key(), p.Name, addr),
		Endpoint: e,
		owner:    p,
	}
}

// number gives the backends of p their numbers, in their order so that the first generation is numbered alike on
// every start.
func (c *compiler) number(p *Port, list []*Backend) {
	prefix := p.key + "/" + packet.ProtoName(p.Proto) + "/"
	for _, b := range list {
		b.ID = c.table.backendNames.id(prefix + b.AddrPort.String())
		c.table.backendByID[b.ID] = b
	}
}

// compareBackends orders by the text of the address, then by port.
func compareBackends(a, b *Backend) int {
	if a.Addr == b.Addr {
		return cmp.Compare(a.Port, b.Port)
	}
	return cmp.Compare(a.AddrPort.Addr().String(), b.AddrPort.Addr().String())
}

// ofFamily returns the backends of family f.
func ofFamily(all []*Backend, f family) []*Backend {
	var out []*Backend
	for _, b := range all {
		if familyOf(b.Addr) == f {
			out = append(out, b)
		}
	}
	return out
}

// eligible returns those of all that new flows may go to: the ready ones or, when there is none, those that are on
// their way out and still serve (KEP-1669). An endpoint that is down or has no weight is as if it were not there.
// With localOnly, only those of this node count, for either step. ready says which of the two steps it was.
func eligible(all []*Backend, localOnly bool) (list []*Backend, ready bool) {
	var leaving []*Backend
	for _, b := range all {
		switch e := b.Endpoint; {
		case b.Down || b.Weight == 0 || localOnly && !b.Local:
		case e.Ready:
			list = append(list, b)
		case e.Serving && e.Terminating:
			leaving = append(leaving, b)
		}
	}
	if len(list) > 0 {
		return list, true
	}
	return leaving, false
}

// near returns the endpoints of the Cluster set: those that topology hints leave of the ready ones. Those on their way
// out are taken wherever they are.
func near(all []*Backend, gw *topology.Gateway) []*Backend {
	list, ready := eligible(all, false)
	if !ready {
		return list
	}
	return chooseHints(list, gw.Node, gw.Zone).mode.follow(list, gw.Node, gw.Zone)
}

// tableKey identifies a Maglev table by content: the hash of the names and weights it was built of, and its size.
type tableKey struct {
	content [sha256.Size]byte
	size    int
}

// set returns backends of svc with their Maglev table, and marks them as being in the set. Sets of equal names and weights
// share a table, which is taken over from the previous generation where it has it: a set that has not changed costs no
// build.
func (c *compiler) set(svc *topology.Service, bit setBit, backends []*Backend) (set, error) {
	s := set{backends: backends, bit: bit}
	for _, b := range backends {
		b.in |= bit
	}
	if svc.SessionAffinity && svc.AffinityPerService {
		s.byAddr = byAddress(backends)
	}
	if len(backends) < 2 {
		return s, nil
	}
	targets := s.targets()
	key := tableKey{contentHash(targets), c.opts.TableSize}
	table, ok := c.table.tables[key]
	if !ok && c.opts.Previous != nil {
		table, ok = c.opts.Previous.tables[key]
	}
	if !ok {
		var err error
		if table, err = maglev.Build(targets, c.opts.TableSize); err != nil {
			return set{}, err
		}
	}
	c.table.tables[key] = table
	s.table = table
	return s, nil
}

// byAddress returns the first backend of each address.
func byAddress(backends []*Backend) map[packet.Addr]*Backend {
	m := make(map[packet.Addr]*Backend, len(backends))
	for _, b := range backends {
		if _, twice := m[b.Addr]; !twice {
			m[b.Addr] = b
		}
	}
	return m
}

// targets returns the backends as Maglev knows them: by address and port. Where clients stick to one address at every port
// of the service, that is their name, unless two share one: so the ports choose alike.
func (s *set) targets() []maglev.Backend {
	targets := make([]maglev.Backend, len(s.backends))
	byAddr := len(s.byAddr) == len(s.backends)
	for i, b := range s.backends {
		targets[i] = maglev.Backend{Name: b.AddrPort.String(), Weight: b.Weight}
		if byAddr {
			targets[i].Name = b.AddrPort.Addr().String()
		}
	}
	return targets
}

// contentHash returns a hash of names and weights in their order, which is that of sets: sorted.
func contentHash(targets []maglev.Backend) [sha256.Size]byte {
	text := make([]byte, 0, 64*len(targets))
	for _, b := range targets {
		text = append(append(text, b.Name...), 0)
		text = binary.BigEndian.AppendUint64(text, uint64(b.Weight))
	}
	return sha256.Sum256(text)
}
