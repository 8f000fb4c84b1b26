package zone

import (
	"encoding/binary"

	"sluice/dns/wire"
)

// Zones is all that one generation of the topology answers. It is immutable, and safe for any number of goroutines. Generations that
// follow each other share what has not changed.
type Zones struct {
	source           *source
	store            store
	zones            []Zone         // sorted by apex: nodes refer to them by position
	apexes           map[string]int // positions in zones
	depths           []depth        // the deepest first
	any              Answer
	domain, external string // see compiler
	below            bool   // some nodes have names below them that are not nodes
	chaos            map[string]*Answer
	serial           uint32

	outside outside
	search  *search
}

// Find returns the node of the name asked for and its zone. The node is nil if the name does not exist, and the zone as
// well if the name lies outside all zones.
func (z *Zones) Find(q *wire.Question) (Node, *Zone) {
	if n := z.store.node(q.Name()); n != nil {
		return n, &z.zones[n.zone()]
	}
	if parent := z.parent(q); parent != nil && parent.has(flagBelow) {
		return parent.below(), &z.zones[parent.zone()]
	}
	return nil, z.closest(q)
}

// parent returns the node above the name asked for, if there are nodes to which it matters.
func (z *Zones) parent(q *wire.Question) Node {
	if !z.below || q.Labels() == 0 {
		return nil
	}
	return z.store.node(q.Suffix(q.Labels() - 1))
}

// Open reports whether the answer ends with a CNAME record whose target lies outside the zone, so that it holds nothing of what was asked.
func (a *Answer) Open() bool { return a.Type == 0 && a.Records > 0 && !a.Negative }

// Names returns how many names exist, empty non-terminals included.
func (z *Zones) Names() int { return z.store.names }

// Answer reads the answer for a type into a. It is false if the name exists and has no such type.
func (z *Zones) Answer(n Node, qtype uint16, a *Answer) bool {
	if n.has(flagSOA) && qtype == wire.TypeSOA {
		*a = z.zones[n.zone()].soa.own
		return true
	}
	other, at := 0, nodeHead
	for range n.answers() {
		switch typ := binary.BigEndian.Uint16(n[at:]); typ {
		case qtype:
			n.answer(at, a)
			return true
		case 0:
			other = at
		}
		at = n.behind(at)
	}
	if qtype == wire.TypeANY && (n.answers() > 0 || n.has(flagSOA)) {
		*a = z.any
		return true
	}
	if other > 0 {
		n.answer(other, a)
	}
	return other > 0
}

// Any returns the answer to a query for all types at a name that has some. It is not to be changed.
func (z *Zones) Any() *Answer { return &z.any }
