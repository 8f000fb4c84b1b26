package zone

import (
	"bytes"
	"encoding/binary"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// Next builds the zones of a topology that follow on previous, which may be nil. Their serial is that of previous if a query can tell no
// difference between both, and a later one (RFC 1982) if any can: secondaries fetch what has changed, and nothing else. It fails as
// Compile does.
func Next(t *topology.Topology, previous *Zones, now time.Time) (*Zones, error) {
	if previous == nil {
		return Compile(t, uint32(now.Unix()))
	}
	z, err := Compile(t, previous.serial)
	if err != nil {
		return nil, err
	}
	if !z.same(previous) {
		z.setSerial(nextSerial(previous.serial, now))
	}
	return z, nil
}

// nextSerial returns the serial behind old: the time in seconds, or one more than old when that is not later. It is never 0, which some
// secondaries take for none.
func nextSerial(old uint32, now time.Time) uint32 {
	serial := uint32(now.Unix())
	if int32(serial-old) <= 0 { // RFC 1982
		serial = old + 1
	}
	return max(serial, 1)
}

// Serial returns the serial of all zones.
func (z *Zones) Serial() uint32 { return z.serial }

// serialFromEnd is where the serial stands in an SOA record, counted from its end.
const serialFromEnd = 20

// setSerial writes a new serial into what nobody reads yet.
func (z *Zones) setSerial(serial uint32) {
	z.serial = serial
	for _, zone := range z.apexes {
		binary.BigEndian.PutUint32(zone.soa[len(zone.soa)-serialFromEnd:], serial)
		for _, a := range z.nodes[zone.apex].answers {
			if a.Type == wire.TypeSOA {
				zone.PutSOA(a.Body, len(zone.apex))
			}
		}
	}
}

// same reports whether both answer every query in the same way.
func (z *Zones) same(o *Zones) bool {
	if len(z.nodes) != len(o.nodes) || len(z.apexes) != len(o.apexes) || !sameAnswers(sorted(z.chaos), sorted(o.chaos)) {
		return false
	}
	for apex, zone := range z.apexes {
		if p := o.apexes[apex]; p == nil || !bytes.Equal(zone.soa, p.soa) {
			return false
		}
	}
	for text, n := range z.nodes {
		p := o.nodes[text]
		if p == nil || n.zone.apex != p.zone.apex || n.pods != p.pods || (n.below == nil) != (p.below == nil) ||
			!sameAnswers(n.answers, p.answers) || n.below != nil && !sameAnswers(n.below.answers, p.below.answers) {
			return false
		}
	}
	return true
}

// sorted returns the values of a map by key. Answers of one key are compared with those of the same, or of another number of keys.
func sorted(m map[string]*Answer) (out []*Answer) {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		out = append(out, m[k])
	}
	return out
}

func sameAnswers(a, b []*Answer) bool {
	return slices.EqualFunc(a, b, func(a, b *Answer) bool {
		return a.Type == b.Type && a.RCode == b.RCode && a.Negative == b.Negative && a.Records == b.Records && bytes.Equal(a.Body, b.Body)
	})
}

// MayTransfer reports whether a client may have whole zones.
func (z *Zones) MayTransfer(client netip.Addr) bool {
	client = client.Unmap()
	return slices.ContainsFunc(z.transfer, func(p netip.Prefix) bool { return p.Contains(client) })
}

// Secondaries returns the addresses that are to be told when the zones change: those that may transfer and stand alone.
func (z *Zones) Secondaries() (out []netip.Addr) {
	for _, p := range z.transfer {
		if p.IsSingleIP() {
			out = append(out, p.Addr())
		}
	}
	return out
}

// Apexes returns the names of all zones in wire form, sorted.
func (z *Zones) Apexes() (out []string) {
	for apex := range z.apexes {
		out = append(out, apex)
	}
	slices.Sort(out)
	return out
}

// Zone returns the zone with an apex in wire form and lower case, or nil.
func (z *Zones) Zone(apex string) *Zone { return z.apexes[apex] }

// Contents ranges over the names of a zone that have records, each with the types of these but SOA, in an order that is the same each
// time, the apex first. Zones below it are there by their name servers. Names that exist because they spell an address, and any name of
// a zonal fallback, are not among them: they are no records.
func (z *Zones) Contents(in *Zone) iter.Seq2[string, []uint16] {
	var names []string
	for text, n := range z.nodes {
		if n.zone == in || z.cut(in, text, n) {
			names = append(names, text)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b) // nothing of a zone is shorter than its apex
		}
		return strings.Compare(a, b)
	})
	return func(yield func(string, []uint16) bool) {
		for _, text := range names {
			types := recordTypes(z.nodes[text])
			if z.nodes[text].zone != in {
				types = slices.DeleteFunc(types, func(t uint16) bool { return t != wire.TypeNS && t != wire.TypeA && t != wire.TypeAAAA })
			}
			if len(types) > 0 && !yield(text, types) {
				return
			}
		}
	}
}

// cut reports whether a node of another zone belongs to the delegation of that zone from in: its apex, or its name server.
func (z *Zones) cut(in *Zone, text string, n *Node) bool {
	child := n.zone
	if text != child.apex && text != child.server+child.apex {
		return false
	}
	for above := wire.Parent(child.apex); above != "\x00"; above = wire.Parent(above) {
		if parent := z.apexes[above]; parent != nil {
			return parent == in
		}
	}
	return false
}

// recordTypes returns the types of the records that a node has itself.
func recordTypes(n *Node) (types []uint16) {
	for _, a := range n.answers {
		switch {
		case a.Type == wire.TypeCNAME:
			return []uint16{wire.TypeCNAME}
		case a.Type != 0 && a.Type != wire.TypeSOA:
			types = append(types, a.Type)
		}
	}
	return types
}
