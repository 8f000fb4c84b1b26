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
	w.reset()
	return s
}

// reset forgets what was written.
func (w *writer) reset() { w.data, w.slots, w.hash = w.data[:0], w.slots[:0], w.hash[:0] }

// with returns the store after some changes. It shares the shards of all names that stay as they are.
func (s *store) with(changes []*change) store {
	next := *s
	next.shards = slices.Clone(s.shards)
	touched := map[int]map[string]*change{}
	for _, ch := range changes {
		if !ch.write {
			continue
		}
		i := s.shardOf(maphash.String(s.seed, ch.text))
		if touched[i] == nil {
			touched[i] = map[string]*change{}
		}
		touched[i][ch.text] = ch
	}
	w := writer{seed: s.seed}
	for i, here := range touched {
		for r := range s.shards[i].all() {
			if here[string(r.name())] == nil {
				w.add(r)
			}
		}
		for _, ch := range here {
			if ch.old != nil {
				next.names--
			}
			if ch.record != nil {
				next.names++
				w.add(ch.record)
			}
		}
		next.shards[i] = w.shard()
	}
	if !next.fits() {
		return next.split()
	}
	return next
}

// split returns the store with as many shards as suit the number of its names.
func (s *store) split() store {
	next := newStore(s.names, s.seed)
	parts := make([][]record, len(next.shards))
	for r := range s.all() {
		i := next.shardOf(maphash.Bytes(s.seed, r.name()))
		parts[i] = append(parts[i], r)
	}
	w := writer{seed: s.seed}
	for i, part := range parts {
		for _, r := range part {
			w.add(r)
		}
		next.shards[i] = w.shard()
	}
	return next
}
