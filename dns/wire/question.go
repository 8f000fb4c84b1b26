package wire

import "encoding/binary"

// Status is what Peek makes of a message.
type Status uint8

// The results of Peek. The zero value asks for silence.
const (
	Ignore      Status = iota // no query, or too short to answer: send nothing
	Query                     // a query, fully read
	Malformed                 // answer FormErr, with the header alone
	Unsupported               // answer NotImp, with the header alone
	CookieOnly                // there is no question: a server with cookies gives one, others answer as to Malformed (RFC 7873 section 5.4)
)

const maxLabels = 127 // a name of MaxName bytes has no more

// Question is the question of a query with what EDNS says about the reply. It is filled in by Peek and can be used again.
// It refers to the message, which must stay as it is meanwhile.
type Question struct {
	ID      uint16
	Flags   uint16 // second word of the header, as received
	Type    uint16 // valid, as Class, iff Peek returned Query
	Class   uint16
	EDNS    bool // the query has an OPT record; the next three are valid iff it has
	DO      bool
	Version uint8
	UDPSize uint16 // as received; less than 512 means 512 (RFC 6891 section 6.2.3)

	Options   bool   // the OPT record, of version 0, has options; the next three are valid iff it has
	Cookie    []byte // the client's part, and behind it the server's part of 8 to 32 bytes or nothing; nil: none
	Keepalive bool   // the client asks for how long a connection may be idle
	Padding   bool   // the client wants the length of the reply to say little
	BadOption bool   // answer FormErr: an option does not have the form that it must have; Cookie is not valid then

	section []byte // name, type and class in the message
	labels  int
	start   [maxLabels]uint8 // where each label starts in lower
	lower   [MaxName]byte
}

// Name returns the name in lower case, in wire form with the root, valid as long as q.
func (q *Question) Name() []byte { return q.lower[:q.NameLen()] }

// NameLen returns the length of the name in wire form.
func (q *Question) NameLen() int { return len(q.section) - 4 }

// Section returns the question section as it was received, for the reply: its letters keep their case, by which some clients
// recognise their own questions.
func (q *Question) Section() []byte { return q.section }

// Labels returns the number of labels of the name; the root has none.
func (q *Question) Labels() int { return q.labels }

// Suffix returns the last n labels of Name, n at most Labels.
func (q *Question) Suffix(n int) []byte {
	if n == 0 {
		return q.lower[q.NameLen()-1 : q.NameLen()]
	}
	return q.lower[q.start[q.labels-n]:q.NameLen()]
}

// Peek reads a message as a query: header, question, and the OPT record if there is one. Checks come in the order in
// which servers agree: a reply is dropped, then the opcode is looked at, then the counts, then the contents.
func Peek(msg []byte, q *Question) Status {
	if len(msg) < HeaderLen {
		return Ignore
	}
	q.ID, q.Flags = binary.BigEndian.Uint16(msg), binary.BigEndian.Uint16(msg[2:])
	q.EDNS, q.Options, q.BadOption = false, false, false
	if q.Flags&FlagQR != 0 {
		return Ignore
	}
	if q.Flags&opcodeMask != 0 {
		return Unsupported
	}
	n := Counts{binary.BigEndian.Uint16(msg[4:]), binary.BigEndian.Uint16(msg[6:]), binary.BigEndian.Uint16(msg[8:]),
		binary.BigEndian.Uint16(msg[10:])}
	// A query may carry a SOA (IXFR), an OPT and a signature, and nothing else.
	if n.Question > 1 || n.Answer > 1 || n.Authority > 1 || n.Additional > 2 {
		return Malformed
	}
	if n.Question == 0 {
		return q.empty(msg, n)
	}
	end := q.name(msg)
	if end < 0 || end+4 > len(msg) {
		return Malformed
	}
	q.Type, q.Class = binary.BigEndian.Uint16(msg[end:]), binary.BigEndian.Uint16(msg[end+2:])
	q.section = msg[HeaderLen : end+4]
	return q.records(msg, end+4, n)
}

// empty reads a query without a question.
func (q *Question) empty(msg []byte, n Counts) Status {
	q.section, q.labels = nil, 0
	if q.records(msg, HeaderLen, n) != Query || !q.Options || q.BadOption || q.Cookie == nil {
		return Malformed
	}
	return CookieOnly
}

// name reads the name of the question and returns where it ends, or -1. There is nothing before it that a pointer could
// point to, so that pointers are refused.
func (q *Question) name(msg []byte) int {
	q.labels = 0
	for off := HeaderLen; off < len(msg); {
		length, at := int(msg[off]), off-HeaderLen
		if length > MaxLabel {
			return -1
		}
		if length == 0 {
			lowerCase(q.lower[:at+1], msg[HeaderLen:off+1])
			return off + 1
		}
		if at+1+length >= MaxName || off+1+length > len(msg) {
			return -1
		}
		q.start[q.labels] = uint8(at)
		q.labels++
		off += 1 + length
	}
	return -1
}

// lowerCase writes a name in lower case into out, which has its length: eight bytes at a time, of which a sum carries into the upper bit
// if they are not below 'A', and another one if they are above 'Z'. Length bytes are below both.
func lowerCase(out, name []byte) {
	const each, upper = 0x0101010101010101, 0x80 * 0x0101010101010101
	b := binary.LittleEndian
	for len(name) >= 8 && len(out) >= 8 {
		v := b.Uint64(name)
		low := v &^ upper
		letters := (low + (0x80-'A')*each) &^ (low + (0x7f-'Z')*each) &^ v & upper
		b.PutUint64(out, v|letters>>2) // 'a' is 'A' with the bit 0x20
		name, out = name[8:], out[8:]
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		out[i] = c
	}
}

// records walks the records behind the question and takes in the OPT record.
func (q *Question) records(msg []byte, off int, n Counts) Status {
	before := int(n.Answer) + int(n.Authority)
	for i := range before + int(n.Additional) {
		var r Record
		if !r.read(msg, off) {
			return Malformed
		}
		off = r.End
		if r.Type != TypeOPT {
			continue
		}
		// One OPT at most, in the additional section, owned by the root (RFC 6891 section 6.1).
		if i < before || q.EDNS || msg[r.Start] != 0 {
			return Malformed
		}
		q.EDNS, q.UDPSize, q.Version, q.DO = true, r.Class, uint8(r.TTL>>16), r.TTL&0x8000 != 0
		if r.End > r.Data && q.Version == 0 {
			q.BadOption = !q.options(msg[r.Data:r.End])
		}
	}
	return Query
}
