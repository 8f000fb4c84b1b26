package zone

import (
	"bytes"
	"iter"
	"net/netip"
	"slices"

	"sluice/dns/wire"
)

// MayTransfer reports whether a client may have whole zones.
func (z *Zones) MayTransfer(client netip.Addr) bool {
	client = client.Unmap()
	return slices.ContainsFunc(z.source.dns.TransferTo, func(p netip.Prefix) bool { return p.Contains(client) })
}

// Secondaries returns the addresses that are to be told when the zones change: those that may transfer and stand alone.
func (z *Zones) Secondaries() (out []netip.Addr) {
	for _, p := range z.source.dns.TransferTo {
		if p.IsSingleIP() {
			out = append(out, p.Addr())
		}
	}
	return out
}

// Apexes returns the names of all zones in wire form, sorted.
func (z *Zones) Apexes() (out []string) {
	for i := range z.zones {
		out = append(out, z.zones[i].apex)
	}
	return out
}

// Zone returns the zone with an apex in wire form and lower case, or nil.
func (z *Zones) Zone(apex string) *Zone {
	if at, ok := z.apexes[apex]; ok {
		return &z.zones[at]
	}
	return nil
}

// Contents ranges over the names of a zone that have records, each with the types of these but SOA, in an order that is the same each
// time, the apex first. Zones below it are there by their name servers. Names that exist because they spell an address, and any name of
// a zonal fallback, are not among them: they are no records.
func (z *Zones) Contents(in *Zone) iter.Seq2[string, []uint16] {
	var records []record
	for r := range z.store.all() {
		if of := &z.zones[r.node().zone()]; of.number == in.number || z.cut(in, of, r.name()) {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b record) int {
		a, b = a.name(), b.name()
		if len(a) != len(b) {
			return len(a) - len(b) // nothing of a zone is shorter than its apex
		}
		return bytes.Compare(a, b)
	})
	return func(yield func(string, []uint16) bool) {
		for _, r := range records {
			types := r.node().types()
			if r.node().zone() != in.number {
				types = slices.DeleteFunc(types, func(t uint16) bool { return t != wire.TypeNS && t != wire.TypeA && t != wire.TypeAAAA })
			}
			if len(types) > 0 && !yield(string(r.name()), types) {
				return
			}
		}
	}
}

// cut reports whether a name of the zone child belongs to the delegation of that zone from in: its apex, or its name server.
func (z *Zones) cut(in, child *Zone, name []byte) bool {
	if string(name) != child.apex && string(name) != child.server+child.apex {
		return false
	}
	for above := wire.Parent(child.apex); above != "\x00"; above = wire.Parent(above) {
		if at, ok := z.apexes[above]; ok {
			return at == in.number
		}
	}
	return false
}
