package nat

import (
	"fmt"
	"net/netip"

	"sluice/config/topology"
	"sluice/nat/maglev"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// proxyNameLabel marks services that another proxy serves (k8s.io/api/core/v1 well-known labels).
const proxyNameLabel = "service.kubernetes.io/service-proxy-name"

// CompileOptions are what a table depends on besides the topology.
type CompileOptions struct {
	// Down says which endpoints fail their health check; nil: none. service is "namespace/name", port the name of the
	// service port.
	Down func(service, port string, addr netip.AddrPort) bool
	// Previous is the generation before: the new one takes over its numbers of ports and backends, and its Maglev
	// tables of sets that have not changed. It may be nil, and is not kept alive.
	Previous *Table
	// TableSize is the number of slots of the Maglev tables, a prime; 0 means maglev.DefaultSize.
	TableSize int
}

// Compile builds the table of t, which it refers to from then on. Headless and ExternalName services have no ports in
// it, and services of another proxy only keep their addresses from being taken for unallocated ones.
func Compile(t *topology.Topology, opts CompileOptions) (*Table, error) {
	if opts.TableSize == 0 {
		opts.TableSize = maglev.DefaultSize
	}
	c := compiler{opts: opts, top: t, table: newTable(t, opts.Previous), routed: routedPorts(t)}
	for i := range t.Services {
		if err := c.service(&t.Services[i]); err != nil {
			return nil, fmt.Errorf("service %s: %w", t.Services[i].Key(), err)
		}
	}
	return c.table, c.addRoutes()
}

// newTable returns the table of a topology without services.
func newTable(t *topology.Topology, previous *Table) *Table {
	if previous == nil {
		previous = &Table{}
	}
	gw := &t.Gateway
	table := &Table{
		fronts:        map[frontKey]front{},
		nodePorts:     map[nodePortKey]*Port{},
		addrs:         map[packet.Addr]addrUse{},
		ranges:        prefixesFrom(t.Cluster.ServiceCIDRs),
		pods:          prefixesFrom(gw.PodCIDRs),
		local:         addrSet(gw.LocalAddresses),
		nodeAddrs:     addrSet(gw.NodePortAddresses),
		masqueradeAll: gw.MasqueradeAll,
		gateway:       gw,
		cluster:       &t.Cluster,
		serial:        previous.serial + 1,
		portNames:     previous.portNames.next(),
		backendNames:  previous.backendNames.next(),
		portByID:      map[uint32]*Port{},
		backendByID:   map[uint32]*Backend{},
		tables:        map[tableKey]*maglev.Table{},
	}
	for _, a := range gw.SNATAddresses {
		f := familyOfIP(a)
		table.snat[f], table.hasSNAT[f] = packet.AddrFrom(a), true
	}
	return table
}

// addrSet returns the addresses as a set.
func addrSet(list []netip.Addr) map[packet.Addr]struct{} {
	set := make(map[packet.Addr]struct{}, len(list))
	for _, a := range list {
		set[packet.AddrFrom(a)] = struct{}{}
	}
	return set
}

// compiler fills a table.
type compiler struct {
	opts   CompileOptions
	top    *topology.Topology
	table  *Table
	routed map[routedKey]bool
}

// service adds the ports of svc.
func (c *compiler) service(svc *topology.Service) error {
	if svc.Headless || svc.Type == topology.ExternalName {
		return nil
	}
	if _, other := svc.Labels[proxyNameLabel]; other {
		c.claim(svc, foreign)
		return nil
	}
	c.claim(svc, served)
	first := len(c.table.ports)
	for i := range svc.Ports {
		if err := c.port(svc, &svc.Ports[i]); err != nil {
			return fmt.Errorf("port %d/%s: %w", svc.Ports[i].Port, svc.Ports[i].Protocol, err)
		}
	}
	c.stick(svc, c.table.ports[first:])
	return nil
}

// claim notes what use svc makes of its addresses.
func (c *compiler) claim(svc *topology.Service, use addrUse) {
	for f := range families {
		if !hasFamily(svc, f) {
			continue
		}
		for _, list := range [][]netip.Addr{svc.ClusterIPs, vipsOf(svc), svc.ExternalIPs} {
			for _, a := range addrsOf(list, f) {
				c.table.addrs[a] |= use
			}
		}
	}
}

// port adds one port of svc.
func (c *compiler) port(svc *topology.Service, tp *topology.Port) error {
	proto, err := protocolNumber(tp.Protocol)
	if err != nil {
		return err
	}
	p := &Port{Service: svc, Name: tp.Name, Proto: proto, Port: tp.Port, NodePort: tp.NodePort, key: portKey(svc, tp),
		routed: c.routed[routedKey{svc.Key(), tp.Name, tp.Protocol}]}
	// A port that changes its protocol is another port: flows of the old one must not be counted as its own.
	p.ID = c.table.portNames.id(p.key + "/" + string(tp.Protocol))
	c.table.ports = append(c.table.ports, p)
	c.table.portByID[p.ID] = p
	p.backends = c.backends(svc, p)
	for f := range families {
		if !hasFamily(svc, f) {
			continue
		}
		if err := c.half(p, f); err != nil {
			return err
		}
		if err := c.fronts(p, f); err != nil {
			return err
		}
	}
	return nil
}

// portKey returns the name of a service port, as Kubernetes prints it.
func portKey(svc *topology.Service, tp *topology.Port) string {
	if tp.Name == "" {
		return svc.Key()
	}
	return svc.Key() + ":" + tp.Name
}

// protocolNumber returns the IANA number of p.
func protocolNumber(p topology.Protocol) (uint8, error) {
	switch p {
	case topology.TCP:
		return packet.ProtoTCP, nil
	case topology.UDP:
		return packet.ProtoUDP, nil
	case topology.SCTP:
		return packet.ProtoSCTP, nil
	}
	return 0, fmt.Errorf("protocol %q: must be TCP, UDP or SCTP", p)
}

// half compiles what p is in family f. The sets are those that some way into the port uses: the Cluster set also
// under external policy Local, for pods and the node itself (kube-proxy's CategorizeEndpoints).
func (c *compiler) half(p *Port, f family) error {
	svc, h := p.Service, &p.halves[f]
	all := ofFamily(p.backends, f)
	cluster := near(all, &c.top.Gateway)
	h.served, h.usable = true, len(cluster) > 0
	h.ranges = newSourceRanges(svc, f, c.primary(f))
	external := isExternal(p, f)
	var err error
	if svc.InternalTrafficPolicy != topology.PolicyLocal || external {
		if h.cluster, err = c.set(svc, clusterSet, cluster); err != nil {
			return err
		}
	}
	if svc.InternalTrafficPolicy == topology.PolicyLocal || svc.ExternalTrafficPolicy == topology.PolicyLocal && external {
		local, _ := eligible(all, true)
		h.local, err = c.set(svc, localSet, local)
	}
	return err
}

// primary returns the gateway's first address of family f, invalid when it has none.
func (c *compiler) primary(f family) netip.Addr {
	for _, a := range c.top.Gateway.LocalAddresses {
		if familyOfIP(a) == f {
			return a
		}
	}
	return netip.Addr{}
}

// fronts adds the ways into p in family f. A VIP that is an external IP of the same service too is a VIP: its source
// ranges must not be evaded.
func (c *compiler) fronts(p *Port, f family) error {
	for _, way := range []struct {
		addrs []netip.Addr
		kind  reason.Reason
	}{
		{p.Service.ClusterIPs, reason.ClusterIP},
		{vipsOf(p.Service), reason.LoadBalancer},
		{p.Service.ExternalIPs, reason.ExternalIP},
	} {
		for _, a := range addrsOf(way.addrs, f) {
			key := frontKey{a, p.Port, p.Proto}
			if taken, ok := c.table.fronts[key]; ok {
				if taken.port == p && way.kind == reason.ExternalIP {
					continue
				}
				return fmt.Errorf("address %s is taken by %s", a, taken.port)
			}
			c.table.fronts[key] = front{port: p, kind: way.kind}
		}
	}
	return c.nodePort(p, f)
}

// nodePort adds the NodePort of p in family f, if it has one.
func (c *compiler) nodePort(p *Port, f family) error {
	if p.NodePort == 0 {
		return nil
	}
	key := nodePortKey{f, p.Proto, p.NodePort}
	if taken, ok := c.table.nodePorts[key]; ok {
		return fmt.Errorf("node port %d is taken by %s", p.NodePort, taken)
	}
	c.table.nodePorts[key] = p
	return nil
}

// hasFamily reports whether svc exists in family f: it has a ClusterIP of it.
func hasFamily(svc *topology.Service, f family) bool { return len(addrsOf(svc.ClusterIPs, f)) > 0 }

// vipsOf returns the load-balancer addresses that are intercepted: none when the load balancer wants the traffic
// itself.
func vipsOf(svc *topology.Service) []netip.Addr {
	if svc.LoadBalancerProxyMode {
		return nil
	}
	return svc.LoadBalancerIPs
}

// isExternal reports whether p can be reached from outside the cluster in family f.
func isExternal(p *Port, f family) bool {
	return p.routed || p.NodePort != 0 || len(addrsOf(vipsOf(p.Service), f)) > 0 || len(addrsOf(p.Service.ExternalIPs, f)) > 0
}
