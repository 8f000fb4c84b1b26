package packet

import "encoding/binary"

// SCTPLen is the length in bytes of SCTP's common header: ports, verification tag, checksum (RFC 9260 section 3.1).
const SCTPLen = 12

// Types of SCTP chunks (RFC 9260 section 3.2) that begin and end an association.
const (
	SCTPData             = 0
	SCTPInit             = 1
	SCTPInitAck          = 2
	SCTPAbort            = 6
	SCTPShutdown         = 7
	SCTPShutdownAck      = 8
	SCTPCookieEcho       = 10
	SCTPCookieAck        = 11
	SCTPShutdownComplete = 14
)

// Chunk is what the common header and the first chunk of an SCTP packet say about its association. Chunks that begin or end
// one come first: INIT, INIT ACK and SHUTDOWN COMPLETE alone, COOKIE ECHO and COOKIE ACK before data, ABORT after control
// chunks only and in practice alone (RFC 9260 section 6.10).
type Chunk struct {
	Tag         uint32 // verification tag of the packet
	InitiateTag uint32 // the tag that the sender wants to see; valid iff Type is SCTPInit or SCTPInitAck
	Type        uint8
	Reflected   bool // the T bit: Tag is the peer's own (RFC 9260 section 8.5.1); valid for ABORT and SHUTDOWN COMPLETE
}

// ReadChunk fills in c from the frame of which Parse made in. It is false when there is no whole first chunk header, or not
// the initiate tag of an INIT, or when the packet is another protocol's or a later fragment. It allocates nothing.
func ReadChunk(frame []byte, in *Info, c *Chunk) bool {
	*c = Chunk{}
	if in.Proto != ProtoSCTP || in.Fragment == LaterFragment || in.End > len(frame) || in.L4 > in.End {
		return false
	}
	b := frame[in.L4:in.End]
	if len(b) < SCTPLen+4 {
		return false
	}
	c.Tag = binary.BigEndian.Uint32(b[4:])
	b = b[SCTPLen:]
	c.Type, c.Reflected = b[0], b[1]&1 != 0
	if binary.BigEndian.Uint16(b[2:]) < 4 {
		return false
	}
	if c.Type != SCTPInit && c.Type != SCTPInitAck {
		return true
	}
	if len(b) < 8 || binary.BigEndian.Uint16(b[2:]) < 20 {
		return false
	}
	c.InitiateTag = binary.BigEndian.Uint32(b[4:])
	return true
}
