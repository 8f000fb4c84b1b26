package zone

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
)

// store has the records of all names in shards, by hash. The hash has a key of its own in each process: clients choose the names that they
// ask for, and could otherwise choose many that meet in one place.
//
// The collector sees two pointers for each shard and never looks into them, whatever number of names there is.
type store struct {
	seed   maphash.Seed
	shift  int // the first bits of a hash are the number of the shard
	shards []shard
	names  int
}

// shard has the records of some names. It is immutable.
type shard struct {
	// index is a hash table with open addressing, of a power of two of slots: 32 bits of the hash, then the offset of the record
	// plus one; 0 for an empty slot. The last bits of the hash say where to begin. There is always an empty slot.
	index []uint64
	data  []byte
}

// record is a name with its node, and how many names are directly below it:
//
//	4 bytes   length of the record
//	4 bytes   number of children
//	          the name in wire form, the node
type record []byte

// recordHead is the length of what stands before the name of a record.
const recordHead = 8

func (r record) children() int { return int(binary.BigEndian.Uint32(r[4:])) }

// name returns the name of the record in wire form.
func (r record) name() []byte { return r[recordHead:r.nameEnd()] }

func (r record) node() Node { return Node(r[r.nameEnd():]) }

func (r record) nameEnd() int {
	at := recordHead
	for r[at] != 0 {
		at += 1 + int(r[at])
	}
	return at + 1
}

// namesPerShard is how many names a shard has on the average, once the number of shards is chosen. A change of a name writes its
// shard anew: less would make generations share less evenly, and more would make each change dearer.
const namesPerShard = 512

// newStore returns a store without shards for a number of names.
func newStore(names int, seed maphash.Seed) store {
	n := bits.Len(uint(names / namesPerShard)) // the number of shards as a power of two
	return store{seed: seed, shift: 64 - n, shards: make([]shard, 1<<n), names: names}
}

// fits reports whether the number of shards still suits the number of names.
func (s *store) fits() bool {
	return s.names <= 4*namesPerShard*len(s.shards) && (len(s.shards) == 1 || s.names >= namesPerShard/16*len(s.shards))
}

// fragment returns what of a hash a slot has.
func fragment(hash uint64) uint32 { return uint32(hash >> 20) }

func (s *store) shardOf(hash uint64) int { return int(hash >> s.shift) }

// get returns the record of a name in wire form and lower case, nil if it does not exist.
func (s *store) get(name []byte) record {
	if sh, at := s.find(name); sh != nil {
		return sh.record(at)
	}
	return nil
}

// node returns the node of a name in wire form and lower case, nil if it does not exist. A node says itself where it ends.
func (s *store) node(name []byte) Node {
	if sh, at := s.find(name); sh != nil {
		return Node(sh.data[int(at)+recordHead+len(name):])
	}
	return nil
}

// find returns the shard that has a name, nil if none has, and the offset of its record.
func (s *store) find(name []byte) (*shard, uint32) {
	hash := maphash.Bytes(s.seed, name)
	sh := &s.shards[s.shardOf(hash)]
	want, mask := fragment(hash), uint64(len(sh.index)-1)
	for i := hash; ; i++ {
		slot := sh.index[i&mask]
		if slot == 0 {
			return nil, 0
		}
		if uint32(slot>>32) != want {
			continue
		}
		// A name in wire form is never the beginning of another.
		if at := uint32(slot) - 1; bytes.HasPrefix(sh.data[at+recordHead:], name) {
			return sh, at
		}
	}
}

// all ranges over the records of a shard.
func (s *shard) all() iter.Seq[record] {
	return func(yield func(record) bool) {
		for at := 0; at < len(s.data); {
			r := s.record(uint32(at))
			if !yield(r) {
				return
			}
			at += len(r)
		}
	}
}

// all ranges over all records.
func (s *store) all() iter.Seq[record] {
	return func(yield func(record) bool) {
		for i := range s.shards {
			for r := range s.shards[i].all() {
				if !yield(r) {
					return
				}
			}
		}
	}
}

// record returns the record at an offset.
func (s *shard) record(at uint32) record {
	return s.data[at : at+binary.BigEndian.Uint32(s.data[at:])]
}
