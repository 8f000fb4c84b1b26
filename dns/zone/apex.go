package zone

import (
	"encoding/binary"
	"net/netip"

	"sluice/dns/wire"
)

// Zone is one zone.
type Zone struct {
	apex   string // in wire form
	number int    // position in Zones.zones
	server string // name of the name server, without the apex
	ttl    uint32
	soa    *soa
}

// soa is the SOA record of all zones whose name servers have one name: it says where the apex is by pointers into the question.
type soa struct {
	record []byte // in the authority section
	ptrs   [3]int // offsets of the pointers to the apex
	own    Answer // at the apex
}

// newSOA writes the SOA record of zones whose name server has a name, which is without the apex.
func newSOA(server string, ttl, serial uint32) *soa {
	s, b := &soa{}, binary.BigEndian
	out := []byte{0, 0}
	out = b.AppendUint16(out, wire.TypeSOA)
	out = b.AppendUint16(out, wire.ClassIN)
	out = b.AppendUint32(out, min(ttl, soaMaxTTL))
	length := len(out)
	out = append(out, 0, 0)
	out = append(out, server...)
	s.ptrs[1] = len(out)
	out = append(out, 0, 0)
	out = append(out, "\x0ahostmaster"...)
	s.ptrs[2] = len(out)
	out = append(out, 0, 0)
	for _, v := range []uint32{serial, soaRefresh, soaRetry, soaExpire, ttl} {
		out = b.AppendUint32(out, v)
	}
	b.PutUint16(out[length:], uint16(len(out)-length-2))
	s.record = out
	s.own = Answer{Type: wire.TypeSOA, Records: 1, Body: make([]byte, len(out))}
	s.put(s.own.Body, wire.HeaderLen)
	return s
}

// put writes the record into out, with the apex at an offset of the message.
func (s *soa) put(out []byte, apex int) {
	copy(out[:len(s.record)], s.record)
	for _, at := range s.ptrs {
		binary.BigEndian.PutUint16(out[at:], wire.Pointer(apex))
	}
}

// Apex returns the name of the zone in wire form and lower case.
func (z *Zone) Apex() string { return z.apex }

// SOALen returns the length of what PutSOA writes.
func (z *Zone) SOALen() int { return len(z.soa.record) }

// PutSOA writes the SOA record of the zone into out for a reply whose question has a name of nameLen bytes in this zone. The
// record's names point at the apex in the question, and so are spelled as it is.
func (z *Zone) PutSOA(out []byte, nameLen int) { z.soa.put(out, wire.HeaderLen+nameLen-len(z.apex)) }

// AddressLen returns the length of what PutAddress writes.
func (z *Zone) AddressLen(a netip.Addr) int { return addressHead + a.BitLen()/8 }

// addressHead is what stands in front of the address in an address record whose owner is a pointer.
const addressHead = 12

// PutAddress writes an A or AAAA record of the question's name into out.
func (z *Zone) PutAddress(out []byte, a netip.Addr) {
	b := binary.BigEndian
	typ := wire.TypeA
	if a.Is6() {
		typ = wire.TypeAAAA
	}
	b.PutUint16(out, wire.Pointer(wire.HeaderLen))
	b.PutUint16(out[2:], typ)
	b.PutUint16(out[4:], wire.ClassIN)
	b.PutUint32(out[6:], z.ttl)
	b.PutUint16(out[10:], uint16(a.BitLen()/8))
	if a.Is4() {
		v4 := a.As4()
		copy(out[addressHead:], v4[:])
		return
	}
	v6 := a.As16()
	copy(out[addressHead:], v6[:])
}
