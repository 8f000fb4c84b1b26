package zone

import (
	"encoding/binary"
	"slices"

	"sluice/dns/wire"
)

// maxMessage is the length of the longest message (RFC 1035 section 4.2.2).
const maxMessage = 65535

// anyAnswer returns the answer to a query for all types at a name that has some: a made-up HINFO record (RFC 8482 section 4.2) with
// the text and lifetime of CoreDNS.
func anyAnswer() Answer {
	const ttl, text = 8482, "\x0dANY obsoleted\x0cSee RFC 8482"
	p := &packer{out: Answer{Type: wire.TypeANY}}
	p.set(question, &set{wire.TypeHINFO, ttl, []rr{{data: text}}})
	return p.out
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

// packer begins an answer of a name. One is packed at a time.
func (c *compiler) packer(n *name) *packer {
	p := &packer{qname: n.text, apex: n.zone.apex, anyName: n.text == ""}
	p.out.Body, p.out.tails = c.body[:0], c.tails[:0]
	return p
}

// end adds the answer to the node that is being written.
func (c *compiler) end(p *packer, typ uint16) {
	p.out.Type = typ
	c.answer(&p.out)
	c.body, c.tails = p.out.Body, p.out.tails
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
	before, tails := len(p.out.Body), len(p.out.tails)
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
		p.out.Body, p.out.tails = p.out.Body[:before], p.out.tails[:tails]
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
		p.out.tails = binary.BigEndian.AppendUint16(p.out.tails, uint16(len(p.out.Body)+len(head)))
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
