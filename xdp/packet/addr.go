package packet

import (
	"encoding/binary"
	"net/netip"
)

// Addr is an IPv4 or IPv6 address as two machine words, so that it can be compared, hashed and kept outside the
// Go heap without a pointer (netip.Addr carries one). An IPv4 address is held in its IPv4-mapped form
// (RFC 4291 section 2.5.5.2): Hi is 0, Lo is 0x0000ffff followed by the four bytes. The zero value is "::".
type Addr struct {
	Hi, Lo uint64
}

// mapped is the upper half of Lo for an IPv4-mapped address.
const mapped = 0xffff << 32

// AddrFrom returns a as an Addr. A zone is dropped; the zero netip.Addr becomes "::".
func AddrFrom(a netip.Addr) Addr {
	if a.Is4() {
		b := a.As4()
		return Addr4(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return Addr{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])}
}

// Addr4 returns the IPv4 address whose four bytes in network order are the big-endian v.
func Addr4(v uint32) Addr { return Addr{0, mapped | uint64(v)} }

// Is4 reports whether a is an IPv4 address (in mapped form).
func (a Addr) Is4() bool { return a.Hi == 0 && a.Lo>>32 == 0xffff }

// V4 returns the four bytes as a big-endian number; it is meaningful only when Is4.
func (a Addr) V4() uint32 { return uint32(a.Lo) }

// Netip returns a as a netip.Addr, IPv4-mapped addresses unmapped.
func (a Addr) Netip() netip.Addr {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
	return netip.AddrFrom16(b).Unmap()
}

// As16 returns the sixteen bytes in network order, IPv4 in mapped form: the form of the keys of the BPF maps.
func (a Addr) As16() [16]byte {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], a.Hi)
	binary.BigEndian.PutUint64(b[8:], a.Lo)
	return b
}

// String formats a as netip.Addr does.
func (a Addr) String() string { return a.Netip().String() }
