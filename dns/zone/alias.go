package zone

import "sluice/dns/wire"

// maxChain bounds how many CNAME records one answer follows. The client asks on by itself from where an answer ends.
const maxChain = 10

// chain is where the CNAME record of a name leads: the names on the way, each of which has one, and the end.
type chain struct {
	via  []*name
	end  *name // nil: see the rest
	loop bool  // it leads back into itself
	gone bool  // its last target lies in the zone and does not exist; of names that are not gathered (see Node) the client has to ask
}

// follow walks along CNAME records as long as they stay in the zone of the first, whose SOA a negative answer needs.
func (c *compiler) follow(n *name) (ch chain) {
	seen := map[*name]bool{}
	for len(ch.via) < maxChain {
		alias := n.get(wire.TypeCNAME)
		if alias == nil {
			ch.end = n
			return ch
		}
		if seen[n] {
			ch.loop = true
			return ch
		}
		seen[n] = true
		ch.via = append(ch.via, n)
		target := alias.rrs[0].target
		if c.zoneOf(target) != n.zone {
			return ch
		}
		if n = c.names[target]; n == nil && c.exists(target) {
			ch.end = &name{text: target} // an empty non-terminal: names with records were gathered
			return ch
		}
		if n == nil {
			ch.gone = !c.spelled(target)
			return ch
		}
	}
	return ch
}

// spelled reports whether a name that is not gathered may exist since every label below its parent can.
func (c *compiler) spelled(text string) bool {
	parent := c.names[wire.Parent(text)]
	return parent != nil && (parent.pods || parent.below != nil)
}

// aliasAnswers writes the answers of a name that has a CNAME record: the record itself, and for other types the way to what
// it leads to.
func (c *compiler) aliasAnswers(n *name) {
	own := c.packer(n)
	own.aliases([]*name{n})
	c.end(own, wire.TypeCNAME)
	ch := c.follow(n)
	if ch.end != nil {
		for i := range ch.end.sets {
			p := c.packer(n)
			p.aliases(ch.via)
			p.set(p.lastTarget, &ch.end.sets[i])
			c.additional(p, &ch.end.sets[i])
			c.end(p, ch.end.sets[i].typ)
		}
	}
	c.aliasDefault(n, ch)
}

// aliasDefault writes the answer for types that the end of the chain does not have. A loop counts as a name without data: to
// hand it out would send the client round it.
func (c *compiler) aliasDefault(n *name, ch chain) {
	p := c.packer(n)
	nothing := ch.gone || ch.end != nil
	if !ch.loop && !(nothing && c.top.DNS.Compat) {
		p.aliases(ch.via)
	}
	p.out.Negative = ch.loop || nothing
	if ch.gone && !c.top.DNS.Compat {
		p.out.RCode = wire.NXDomain
	}
	c.end(p, 0)
}
