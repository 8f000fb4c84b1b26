package maglev

// claimant is a backend on its way through its permutation of the slots: the slots pos, pos+skip, pos+2*skip and so
// on modulo the size, which are all slots because the size is prime.
type claimant struct {
	index        int // in the slice given to Build
	weight       int
	credit       int // weight gathered since its last turn
	pos, skip, m uint64
}

// newClaimant returns b, the backend at index, at the start of its permutation of size slots.
func newClaimant(index int, b Backend, size int) claimant {
	m := uint64(size)
	return claimant{index: index, weight: b.Weight, m: m,
		pos: hash(offsetBasis, b.Name) % m, skip: hash(skipBasis, b.Name)%(m-1) + 1}
}

// claim takes the first slot of what is left of the permutation that nobody has taken, and returns it.
func (c *claimant) claim(taken []uint64) uint64 {
	for {
		slot := c.pos
		if c.pos += c.skip; c.pos >= c.m {
			c.pos -= c.m
		}
		if bit := uint64(1) << (slot % 64); taken[slot/64]&bit == 0 {
			taken[slot/64] |= bit
			return slot
		}
	}
}

// fill lets the claimants take slots in rounds until all are taken. In a round each claimant gathers its weight, and
// takes a slot when it has as much as the heaviest one gathers in a round, so that turns are in the proportion of the
// weights and evenly spread: with equal weights everyone takes one slot a round, and shares differ by at most one
// slot.
//
// Who has taken a slot is read from a bitmap and not from the slots themselves: it stays in the first-level cache.
func fill[T uint8 | uint16 | uint32](size int, order []claimant) []T {
	slots, taken := make([]T, size), make([]uint64, (size+63)/64)
	turn := heaviest(order)
	for free := size; ; {
		for i := range order {
			c := &order[i]
			if c.credit += c.weight; c.credit < turn {
				continue
			}
			c.credit -= turn
			slots[c.claim(taken)] = T(c.index)
			if free--; free == 0 {
				return slots
			}
		}
	}
}

// heaviest returns the largest weight.
func heaviest(order []claimant) int {
	top := 0
	for i := range order {
		top = max(top, order[i].weight)
	}
	return top
}

// Offset bases of FNV-1a. The first is the standard one; the second is any other number, here the first with its
// halves exchanged, so that the two hashes of a name are independent.
const (
	offsetBasis = 0xcbf29ce484222325
	skipBasis   = 0x84222325cbf29ce4
	fnvPrime    = 0x100000001b3
)

// hash is FNV-1a from the given offset basis, finished by fmix64: FNV alone leaves the high bits of short names
// alike.
func hash(basis uint64, name string) uint64 {
	h := basis
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * fnvPrime
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
