package zone

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

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
	c := &compiler{top: t, ttl: t.DNS.TTL, names: map[string]*name{}, apexes: map[string]int{}}
	if err := c.start(serial); err != nil {
		return nil, err
	}
	if err := c.gather(); err != nil {
		return nil, err
	}
	z := c.pack(serial)
	var err error
	if z.outside, err = newOutside(&t.DNS); err != nil {
		return nil, fmt.Errorf("dns.stub: %w", err)
	}
	if z.search, err = searchPaths(t, c.domain); err != nil {
		return nil, fmt.Errorf("dns.search: %w", err)
	}
	return z, nil
}

// compiler holds what Compile gathers.
type compiler struct {
	top      *topology.Topology
	ttl      uint32
	zones    []Zone         // see Zones
	apexes   map[string]int // see Zones
	domain   string         // the apex of the cluster's domain
	external string         // that of the external zone; "": there is none
	names    map[string]*name

	// Of an update: what is gathered, the zones that there were, and what becomes of names.
	only     *selection
	alone    bool // what objects that are not selected add to the names is not asked for
	previous *Zones
	changes  map[string]*change

	out         writer
	head        int    // where the node begins that is being written
	body, tails []byte // memory for the answer that is being packed
}

// start finds out which zones there are.
func (c *compiler) start(serial uint32) (err error) {
	if c.domain, err = wire.Name(c.top.Cluster.Domain); err != nil {
		return fmt.Errorf("cluster.domain: %w", err)
	}
	if c.external, err = externalApex(c.top); err != nil {
		return err
	}
	usual := newSOA(nameServer, c.ttl, serial)
	c.zone(c.domain, nameServer, usual)
	for _, p := range c.top.DNS.ReverseZones {
		for _, apex := range reverseApexes(p) {
			c.zone(apex, nameServer, usual)
		}
	}
	if c.external != "" {
		c.zone(c.external, externalServer, newSOA(externalServer, c.ttl, serial))
	}
	slices.SortFunc(c.zones, func(a, b Zone) int { return strings.Compare(a.apex, b.apex) })
	for i := range c.zones {
		c.zones[i].number = i
		c.apexes[c.zones[i].apex] = i
	}
	return nil
}

// zone starts a zone with the name of its server, without the apex; to start one twice is to start it once.
func (c *compiler) zone(apex, server string, s *soa) {
	if _, twice := c.apexes[apex]; !twice {
		c.apexes[apex] = 0 // start sets the number
		c.zones = append(c.zones, Zone{apex: apex, server: server, ttl: c.ttl, soa: s})
	}
}

// gather collects the names.
func (c *compiler) gather() error {
	c.apexRecords()
	c.set(c.ensure(schemaLabel+c.domain), wire.TypeTXT, schemaTTL, rr{data: string(byte(len(schemaVersion))) + schemaVersion})
	for _, step := range []func() error{c.services, c.pods, c.externals} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// nameServer is the name of the server in all zones but the external one, without the apex.
const nameServer = "\x02ns\x03dns"

// apexRecords gives each zone its name server, with the addresses at which it is reached from where the zone is for; a server that
// none is known of has a name and no address.
func (c *compiler) apexRecords() {
	inside, outside := serverAddrs(c.top)
	for i := range c.zones {
		z, addrs := &c.zones[i], inside
		if !c.only.apex(z.apex) {
			continue
		}
		if z.apex == c.external {
			addrs = outside
		}
		c.set(c.ensure(z.apex), wire.TypeNS, c.ttl, rr{target: z.server + z.apex})
		server := c.ensure(z.server + z.apex)
		for _, a := range addrs {
			c.address(server, a)
		}
	}
}

// serverAddrs returns the addresses of the name servers: those that the gateway answers at, or the cluster's DNS service
// has; and for the external zone those that this service has outside.
func serverAddrs(t *topology.Topology) (inside, outside []netip.Addr) {
	service := &topology.Service{}
	for i := range t.Services {
		if s := &t.Services[i]; s.Namespace == dnsNamespace && s.Name == dnsName {
			service = s
		}
	}
	inside = t.DNS.Addresses
	if len(inside) == 0 {
		inside = service.ClusterIPs
	}
	if outside = externalAddrs(service); len(outside) == 0 {
		outside = inside
	}
	return inside, outside
}

// The service by which the pods of a cluster reach its DNS, under the name that every distribution gives it.
const dnsNamespace, dnsName = "kube-system", "kube-dns"
