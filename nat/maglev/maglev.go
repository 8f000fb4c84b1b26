// Package maglev builds lookup tables for consistent hashing: a large table of slots, each naming a backend, that
// spreads hashes over backends in proportion to their weights and moves few of them when the set of backends changes
// (Eisenbud et al., "Maglev: A Fast and Reliable Software Network Load Balancer", NSDI 2016, section 3.4).
//
// The same set of names and weights gives the same table on every machine, in whatever order it is given: gateways
// that share an address choose the same backend for a flow without talking to each other. The hashes are therefore
// part of the format: FNV-1a (64 bit) over the bytes of the name from two different offset bases, each finished by
// MurmurHash3's fmix64. Changing them moves nearly every flow.
package maglev

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// DefaultSize is the number of slots that keeps what the removal of one backend moves besides its own share under 1 %
// of the table for any number of backends up to 1000.
const DefaultSize = 65537

// MaxWeight is the largest weight that Build accepts.
const MaxWeight = math.MaxInt32

// Backend is one of the targets of a table.
type Backend struct {
	Name   string // canonical and unique in its table; it alone decides which slots the backend prefers
	Weight int    // share of the slots, relative to the others; 0: none
}

// Table maps hashes to backends.
//
// Concurrency: a Table is immutable; any number of goroutines may read it.
type Table struct {
	size uint64
	// One of them holds the slots, the narrowest whose entries can hold every index; all are nil when no backend has
	// weight.
	narrow []uint8
	medium []uint16
	wide   []uint32
}

// Build returns the table of size slots, a prime number, for backends. Slots hold indices of the slice as given,
// whose order has no influence on which backend a slot belongs to. A table without weights is valid and empty.
func Build(backends []Backend, size int) (*Table, error) {
	if !isPrime(size) || uint64(size) > math.MaxUint32 {
		return nil, fmt.Errorf("table size %d: must be a prime number", size)
	}
	order, err := prepare(backends, size)
	if err != nil {
		return nil, err
	}
	t := &Table{size: uint64(size)}
	switch {
	case len(order) == 0:
	case len(backends) <= math.MaxUint8+1:
		t.narrow = fill[uint8](size, order)
	case len(backends) <= math.MaxUint16+1:
		t.medium = fill[uint16](size, order)
	default:
		t.wide = fill[uint32](size, order)
	}
	return t, nil
}

// Lookup returns the index, in the slice given to Build, of the backend that hash belongs to; -1 when no backend has
// weight.
func (t *Table) Lookup(hash uint64) int {
	slot := hash % t.size
	switch {
	case t.narrow != nil:
		return int(t.narrow[slot])
	case t.medium != nil:
		return int(t.medium[slot])
	case t.wide != nil:
		return int(t.wide[slot])
	}
	return -1
}

// Size returns the number of slots.
func (t *Table) Size() int { return int(t.size) }

// prepare checks backends and returns those with weight as claimants sorted by name.
func prepare(backends []Backend, size int) ([]claimant, error) {
	order := make([]claimant, 0, len(backends))
	names := make(map[string]struct{}, len(backends))
	for i, b := range backends {
		if b.Weight < 0 || b.Weight > MaxWeight {
			return nil, fmt.Errorf("backend %s: weight %d: must be 0 to %d", b.Name, b.Weight, MaxWeight)
		}
		if _, twice := names[b.Name]; twice {
			return nil, fmt.Errorf("backend %s: given twice", b.Name)
		}
		names[b.Name] = struct{}{}
		if b.Weight > 0 {
			order = append(order, newClaimant(i, b, size))
		}
	}
	if len(order) > size {
		return nil, fmt.Errorf("table size %d: too small for %d backends", size, len(order))
	}
	slices.SortFunc(order, func(a, b claimant) int { return cmp.Compare(backends[a.index].Name, backends[b.index].Name) })
	return order, nil
}

// isPrime tells whether n is prime, by trial division: it is asked once a table.
func isPrime(n int) bool {
	if n < 2 {
		return false
	}
	for d := 2; d <= n/d; d++ {
		if n%d == 0 {
			return false
		}
	}
	return true
}
