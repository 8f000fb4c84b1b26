package wire

import "encoding/binary"

// Sizes of parts of a message, in bytes.
const (
	HeaderLen = 12
	MaxName   = 255 // a name with its length bytes and the root (RFC 1035 section 2.3.4)
	MaxLabel  = 63
	OPTLen    = 11 // an OPT record without options
)

// Bits of the second 16-bit word of the header.
const (
	FlagQR uint16 = 1 << 15 // a reply
	FlagAA uint16 = 1 << 10 // authoritative
	FlagTC uint16 = 1 << 9  // truncated
	FlagRD uint16 = 1 << 8  // recursion desired, copied into the reply
	FlagRA uint16 = 1 << 7  // recursion available
	FlagAD uint16 = 1 << 5  // the data is authentic (RFC 4035 section 3.1.6)
	FlagCD uint16 = 1 << 4  // checking disabled, copied into the reply (RFC 4035 section 3.1.6)

	opcodeMask uint16 = 0xf << 11
)

// Response codes. Those above 15 need EDNS: their upper bits travel in the OPT record.
const (
	NoError  = 0
	FormErr  = 1
	ServFail = 2
	NXDomain = 3
	NotImp   = 4
	Refused  = 5
	NotAuth  = 9
	BadVers  = 16
)

// Types of records.
const (
	TypeA     uint16 = 1
	TypeNS    uint16 = 2
	TypeCNAME uint16 = 5
	TypeSOA   uint16 = 6
	TypePTR   uint16 = 12
	TypeHINFO uint16 = 13
	TypeTXT   uint16 = 16
	TypeAAAA  uint16 = 28
	TypeSRV   uint16 = 33
	TypeOPT   uint16 = 41
	TypeIXFR  uint16 = 251
	TypeAXFR  uint16 = 252
	TypeANY   uint16 = 255
)

// Classes of records.
const (
	ClassIN uint16 = 1 // Internet: all zones
	ClassCH uint16 = 3 // Chaos: what a server says of itself
)

// MaxPointer is the furthest offset in a message that a compression pointer reaches.
const MaxPointer = 0x3fff

// Pointer returns the compression pointer to a name at an offset of the message, at most MaxPointer (RFC 1035 section 4.1.4).
func Pointer(offset int) uint16 { return 0xc000 | uint16(offset) }

// Counts are the numbers of records in the sections of a message.
type Counts struct{ Question, Answer, Authority, Additional uint16 }

// PutHeader writes the header of a reply to q into out, which has room for HeaderLen bytes. flags are those the server
// sets (FlagAA, FlagTC); the reply bit, and what is copied from the query, are added.
func PutHeader(out []byte, q *Question, flags uint16, rcode int, n Counts) {
	_ = out[HeaderLen-1]
	binary.BigEndian.PutUint16(out[0:], q.ID)
	binary.BigEndian.PutUint16(out[2:], FlagQR|q.Flags&(opcodeMask|FlagRD|FlagCD)|flags|uint16(rcode&0xf))
	binary.BigEndian.PutUint16(out[4:], n.Question)
	binary.BigEndian.PutUint16(out[6:], n.Answer)
	binary.BigEndian.PutUint16(out[8:], n.Authority)
	binary.BigEndian.PutUint16(out[10:], n.Additional)
}

// PutOPT writes the OPT record of a reply, OPTLen bytes: version 0, no options, and of the flags only DO as the query had it
// (RFC 3225 section 3). size is the largest UDP message the server takes.
func PutOPT(out []byte, size uint16, rcode int, do bool) {
	_ = out[OPTLen-1]
	out[0] = 0 // the root
	binary.BigEndian.PutUint16(out[1:], TypeOPT)
	binary.BigEndian.PutUint16(out[3:], size)
	out[5], out[6], out[7], out[8] = byte(rcode>>4), 0, 0, 0
	if do {
		out[7] = 0x80
	}
	out[9], out[10] = 0, 0
}
