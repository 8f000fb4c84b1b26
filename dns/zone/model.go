package zone

import (
	"net/netip"

	"sluice/dns/wire"
)

// name is a name of a zone while the zones are gathered.
type name struct {
	text  string // in wire form; "" for any label below another name
	zone  *Zone
	sets  []set
	below *name // see flagBelow
	pods  bool
	level bool // it exists for CoreDNS too when it has no records

	own      bool // it exists for itself, and not only because of the names below it
	children int  // names directly below
}

// set is an RRset.
type set struct {
	typ uint16
	ttl uint32
	rrs []rr
}

// rr is the data of a record: bytes, then the name that it refers to, if any, in wire form.
type rr struct{ data, target string }

// ensure returns the name, and makes it with all that lies between it and the apex of its zone if it is new. It returns nil for
// a name outside all zones.
func (c *compiler) ensure(text string) *name {
	n := c.at(text)
	if n != nil {
		n.own = true
	}
	return n
}

// at is ensure for a name that exists because of those below it.
func (c *compiler) at(text string) *name {
	if n := c.names[text]; n != nil {
		return n
	}
	zone := c.zoneOf(text)
	if zone == nil {
		return nil
	}
	n := &name{text: text, zone: zone}
	c.names[text] = n
	if parent := c.at(wire.Parent(text)); parent != nil {
		parent.children++
	}
	return n
}

// zoneOf returns the deepest zone that a name lies in, or nil.
func (c *compiler) zoneOf(text string) *Zone {
	for ; text != "\x00"; text = wire.Parent(text) {
		if at, ok := c.apexes[text]; ok {
			return &c.zones[at]
		}
	}
	return nil
}

// get returns the set of a type, or nil.
func (n *name) get(typ uint16) *set {
	for i := range n.sets {
		if n.sets[i].typ == typ {
			return &n.sets[i]
		}
	}
	return nil
}

// set adds records to the set of a type. A record that is there already is taken out when the sets are packed.
func (c *compiler) set(n *name, typ uint16, ttl uint32, rrs ...rr) {
	s := n.get(typ)
	if s == nil {
		n.sets = append(n.sets, set{typ: typ, ttl: ttl})
		s = &n.sets[len(n.sets)-1]
	}
	s.rrs = append(s.rrs, rrs...)
}

// address adds an A or AAAA record.
func (c *compiler) address(n *name, a netip.Addr) {
	typ := wire.TypeA
	if a.Is6() {
		typ = wire.TypeAAAA
	}
	c.set(n, typ, c.ttl, rr{data: string(a.AsSlice())})
}

// distinct returns the records of a set, each once, in the order in which they came.
func (s *set) distinct() []rr {
	if len(s.rrs) < 2 {
		return s.rrs
	}
	seen := make(map[rr]struct{}, len(s.rrs))
	out := make([]rr, 0, len(s.rrs))
	for _, r := range s.rrs {
		if _, twice := seen[r]; !twice {
			seen[r] = struct{}{}
			out = append(out, r)
		}
	}
	return out
}
