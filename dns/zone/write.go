package zone

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"slices"
)

// writer writes shards. It is used again for each: what a shard keeps is copied.
type writer struct {
	seed  maphash.Seed
	data  []byte
	slots []uint64 // one for each record, see shard.index; the hashes are beside
	hash  []uint64
}

// add appends a record that is complete.
func (w *writer) add(r record) {
	w.data = append(w.data, r...)
	w.note(len(w.data) - len(r))
}

// begin starts a record in place and returns where. What is behind its name is appended to data, and end called.
func (w *writer) begin(name string, children int) (at int) {
	at = len(w.data)
	w.data = binary.BigEndian.AppendUint32(w.data, 0)
	w.data = binary.BigEndian.AppendUint32(w.data, uint32(children))
	w.data = append(w.data, name...)
	return at
}

// end ends the record that was begun at an offset.
func (w *writer) end(at int) {
	binary.BigEndian.PutUint32(w.data[at:], uint32(len(w.data)-at))
	w.note(at)
}

// note takes the record at an offset into the index.
func (w *writer) note(at int) {
	hash := maphash.Bytes(w.seed, record(w.data[at:]).name())
	w.hash = append(w.hash, hash)
	w.slots = append(w.slots, uint64(fragment(hash))<<32|uint64(at+1))
}

// shard returns what was written, and begins anew.
func (w *writer) shard() shard {
	index := make([]uint64, 1<<bits.Len(uint(len(w.slots)*3/2))) // two thirds full at most
	mask := uint64(len(index) - 1)
	for i, hash := range w.hash {
		for index[hash&mask] != 0 {
			hash++
		}
		index[hash&mask] = w.slots[i]
	}
	s := shard{index: index, data: slices.Clip(bytes.Clone(w.data))}
	w.data, w.slots, w.hash = w.data[:0], w.slots[:0], w.hash[:0]
	return s
}
