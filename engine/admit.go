package engine

import (
	"encoding/binary"

	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// isForUs reports whether a frame was sent to this gateway: to the address of an attached interface, or to one that the
// gateway sends from (a VLAN device may have its own). XDP sees also what a switch floods, what is sent to all, and what a
// bridge is to carry on: that is the kernel's to drop or to bridge, as two gateways on one link must not both forward it
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

// refused is why a packet that is ours must not open a flow, nor be answered; Unknown when it may. Packets of a flow are
// not asked: they have the source that the flow was opened by.
func (p *Pipeline) refused(f *xdp.Frame) reason.Reason {
	switch {
	case !packet.VerifyIP(f.Bytes(), p.in):
		return reason.Malformed // its addresses may be anybody's (RFC 1812 section 5.2.2)
	case p.isMartian():
		return reason.Martian
	}
	return reason.Unknown
}

// isMartian reports whether the source cannot be a client. That is an address that is no host's, or not one beyond its link
// (RFC 1812 section 5.3.7, RFC 4291 section 2.5.6); one of the gateway's own, or a broadcast address, unless a process of
// the gateway has sent the packet; and a service port. Two of these would have their backends answer each other without
// end, for the price of one forged datagram.
func (p *Pipeline) isMartian() bool {
	t := &p.in.Tuple
	if !packet.IsHost(t.Src) || packet.IsLinkLocal6(t.Src) {
		return true
	}
	if !p.fromNode && p.hops.At(p.hops.Find(t.Src)).State == fib.Local {
		return true
	}
	return p.in.HasPorts && p.snap.NAT.IsServicePort(t.Src, t.SrcPort, t.Proto)
}

// trim takes off what follows the IP packet, save what fills up a minimal frame: the link that it goes out by may be one
// that takes no frame as long as that.
func (p *Pipeline) trim(f *xdp.Frame) {
	f.End = min(f.End, f.Start+max(p.in.End, minFrame))
}

// minFrame is the length of the shortest Ethernet frame, without its checksum.
const minFrame = 60
