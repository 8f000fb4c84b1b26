package zone

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// enough is the share of a topology that may be selected, as a divisor: to compile everything is no more work then.
const enough = 4

// update returns the zones of a topology under the same serial by gathering anew what differs, and whether a query can tell a
// difference. It returns nil when everything is to be compiled: when the difference is in the rules or in much of the topology, or
// when there is a fault, of which Compile says what it is.
func (z *Zones) update(t *topology.Topology) (next *Zones, differs bool) {
	now := sourceOf(t, z.source)
	if !z.source.sameRules(now) {
		return nil, false
	}
	selected, limit := differ(z.source, now), 100+(len(t.Services)+len(t.Pods))/enough
	if !slices.Equal(z.source.inside, now.inside) || !slices.Equal(z.source.outside, now.outside) {
		for i := range z.zones {
			selected.apexes[z.zones[i].apex] = true
		}
	}
	selected.addAddrs(z.source)
	selected.addAddrs(now)
	before, after := z.compiler(selected), z.compiler(selected)
	before.alone = true // which names there were is what it is for, and what is not selected has the same ones after
	after.top = t
	aliases := after.aliases()
	for size := -1; size != selected.size(); {
		selected.follow(aliases)
		before.top = z.source.selected(selected)
		if size = selected.size(); size > limit || before.again() != nil || after.again() != nil {
			return nil, false
		}
		selected.grow(before)
		selected.grow(after)
	}
	u := updater{z: z, before: before, after: after, changes: map[string]*change{}}
	next, differs = u.run()
	next.source = now
	if !bytes.Equal(now.pods, z.source.pods) || !slices.Equal(now.nodes, z.source.nodes) {
		var err error
		if next.search, err = searchPaths(t, z.domain); err != nil {
			return nil, false
		}
	}
	return next, differs
}

// compiler returns one that gathers the selected names of a topology with the same zones.
func (z *Zones) compiler(only *selection) *compiler {
	c := &compiler{ttl: z.source.dns.TTL, zones: z.zones, apexes: z.apexes, only: only, previous: z}
	c.out.seed = z.store.seed
	c.domain, c.external = z.domain, z.external
	return c
}

// again gathers the names from the start.
func (c *compiler) again() error {
	c.names = map[string]*name{}
	return c.gather()
}

// shared reports whether the PTR record is asked for that an object which is not selected has for an address.
func (c *compiler) shared(a netip.Addr) bool { return !c.alone && c.only.addrs.has(a) }

// updater finds out what becomes of the names that were gathered from the topologies before and after.
type updater struct {
	z             *Zones
	before, after *compiler
	changes       map[string]*change
	differs       bool // a query can tell
}

// change is what becomes of a name.
type change struct {
	text     string
	old      record
	gathered bool // completely: otherwise only the number of children changes
	children int
	exists   bool
	record   record // what is to be written; nil: it goes, or stays as it is
	write    bool
}

func (u *updater) run() (*Zones, bool) {
	for _, c := range []*compiler{u.before, u.after} {
		for text, n := range c.names {
			if n.own {
				u.note(text).gathered = true
			}
		}
	}
	list := u.settle()
	u.after.changes = u.changes
	for _, ch := range list {
		u.write(ch)
	}
	next := *u.z
	next.store = u.z.store.with(list)
	return &next, u.differs
}

// note returns the change of a name, and makes those of all names above it.
func (u *updater) note(text string) *change {
	if ch := u.changes[text]; ch != nil {
		return ch
	}
	ch := &change{text: text, old: u.z.store.get([]byte(text))}
	if ch.old != nil {
		ch.children = ch.old.children()
	}
	u.changes[text] = ch
	if parent := wire.Parent(text); u.after.zoneOf(parent) != nil {
		u.note(parent)
	}
	return ch
}

// settle finds out which names exist, from the longest to the shortest: each exists for itself, or because of one below it.
func (u *updater) settle() []*change {
	list := make([]*change, 0, len(u.changes))
	for _, ch := range u.changes {
		list = append(list, ch)
	}
	slices.SortFunc(list, func(a, b *change) int {
		return cmp.Or(len(b.text)-len(a.text), cmp.Compare(a.text, b.text))
	})
	for _, ch := range list {
		ch.exists = u.exists(ch)
		if parent := u.changes[wire.Parent(ch.text)]; parent != nil && ch.exists != (ch.old != nil) {
			if ch.exists {
				parent.children++
			} else {
				parent.children--
			}
		}
	}
	return list
}

// exists reports whether a name exists for which all below it are settled.
func (u *updater) exists(ch *change) bool {
	n := u.after.names[ch.text]
	own := n != nil && n.own
	if !ch.gathered {
		own = ch.old != nil && ch.old.node().has(flagOwn)
	}
	if !u.after.top.DNS.Compat {
		return own || ch.children > 0
	}
	ch.children = 0
	if !ch.gathered {
		return ch.old != nil
	}
	return own && !isEmpty(n)
}

// write makes the record of a name, if it is another one than before.
func (u *updater) write(ch *change) {
	switch {
	case !ch.exists:
		ch.write = ch.old != nil
		u.differs = u.differs || ch.write
		return
	case !ch.gathered && ch.old != nil:
		if ch.write = ch.children != ch.old.children(); ch.write {
			ch.record = bytes.Clone(ch.old)
			binary.BigEndian.PutUint32(ch.record[4:], uint32(ch.children))
		}
		return
	}
	n := u.after.names[ch.text]
	if n == nil {
		n = &name{text: ch.text, zone: u.after.zoneOf(ch.text)}
	}
	w := &u.after.out
	u.after.record(n, ch.children)
	r := record(w.data)
	if ch.write = !bytes.Equal(r, ch.old); ch.write {
		ch.record = bytes.Clone(r)
		u.differs = u.differs || ch.old == nil || !sameNode(r.node(), ch.old.node())
	}
	w.reset()
}

// exists reports whether a name exists that was not gathered.
func (c *compiler) exists(text string) bool {
	if c.only == nil {
		return false // all are gathered
	}
	if ch := c.changes[text]; ch != nil {
		return ch.exists
	}
	return c.previous.store.get([]byte(text)) != nil
}
