package zone

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// The fixed values of SOA records, in seconds. The minimum, for how long a resolver may remember that something does not
// exist, is the TTL of the zone (RFC 2308 section 5): a new service must not stay invisible for longer than a changed one.
const (
	soaRefresh = 7200
	soaRetry   = 1800
	soaExpire  = 86400
	soaMaxTTL  = 300
)

// schemaVersion is the version of the Kubernetes DNS specification that the records follow, and schemaTTL how long a
// resolver may keep it.
const (
	schemaLabel   = "\x0bdns-version"
	schemaVersion = "1.1.0"
	schemaTTL     = 28800
)

// Compile builds the zones of a topology. serial is the SOA serial, which must grow with each change (RFC 1982). It fails
// when a name is too long for DNS, saying which object has it.
func Compile(t *topology.Topology, serial uint32) (*Zones, error) {
	c := &compiler{top: t, ttl: t.DNS.TTL, serial: serial, names: map[string]*name{}, apexes: map[string]*Zone{}}
	domain, err := wire.Name(t.Cluster.Domain)
	if err != nil {
		return nil, fmt.Errorf("cluster.domain: %w", err)
	}
	c.domain = c.zone(domain, nameServer)
	for _, p := range t.DNS.ReverseZones {
		for _, apex := range reverseApexes(p) {
			c.zone(apex, nameServer)
		}
	}
	if err := c.externalZone(); err != nil {
		return nil, err
	}
	c.apexRecords()
	c.set(c.ensure(schemaLabel+domain), wire.TypeTXT, schemaTTL, rr{data: string(byte(len(schemaVersion))) + schemaVersion})
	for _, step := range []func() error{c.services, c.pods, c.externals} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	z := c.pack()
	if z.outside, err = newOutside(&t.DNS); err != nil {
		return nil, fmt.Errorf("dns.stub: %w", err)
	}
	if z.search, err = searchPaths(t, domain); err != nil {
		return nil, fmt.Errorf("dns.search: %w", err)
	}
	return z, nil
}

// compiler holds what Compile gathers.
type compiler struct {
	top      *topology.Topology
	ttl      uint32
	serial   uint32
	domain   *Zone
	external *Zone // nil: there is none
	names    map[string]*name
	apexes   map[string]*Zone
}

// zone starts a zone with the name of its server, without the apex; to start one twice is to start it once.
func (c *compiler) zone(apex, server string) *Zone {
	if z := c.apexes[apex]; z != nil {
		return z
	}
	z := &Zone{apex: apex, server: server, ttl: c.ttl}
	z.soa, z.ptrs = soaTemplate(server, c.ttl, c.serial)
	c.apexes[apex] = z
	return z
}

// soaTemplate returns the SOA record of any zone, and where pointers to the apex belong in it.
func soaTemplate(server string, ttl, serial uint32) (soa []byte, ptrs [3]int) {
	b := binary.BigEndian
	soa = append(soa, 0, 0)
	soa = b.AppendUint16(soa, wire.TypeSOA)
	soa = b.AppendUint16(soa, wire.ClassIN)
	soa = b.AppendUint32(soa, min(ttl, soaMaxTTL))
	length := len(soa)
	soa = append(soa, 0, 0)
	soa = append(soa, server...)
	ptrs[1] = len(soa)
	soa = append(soa, 0, 0)
	soa = append(soa, "\x0ahostmaster"...)
	ptrs[2] = len(soa)
	soa = append(soa, 0, 0)
	for _, v := range []uint32{serial, soaRefresh, soaRetry, soaExpire, ttl} {
		soa = b.AppendUint32(soa, v)
	}
	b.PutUint16(soa[length:], uint16(len(soa)-length-2))
	return soa, ptrs
}

// nameServer is the name of the server in all zones but the external one, without the apex.
const nameServer = "\x02ns\x03dns"

// apexRecords gives each zone its name server, with the addresses at which it is reached from where the zone is for; a server that
// none is known of has a name and no address.
func (c *compiler) apexRecords() {
	for apex, z := range c.apexes {
		c.set(c.ensure(apex), wire.TypeNS, c.ttl, rr{target: z.server + apex})
		server := c.ensure(z.server + apex)
		for _, a := range c.serverAddrs(z) {
			c.address(server, a)
		}
	}
}

// serverAddrs returns the addresses of the name server of a zone: those that the gateway answers at, or the cluster's DNS service
// has; for the external zone those that this service has outside.
func (c *compiler) serverAddrs(z *Zone) []netip.Addr {
	service := &topology.Service{}
	if i := slices.IndexFunc(c.top.Services, func(s topology.Service) bool { return s.Key() == dnsService }); i >= 0 {
		service = &c.top.Services[i]
	}
	outside := externalAddrs(service)
	switch {
	case z == c.external && len(outside) > 0:
		return outside
	case len(c.top.DNS.Addresses) > 0:
		return c.top.DNS.Addresses
	}
	return service.ClusterIPs
}

// dnsService is the service by which the pods of a cluster reach its DNS, under the name that every distribution gives it.
const dnsService = "kube-system/kube-dns"
