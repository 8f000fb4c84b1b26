package zone

import (
	"encoding/binary"

	"sluice/dns/wire"
)

// Answer is what a message says about a name and type behind the question. It is ready for any spelling of the question,
// since every name has the same length in all of them. It is a view of the zones: nothing is copied.
type Answer struct {
	Type       uint16 // 0: any type that the name has no answer for
	RCode      int
	Records    uint16 // records of the answer section
	Additional uint16 // records of the additional section
	Negative   bool   // the authority section holds the SOA of the zone
	Cut        bool   // there are more records than the largest message holds
	Body       []byte // the records, starting behind the question; not to be changed

	tails []byte // the offsets that Tail returns, two bytes each
}

// Tails returns in how many places of Body the apex of the zone is written out in lower case. A server spells it there as the
// question does.
func (a *Answer) Tails() int { return len(a.tails) / 2 }

// Tail returns the offset in Body of one of these places.
func (a *Answer) Tail(i int) int { return int(binary.BigEndian.Uint16(a.tails[2*i:])) }

// Node is an existing name, as a view of the zones. One without answers is an empty non-terminal; nil is no node. Its form:
//
//	1 byte    flags
//	4 bytes   position of its zone in Zones.zones
//	1 byte    number of answers
//	          the answers, see appendAnswer
//	          with flagBelow another node
type Node []byte

// nodeHead is the length of what stands before the answers of a node.
const nodeHead = 6

// Flags of a node.
const (
	flagOwn   = 1 << iota // it exists for itself, and not only because of the names below it
	flagPods              // labels directly below that spell an address have it
	flagBelow             // every label directly below that is no node has the answers of another node, which follows this one
	flagSOA               // it is the apex, and answers with its SOA record
)

func (n Node) has(flag byte) bool { return n[0]&flag != 0 }
func (n Node) zone() int          { return int(binary.BigEndian.Uint32(n[1:])) }
func (n Node) answers() int       { return int(n[nodeHead-1]) }

// below returns what stands for the labels directly below that are no nodes, for a node with flagBelow.
func (n Node) below() Node {
	at := nodeHead
	for range n.answers() {
		at = n.behind(at)
	}
	return n[at:]
}

// Bits of an answer's second part.
const (
	bitNegative = 1 << iota
	bitCut
)

// answerHead is the length of what stands before the tails of an answer.
const answerHead = 12

// appendAnswer writes an answer:
//
//	2 bytes   type
//	1 byte    bits
//	1 byte    response code
//	2 bytes   records
//	2 bytes   additional records
//	2 bytes   length of the tails
//	2 bytes   length of the body
//	          tails, body
func appendAnswer(out []byte, a *Answer) []byte {
	b, bits := binary.BigEndian, byte(0)
	if a.Negative {
		bits |= bitNegative
	}
	if a.Cut {
		bits |= bitCut
	}
	out = b.AppendUint16(out, a.Type)
	out = append(out, bits, byte(a.RCode))
	out = b.AppendUint16(out, a.Records)
	out = b.AppendUint16(out, a.Additional)
	out = b.AppendUint16(out, uint16(len(a.tails)))
	out = b.AppendUint16(out, uint16(len(a.Body)))
	return append(append(out, a.tails...), a.Body...)
}

// behind returns where the answer at an offset ends.
func (n Node) behind(at int) int {
	b := binary.BigEndian
	return at + answerHead + int(b.Uint16(n[at+8:])) + int(b.Uint16(n[at+10:]))
}

// answer reads the answer at an offset into a, field by field: an Answer that is returned is copied in pieces other than those that were
// written just before, which processors are slow at.
func (n Node) answer(at int, a *Answer) {
	b, head := binary.BigEndian, n[at:at+answerHead]
	tails := at + answerHead
	body := tails + int(b.Uint16(head[8:]))
	end := body + int(b.Uint16(head[10:]))
	a.Type, a.RCode, a.Records, a.Additional = b.Uint16(head), int(head[3]), b.Uint16(head[4:]), b.Uint16(head[6:])
	a.Negative, a.Cut = head[2]&bitNegative != 0, head[2]&bitCut != 0
	a.Body, a.tails = n[body:end:end], n[tails:body]
}

// types returns the types of the records that a node has itself, but for SOA.
func (n Node) types() (types []uint16) {
	at := nodeHead
	for range n.answers() {
		switch typ := binary.BigEndian.Uint16(n[at:]); typ {
		case wire.TypeCNAME:
			return []uint16{wire.TypeCNAME}
		case 0:
		default:
			types = append(types, typ)
		}
		at = n.behind(at)
	}
	return types
}
