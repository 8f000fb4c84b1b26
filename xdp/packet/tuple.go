package packet

import (
	"fmt"
	"net/netip"
)

// Protocol numbers (IANA assigned internet protocol numbers).
const (
	ProtoICMP   = 1
	ProtoTCP    = 6
	ProtoUDP    = 17
	ProtoICMPv6 = 58
	ProtoSCTP   = 132
)

// Tuple identifies one direction of a flow. For ICMP echo both ports hold the identifier. Tuples are comparable.
type Tuple struct {
	Src, Dst         Addr
	SrcPort, DstPort uint16
	Proto            uint8
	_                [3]byte
}

// Reverse returns the tuple of packets that travel the other way.
func (t Tuple) Reverse() Tuple {
	t.Src, t.Dst = t.Dst, t.Src
	t.SrcPort, t.DstPort = t.DstPort, t.SrcPort
	return t
}

// Words returns the tuple as five words, the form in which tables outside the Go heap store it (each word by one
// atomic store) and hash it.
func (t *Tuple) Words() [5]uint64 {
	return [5]uint64{t.Src.Hi, t.Src.Lo, t.Dst.Hi, t.Dst.Lo,
		uint64(t.SrcPort)<<48 | uint64(t.DstPort)<<32 | uint64(t.Proto)}
}

// TupleFromWords is the inverse of Words.
func TupleFromWords(w [5]uint64) Tuple {
	return Tuple{Src: Addr{w[0], w[1]}, Dst: Addr{w[2], w[3]},
		SrcPort: uint16(w[4] >> 48), DstPort: uint16(w[4] >> 32), Proto: uint8(w[4])}
}

// Hash mixes the tuple with seed. The two directions of a flow hash differently. With a fixed seed the value is the
// same on every machine (backend choice relies on it); tables use a random seed against crafted collisions.
func (t *Tuple) Hash(seed uint64) uint64 {
	w := t.Words()
	h := seed
	for _, v := range w {
		h = mix(h ^ v)
	}
	return h
}

// mix is the finaliser of MurmurHash3 (fmix64): every input bit reaches every output bit.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	return h
}

// String formats the tuple as "tcp 192.0.2.1:1024 > 198.51.100.1:80".
func (t Tuple) String() string {
	return fmt.Sprintf("%s %s > %s", ProtoName(t.Proto),
		netip.AddrPortFrom(t.Src.Netip(), t.SrcPort), netip.AddrPortFrom(t.Dst.Netip(), t.DstPort))
}

// ProtoName returns the lower-case name of a protocol number, "proto-N" when it has none here.
func ProtoName(proto uint8) string {
	switch proto {
	case ProtoICMP:
		return "icmp"
	case ProtoTCP:
		return "tcp"
	case ProtoUDP:
		return "udp"
	case ProtoICMPv6:
		return "icmpv6"
	case ProtoSCTP:
		return "sctp"
	}
	return fmt.Sprintf("proto-%d", proto)
}
