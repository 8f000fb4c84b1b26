package dns

import (
	"bytes"

	"sluice/dns/wire"
	"sluice/dns/zone"
)

// fit returns the part of an answer's body that there is room for, counts its records, and sets TC if records of the answer
// section are missing. Those that fit are sent: they serve clients that know no TCP. Of the additional section whole RRsets
// are sent as they fit, and a missing one is no truncation (RFC 2181 section 9).
func (r *reply) fit(a *zone.Answer) []byte {
	room, end := r.room(), 0
	for range a.Records {
		next, ok := wire.ReadRecord(a.Body, end)
		if !ok || next.End > room {
			r.flags |= wire.FlagTC
			return a.Body[:end]
		}
		end = next.End
		r.counts.Answer++
	}
	if a.Cut {
		r.flags |= wire.FlagTC
		return a.Body[:end]
	}
	return a.Body[:r.fitAdditional(a, end, room)]
}

// fitAdditional returns where the last RRset of the additional section ends that fits; the section starts at start.
func (r *reply) fitAdditional(a *zone.Answer, start, room int) int {
	var first wire.Record // of the set
	whole, at, counted := start, start, uint16(0)
	for i := range a.Additional {
		next, ok := wire.ReadRecord(a.Body, at)
		if !ok {
			break
		}
		if i == 0 || !sameSet(a.Body, first, next) {
			whole, first = at, next
			r.counts.Additional += counted
			counted = 0
		}
		if next.End > room {
			return whole
		}
		at = next.End
		counted++
	}
	r.counts.Additional += counted
	return at
}

// sameSet reports whether two records of a message belong to one RRset. Owners that are written alike are the same.
func sameSet(msg []byte, a, b wire.Record) bool {
	const fixed = 10 // type, class, TTL and length stand between owner and data
	return a.Type == b.Type && bytes.Equal(msg[a.Start:a.Data-fixed], msg[b.Start:b.Data-fixed])
}
