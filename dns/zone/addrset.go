package zone

import "net/netip"

// addrSet is a set of few addresses, in which many are looked for.
type addrSet struct {
	all  map[netip.Addr]bool
	tail []uint64 // a bit for each value of the last 16 bits, by which most addresses are told apart
}

func newAddrSet() *addrSet { return &addrSet{all: map[netip.Addr]bool{}} }

func (s *addrSet) add(a netip.Addr) {
	if s.tail == nil {
		s.tail = make([]uint64, 1<<16/64)
	}
	word, bit := tailBit(a)
	s.tail[word] |= bit
	s.all[a] = true
}

func (s *addrSet) has(a netip.Addr) bool {
	if len(s.all) == 0 {
		return false
	}
	word, bit := tailBit(a)
	return s.tail[word]&bit != 0 && s.all[a]
}

func tailBit(a netip.Addr) (word int, bit uint64) {
	b := a.As16()
	return int(b[14])<<2 | int(b[15]>>6), 1 << (b[15] & 63)
}
