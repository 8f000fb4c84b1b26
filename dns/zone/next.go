package zone

import (
	"bytes"
	"maps"
	"time"

	"sluice/config/topology"
)

// Next builds the zones of a topology that follow on previous, which may be nil. Their serial is that of previous if a query can tell no
// difference between both, and a later one (RFC 1982) if any can: secondaries fetch what has changed, and nothing else. It fails as
// Compile does.
func Next(t *topology.Topology, previous *Zones, now time.Time) (*Zones, error) {
	if previous == nil {
		return Compile(t, uint32(now.Unix()))
	}
	z, differs := previous.update(t)
	if z == nil {
		var err error
		if z, err = Compile(t, previous.serial); err != nil {
			return nil, err
		}
		differs = !z.same(previous)
	}
	if differs {
		z = z.withSerial(nextSerial(previous.serial, now))
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

// withSerial returns the zones with another serial.
func (z *Zones) withSerial(serial uint32) *Zones {
	next := *z
	next.serial, next.zones = serial, make([]Zone, len(z.zones))
	fresh := map[string]*soa{}
	for i, zone := range z.zones {
		if fresh[zone.server] == nil {
			fresh[zone.server] = newSOA(zone.server, zone.ttl, serial)
		}
		zone.soa = fresh[zone.server]
		next.zones[i] = zone
	}
	return &next
}

// same reports whether both answer every query in the same way.
func (z *Zones) same(o *Zones) bool {
	if z.store.names != o.store.names || !maps.EqualFunc(z.chaos, o.chaos, sameAnswer) || len(z.zones) != len(o.zones) {
		return false
	}
	for i := range z.zones {
		if z.zones[i].apex != o.zones[i].apex || !bytes.Equal(z.zones[i].soa.record, o.zones[i].soa.record) {
			return false
		}
	}
	for r := range z.store.all() {
		if p := o.store.get(r.name()); p == nil || !sameNode(r.node(), p.node()) {
			return false
		}
	}
	return true
}

// sameNode reports whether two nodes answer in the same way. Nobody sees for what reason a name exists.
func sameNode(a, b Node) bool { return (a[0]^b[0])&^flagOwn == 0 && bytes.Equal(a[1:], b[1:]) }

func sameAnswer(a, b *Answer) bool {
	return a.Type == b.Type && a.Records == b.Records && bytes.Equal(a.Body, b.Body)
}
