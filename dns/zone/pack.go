package zone

import (
	"encoding/binary"
	"slices"
	"strings"

	"sluice/dns/wire"
)

// maxMessage is the length of the longest message (RFC 1035 section 4.2.2).
const maxMessage = 65535

// pack turns the gathered names into the compiled form.
func (c *compiler) pack() *Zones {
	z := &Zones{nodes: make(map[string]*Node, len(c.names)), apexes: c.apexes, any: anyAnswer(), chaos: chaosAnswers(c.top),
		serial: c.serial, transfer: c.top.DNS.TransferTo}
	for text, n := range c.names {
		if c.top.DNS.Compat && isEmpty(n) {
			continue
		}
		node := &Node{zone: n.zone, answers: c.answers(n), pods: n.pods}
		if n.below != nil {
			node.below = &Node{zone: n.zone, answers: c.answers(n.below)}
		}
		z.below = z.below || node.pods || node.below != nil
		z.nodes[text] = node
	}
	for apex := range c.apexes {
		if d := strings.Count(dotted(apex), "."); !slices.Contains(z.depths, d) {
			z.depths = append(z.depths, d)
		}
	}
	slices.Sort(z.depths)
	slices.Reverse(z.depths)
	return z
}

// dotted returns a name in wire form as text that ends in a dot.
func dotted(text string) string {
	var b strings.Builder
	for ; text != "\x00"; text = wire.Parent(text) {
		b.WriteString(text[1 : 1+int(text[0])])
		b.WriteByte('.')
	}
	return b.String()
}

func (c *compiler) answers(n *name) (answers []*Answer) {
	if n.get(wire.TypeCNAME) != nil {
		return c.aliasAnswers(n)
	}
	for i := range n.sets {
		if len(n.sets[i].rrs) == 0 {
			continue
		}
		p := newPacker(n)
		p.set(question, &n.sets[i])
		c.additional(p, &n.sets[i])
		answers = append(answers, p.answer(n.sets[i].typ))
	}
	if n.text == n.zone.apex {
		soa := &Answer{Type: wire.TypeSOA, Records: 1, Body: make([]byte, n.zone.SOALen())}
		n.zone.PutSOA(soa.Body, len(n.text))
		answers = append(answers, soa)
	}
	if c.top.DNS.Compat && n.text == schemaLabel+c.domain.apex {
		answers = append(answers, &Answer{RCode: wire.NXDomain, Negative: true})
	}
	return answers
}

// anyAnswer returns the answer to a query for all types at a name that has some: a made-up HINFO record (RFC 8482 section 4.2) with
// the text and lifetime of CoreDNS.
func anyAnswer() *Answer {
	const ttl, text = 8482, "\x0dANY obsoleted\x0cSee RFC 8482"
	p := &packer{}
	p.set(question, &set{wire.TypeHINFO, ttl, []rr{{data: text}}})
	return p.answer(wire.TypeANY)
}

// owner says how to write the owner of a record: as a pointer to an offset of the message, or in full if that is 0.
type owner struct {
	at   int
	text string
}

// question is the owner of what the question asks for.
var question = owner{at: wire.HeaderLen}

// packer writes the records of one answer. Offsets count from the start of the message.
type packer struct {
	out        Answer
	qname      string
	apex       string
	lastTarget owner          // the target of the record written last
	targets    map[string]int // where each target is, as far as a pointer reaches; nil: there is none
	anyName    bool           // the length of the question is not known: there are no pointers but to it
}

func newPacker(n *name) *packer {
	return &packer{qname: n.text, apex: n.zone.apex, anyName: n.text == ""}
}

// answer ends the packing.
func (p *packer) answer(typ uint16) *Answer {
	p.out.Type = typ
	p.out.Body, p.out.Tails = slices.Clip(p.out.Body), slices.Clip(p.out.Tails)
	return &p.out
}

// base returns the offset at which the body starts, at most.
func (p *packer) base() int {
	if p.anyName {
		return wire.HeaderLen + wire.MaxName + 4
	}
	return wire.HeaderLen + len(p.qname) + 4
}

// aliases writes a chain of CNAME records that begins at the name of the question.
func (p *packer) aliases(via []*name) {
	for i, n := range via {
		o := question
		if i > 0 {
			o = p.lastTarget
		}
		p.set(o, n.get(wire.TypeCNAME))
	}
}

