package zone

import (
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// pack turns the gathered names into the compiled form.
func (c *compiler) pack(serial uint32) *Zones {
	z := &Zones{source: sourceOf(c.top, nil), zones: c.zones, apexes: c.apexes, depths: depths(c.zones), any: anyAnswer(), chaos: chaosAnswers(c.top),
		domain: c.domain, external: c.external,
		below: c.top.DNS.Pods == topology.PodsInsecure || c.top.DNS.Zonal, serial: serial}
	c.out.seed = maphash.MakeSeed()
	names := c.byHash()
	z.store = newStore(len(names), c.out.seed)
	for i := range z.store.shards {
		for len(names) > 0 && z.store.shardOf(names[0].hash) == i {
			c.record(names[0].name, names[0].name.children)
			names = names[1:]
		}
		z.store.shards[i] = c.out.shard()
	}
	return z
}

// hashed is a name with its hash.
type hashed struct {
	hash uint64
	name *name
}

// byHash returns the names that exist by their hashes, and so shard by shard.
func (c *compiler) byHash() []hashed {
	list := make([]hashed, 0, len(c.names))
	for text, n := range c.names {
		if !c.hidden(n) {
			list = append(list, hashed{maphash.String(c.out.seed, text), n})
		}
	}
	slices.SortFunc(list, func(a, b hashed) int { return cmp.Compare(a.hash, b.hash) })
	return list
}

// hidden reports whether a name does not exist for CoreDNS, which is followed.
func (c *compiler) hidden(n *name) bool { return c.top.DNS.Compat && isEmpty(n) }

// record writes the record of a name with a number of names directly below it.
func (c *compiler) record(n *name, children int) {
	if c.top.DNS.Compat {
		children = 0 // no name exists because of them
	}
	at := c.out.begin(n.text, children)
	c.node(n)
	if n.below != nil {
		c.node(n.below)
	}
	c.out.end(at)
}

// node writes a node.
func (c *compiler) node(n *name) {
	var flags byte
	for _, f := range []struct {
		set  bool
		flag byte
	}{{n.own, flagOwn}, {n.pods, flagPods}, {n.below != nil, flagBelow}, {n.text == n.zone.apex && n.get(wire.TypeCNAME) == nil, flagSOA}} {
		if f.set {
			flags |= f.flag
		}
	}
	c.head = len(c.out.data)
	c.out.data = append(c.out.data, flags)
	c.out.data = binary.BigEndian.AppendUint32(c.out.data, uint32(n.zone.number))
	c.out.data = append(c.out.data, 0)
	c.answers(n)
}

// answer adds an answer to the node that is being written.
func (c *compiler) answer(a *Answer) {
	c.out.data = appendAnswer(c.out.data, a)
	c.out.data[c.head+nodeHead-1]++
}

func (c *compiler) answers(n *name) {
	if n.get(wire.TypeCNAME) != nil {
		c.aliasAnswers(n)
		return
	}
	for i := range n.sets {
		if len(n.sets[i].rrs) == 0 {
			continue
		}
		p := c.packer(n)
		p.set(question, &n.sets[i])
		c.additional(p, &n.sets[i])
		c.end(p, n.sets[i].typ)
	}
	if c.top.DNS.Compat && n.text == schemaLabel+c.domain {
		c.answer(&Answer{RCode: wire.NXDomain, Negative: true})
	}
}
