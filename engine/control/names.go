package control

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"sluice/config/topology"
	"sluice/dns/zone"
	"sluice/xdp/packet"
)

// Names is what the gateway answers DNS with. It is immutable.
type Names struct {
	Zones *zone.Zones
	Addrs []netip.Addr // where it answers: port 53 of each, before any service there
	TLS   bool         // and TCP port 853
	keys  []packet.Addr
}

// The ports of DNS over UDP and TCP (RFC 1035 section 4.2), and over TLS (RFC 7858 section 3.1).
const (
	dnsPort    = 53
	dnsTLSPort = 853
)

// Takes reports whether a packet is for the gateway's DNS server. n may be nil.
func (n *Names) Takes(t *packet.Tuple) bool {
	return n != nil && n.serves(t.Proto, t.DstPort) && slices.Contains(n.keys, t.Dst)
}

// serves reports whether a port is the server's.
func (n *Names) serves(proto uint8, port uint16) bool {
	switch port {
	case dnsPort:
		return proto == packet.ProtoUDP || proto == packet.ProtoTCP
	case dnsTLSPort:
		return n.TLS && proto == packet.ProtoTCP
	}
	return false
}

// Sent reports whether a packet is one of the gateway's DNS server.
func (n *Names) Sent(t *packet.Tuple) bool {
	reverse := t.Reverse()
	return n.Takes(&reverse)
}

// names compiles what a topology answers, nil when it answers nowhere. That of the generation before stays for an unchanged topology:
// health does not change names.
func names(t *topology.Topology, previous *Snapshot) (*Names, error) {
	if len(t.DNS.Addresses) == 0 {
		return nil, nil
	}
	var before *zone.Zones
	if previous != nil && previous.Names != nil {
		if previous.Topology == t {
			return previous.Names, nil
		}
		before = previous.Names.Zones
	}
	z, err := zone.Next(t, before, time.Now())
	if err != nil {
		return nil, fmt.Errorf("compiling the DNS zones: %w", err)
	}
	n := &Names{Zones: z, Addrs: t.DNS.Addresses, TLS: t.DNS.TLSCertificate != ""}
	for _, a := range t.DNS.Addresses {
		n.keys = append(n.keys, packet.AddrFrom(a))
	}
	return n, nil
}
