package zone

import (
	"encoding/binary"
	"net/netip"

	"sluice/dns/wire"
)

// Zones is all that one generation of the topology answers. It is immutable, and safe for any number of goroutines.
type Zones struct {
	nodes  map[string]*Node
	apexes map[string]*Zone
	depths []int // numbers of labels that apexes have, the deepest first
	any    *Answer
	below  bool // some nodes have names below them that are not nodes
	chaos  map[string]*Answer

	outside outside
	search  search

	serial   uint32
	transfer []netip.Prefix // who may have whole zones
}

// Zone is one zone.
type Zone struct {
	apex   string // in wire form
	server string // name of the name server, without the apex
	ttl    uint32
	soa    []byte // the SOA record with pointers at soaPointers for the apex
	ptrs   [3]int // offsets of these pointers
}

// Node is an existing name. One without answers is an empty non-terminal.
type Node struct {
	zone    *Zone
	answers []*Answer
	below   *Node // of each label directly below that is no node; nil: these do not exist
	pods    bool  // labels directly below that spell an address have it
}

// Answer is what a message says about a name and type behind the question. It is ready for any spelling of the question,
// since every name has the same length in all of them.
type Answer struct {
	Type       uint16 // 0: any type that the name has no answer for
	RCode      int
	Records    uint16 // records of the answer section
	Additional uint16 // records of the additional section
	Negative   bool   // the authority section holds the SOA of the zone
	Cut        bool   // there are more records than the largest message holds
	Body       []byte // the records, starting behind the question; not to be changed

	// Tails says where in Body the apex of the zone is written out in lower case. A server spells it there as the question
	// does.
	Tails []uint16
}

// Find returns the node of the name asked for and its zone. The node is nil if the name does not exist, and the zone as
// well if the name lies outside all zones.
func (z *Zones) Find(q *wire.Question) (*Node, *Zone) {
	if n := z.nodes[string(q.Name())]; n != nil {
		return n, n.zone
	}
	if parent := z.parent(q); parent != nil && parent.below != nil {
		return parent.below, parent.zone
	}
	for _, d := range z.depths {
		if d >= q.Labels() {
			continue // an apex exists, and is found above
		}
		if zone := z.apexes[string(q.Suffix(d))]; zone != nil {
			return nil, zone
		}
	}
	return nil, nil
}

// parent returns the node above the name asked for, if there are nodes to which it matters.
func (z *Zones) parent(q *wire.Question) *Node {
	if !z.below || q.Labels() == 0 {
		return nil
	}
	return z.nodes[string(q.Suffix(q.Labels()-1))]
}

// Open reports whether the answer ends with a CNAME record whose target lies outside the zone, so that it holds nothing of what was asked.
func (a *Answer) Open() bool { return a.Type == 0 && a.Records > 0 && !a.Negative }

// Names returns how many names exist, empty non-terminals included.
func (z *Zones) Names() int { return len(z.nodes) }

// Answer returns the answer for a type, or nil if the name exists and has no such type.
func (z *Zones) Answer(n *Node, qtype uint16) *Answer {
	var other *Answer
	for _, a := range n.answers {
		if a.Type == qtype {
			return a
		}
		if a.Type == 0 {
			other = a
		}
	}
	if qtype == wire.TypeANY && len(n.answers) > 0 {
		return z.any
	}
	return other
}

// Any returns the answer to a query for all types at a name that has some.
func (z *Zones) Any() *Answer { return z.any }

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

// Apex returns the name of the zone in wire form and lower case.
func (z *Zone) Apex() string { return z.apex }

// SOALen returns the length of what PutSOA writes.
func (z *Zone) SOALen() int { return len(z.soa) }

// PutSOA writes the SOA record of the zone into out for a reply whose question has a name of nameLen bytes in this zone. The
// record's names point at the apex in the question, and so are spelled as it is.
func (z *Zone) PutSOA(out []byte, nameLen int) {
	copy(out[:len(z.soa)], z.soa)
	p := wire.Pointer(wire.HeaderLen + nameLen - len(z.apex))
	for _, at := range z.ptrs {
		binary.BigEndian.PutUint16(out[at:], p)
	}
}
