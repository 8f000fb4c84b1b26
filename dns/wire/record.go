package wire

import "encoding/binary"

// Record is where a record lies in a message. Offsets count from where the message begins.
type Record struct {
	Start, Data, End int // of the owner, of the data, and behind the record
	Type, Class      uint16
	TTL              uint32 // seconds; of an OPT record: extended code, version and flags
}

// ReadRecord reads the record at off. It is false when the message ends before the record does. Pointers are stepped over,
// not followed.
func ReadRecord(msg []byte, off int) (r Record, ok bool) {
	ok = r.read(msg, off)
	return r, ok
}

// read is ReadRecord into r. A Record that is returned is copied in pieces other than those that were written just before, which takes a
// processor longer than all the rest.
func (r *Record) read(msg []byte, off int) bool {
	r.Start = off
	if off = skipName(msg, off); off < 0 || off+10 > len(msg) {
		return false
	}
	fixed := msg[off : off+10]
	r.Type, r.Class = binary.BigEndian.Uint16(fixed), binary.BigEndian.Uint16(fixed[2:])
	r.TTL = binary.BigEndian.Uint32(fixed[4:])
	r.Data = off + 10
	r.End = r.Data + int(binary.BigEndian.Uint16(fixed[8:]))
	return r.End <= len(msg)
}

// skipName returns the offset behind the name at off, or -1.
func skipName(msg []byte, off int) int {
	for start := off; off < len(msg) && off-start < MaxName; {
		switch length := int(msg[off]); {
		case length == 0:
			return off + 1
		case length <= MaxLabel:
			off += 1 + length
		case length >= 0xc0 && off+2 <= len(msg):
			return off + 2
		default:
			return -1
		}
	}
	return -1
}
