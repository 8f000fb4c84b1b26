package nat

import "sluice/xdp/packet"

// exhaustedSlots is the number of destinations that an Exhausted remembers, a power of two.
const exhaustedSlots = 256

// Exhausted remembers destinations towards which no source port of the pool is free, so that a flood of new flows to
// one does not search the whole pool for each packet. It is a cache of fixed size that forgets: on a false "no" the
// pool is searched again. On a "yes" new flows are refused until the time is over, even if a port has become free
// meanwhile.
//
// The zero value remembers nothing. Concurrency: one per worker. It does not allocate.
type Exhausted struct {
	slots [exhaustedSlots]exhaustedSlot
}

// exhaustedSlot is one destination; until is 0 in an empty slot.
type exhaustedSlot struct {
	dst   packet.Addr
	until int64
	port  uint16
	proto uint8
}

// Mark remembers the destination until the time until, in nanoseconds of the clock that Has is given.
func (e *Exhausted) Mark(dst packet.Addr, port uint16, proto uint8, until int64) {
	*e.slot(dst, port, proto) = exhaustedSlot{dst, until, port, proto}
}

// Has reports whether the destination is marked and its time is not over at now.
func (e *Exhausted) Has(dst packet.Addr, port uint16, proto uint8, now int64) bool {
	s := e.slot(dst, port, proto)
	return now < s.until && s.dst == dst && s.port == port && s.proto == proto
}

// slot returns the only slot that the destination can be in.
func (e *Exhausted) slot(dst packet.Addr, port uint16, proto uint8) *exhaustedSlot {
	tu := packet.Tuple{Dst: dst, DstPort: port, Proto: proto}
	return &e.slots[tu.Hash(0)%exhaustedSlots]
}
