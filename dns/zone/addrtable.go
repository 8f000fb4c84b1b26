package zone

import (
	"hash/maphash"
	"math/bits"
	"net/netip"
)

// addrTable maps addresses to numbers, in one block of memory that the collector does not look into: a hash table with open addressing. Its
// hash has a key of its own, see store.
type addrTable struct {
	seed  maphash.Seed
	slots []addrSlot // a power of two, at most half of them used
	count int        // addresses that there are
}

type addrSlot struct {
	addr   [16]byte
	used   bool
	number uint32
}

func newAddrTable(room int) *addrTable {
	return &addrTable{seed: maphash.MakeSeed(), slots: make([]addrSlot, 2<<bits.Len(uint(room)))}
}

// find returns the slot of an address, or the unused one where it would be.
func (t *addrTable) find(addr [16]byte) *addrSlot {
	mask := uint64(len(t.slots) - 1)
	for i := maphash.Bytes(t.seed, addr[:]); ; i++ {
		if s := &t.slots[i&mask]; !s.used || s.addr == addr {
			return s
		}
	}
}

// get returns the number of an address, 0 for one that is not there, as none is of IPv4 inside IPv6.
func (t *addrTable) get(a netip.Addr) uint32 {
	if a.Is4In6() {
		return 0
	}
	return t.find(a.As16()).number
}

// put returns where the number of an address stands, until the next put. One that is new has 0.
func (t *addrTable) put(a netip.Addr) *uint32 {
	addr := a.As16()
	s := t.find(addr)
	if s.used {
		return &s.number
	}
	if t.count++; 2*t.count > len(t.slots) {
		t.grow()
		s = t.find(addr)
	}
	s.addr, s.used = addr, true
	return &s.number
}

// grow doubles the table.
func (t *addrTable) grow() {
	old := t.slots
	t.slots = make([]addrSlot, 2*len(old))
	for i := range old {
		if old[i].used {
			*t.find(old[i].addr) = old[i]
		}
	}
}
