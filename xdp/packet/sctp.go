package packet

import (
	"encoding/binary"
	"hash/crc32"
)

// SCTP's checksum is a CRC32c over the whole packet and nothing else (RFC 9260 section 6.8): addresses may change without it, ports
// may not. It cannot be brought up to date by difference without knowing how long the packet is, so that it is computed anew.

// parseSCTP reads the ports. Of a quoted packet there may be no more than ports and verification tag.
func parseSCTP(b []byte, in *Info, how extent) Status {
	if len(b) < SCTPLen && (how == whole || len(b) < 8) {
		return Malformed
	}
	in.ports(b)
	return OK
}

// sctpSum returns the checksum that the packet should have.
func sctpSum(b []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli) // the package's own one, which it makes once
	sum := crc32.Update(0, table, b[:8])
	var zero [4]byte // stands for the checksum while it is computed
	sum = crc32.Update(sum, table, zero[:])
	return crc32.Update(sum, table, b[SCTPLen:])
}

// LacksSCTPSum reports whether the packet is a whole one of SCTP without a checksum. One of zero is what a sender leaves that
// its network card is to complete; one in four billion others looks the same, and completing it changes nothing.
func LacksSCTPSum(frame []byte, in *Info) bool {
	return isWholeSCTP(in) && binary.LittleEndian.Uint32(frame[in.L4+8:]) == 0
}

// verifySCTP reports whether the checksum is right. On the wire its least significant byte comes first (RFC 9260 appendix A).
func verifySCTP(frame []byte, in *Info) bool {
	b := frame[in.L4:in.End]
	return binary.LittleEndian.Uint32(b[8:]) == sctpSum(b)
}

// completeSCTP writes the checksum.
func completeSCTP(frame []byte, in *Info) {
	b := frame[in.L4:in.End]
	binary.LittleEndian.PutUint32(b[8:], sctpSum(b))
}

// isWholeSCTP reports whether the checksum of an SCTP packet can be computed: it is there, and all that it covers.
func isWholeSCTP(in *Info) bool {
	return in.Proto == ProtoSCTP && in.Fragment == NotFragment && in.L4+SCTPLen <= in.End
}
