package engine

import (
	"encoding/binary"

	"sluice/xdp"
)

// (RFC 1812 section 5.3.4).
func (p *Pipeline) isForUs(f *xdp.Frame) bool {
	mac := macOf(f.Buf[f.Start:])
	return mac == p.macs[f.Iface] || p.isOwnMAC(mac)
}

// isOwnMAC is the rare part of isForUs.
func (p *Pipeline) isOwnMAC(mac uint64) bool {
	for _, m := range p.macs {
		if m == mac {
			return true
		}
	}
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], mac)
	return p.hops.SendsFrom([6]byte(b[2:]))
}

// macOf is the destination of a frame as a number.
func macOf(frame []byte) uint64 {
	return uint64(binary.BigEndian.Uint16(frame))<<32 | uint64(binary.BigEndian.Uint32(frame[2:]))
}

// that takes no frame as long as that.
func (p *Pipeline) trim(f *xdp.Frame) {
	f.End = min(f.End, f.Start+max(p.in.End, minFrame))
}

// minFrame is the length of the shortest Ethernet frame, without its checksum.
const minFrame = 60