// set writes an RRset into the answer section.
func (p *packer) set(o owner, s *set) {
	const least = 16 // bytes of a record: an A record with a pointer for its owner
	p.out.Body = slices.Grow(p.out.Body, min(least*len(s.rrs), maxMessage))
	for _, r := range s.distinct() {
		if !p.record(o, s.typ, s.ttl, r) {
			p.out.Cut = true
			return
		}
		p.out.Records++
	}
}

// additional writes the addresses of the names that an RRset refers to. What does not fit is left out: the client can ask for it.
func (c *compiler) additional(p *packer, s *set) {
	if s.typ != wire.TypeSRV && s.typ != wire.TypeNS || p.out.Cut {
		return
	}
	done := map[string]bool{}
	for _, r := range s.rrs {
		host := c.names[r.target]
		if done[r.target] || host == nil {
			continue
		}
		done[r.target] = true
		at := owner{p.targets[r.target], r.target}
		for _, typ := range []uint16{wire.TypeA, wire.TypeAAAA} {
			if addrs := host.get(typ); addrs != nil && !p.extra(at, addrs) {
				return
			}
		}
	}
}

// extra writes an RRset into the additional section, as a whole or not at all.
func (p *packer) extra(o owner, s *set) bool {
	length, n := len(p.out.Body), uint16(0)
	for _, r := range s.distinct() {
		if !p.record(o, s.typ, s.ttl, r) {
			p.out.Body = p.out.Body[:length]
			return false
		}
		n++
	}
	p.out.Additional += n
	return true
}

// record writes a record and reports whether a message can hold it.
func (p *packer) record(o owner, typ uint16, ttl uint32, r rr) bool {
	b := binary.BigEndian
	before, tails := len(p.out.Body), len(p.out.Tails)
	p.owner(o)
	body := b.AppendUint16(p.out.Body, typ)
	body = b.AppendUint16(body, wire.ClassIN)
	body = b.AppendUint32(body, ttl)
	body = append(body, 0, 0)
	data := len(body)
	p.out.Body = append(body, r.data...)
	if r.target != "" {
		p.target(typ, r.target)
	}
	b.PutUint16(p.out.Body[data-2:], uint16(len(p.out.Body)-data))
	if p.base()+len(p.out.Body) > maxMessage {
		p.out.Body, p.out.Tails = p.out.Body[:before], p.out.Tails[:tails]
		return false
	}
	return true
}

// owner writes the owner of a record.
func (p *packer) owner(o owner) {
	if o.at == 0 {
		p.full(o.text)
		return
	}
	p.out.Body = binary.BigEndian.AppendUint16(p.out.Body, wire.Pointer(o.at))
}

// target writes the name that a record refers to. In CNAME and NS records it ends in a pointer to the apex in the question, if
// it lies in the same zone; targets of SRV records are never compressed (RFC 2782).
func (p *packer) target(typ uint16, target string) {
	at := p.base() + len(p.out.Body)
	p.lastTarget = owner{at, target}
	if !p.anyName && p.targets[target] == 0 && at <= wire.MaxPointer {
		if p.targets == nil {
			p.targets = map[string]int{}
		}
		p.targets[target] = at
	}
	head, in := p.cutApex(target)
	if typ == wire.TypeSRV || !in {
		p.full(target)
		return
	}
	p.out.Body = append(p.out.Body, head...)
	p.out.Body = binary.BigEndian.AppendUint16(p.out.Body, wire.Pointer(p.base()-4-len(p.apex)))
}

// full writes a name without compression, and notes where the apex of the zone is in it.
func (p *packer) full(text string) {
	if head, in := p.cutApex(text); in {
		p.out.Tails = append(p.out.Tails, uint16(len(p.out.Body)+len(head)))
	}
	p.out.Body = append(p.out.Body, text...)
}

// cutApex returns what stands before the apex of the zone in a name, and whether the name lies in the zone at all.
func (p *packer) cutApex(text string) (head string, in bool) {
	at := 0
	for text[at] != 0 && len(text)-at > len(p.apex) {
		at += 1 + int(text[at])
	}
	return text[:at], text[at:] == p.apex
}
