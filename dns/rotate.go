package dns

import (
	"sluice/dns/wire"
	"sluice/dns/zone"
)

// nextTurn is what Client.Turn grows by from one query to the next: 2^32 divided by the golden ratio. The turns are spread evenly, and so
// is every second of them: a client that asks for A and AAAA by turns does not get the same address each time.
const nextTurn = 0x9e3779b9

// rotate has the addresses of an answer that was written at base begin at the client's turn (RFC 1794), so that clients that take the first
// one spread over all. It is their order in a circle, and all of them get into answers that are cut. Aliases stay in front.
func (r *reply) rotate(a *zone.Answer, base int) {
	n, written := int(a.Records), int(r.counts.Answer)
	first, ok := wire.ReadRecord(a.Body, 0)
	for ; ok && n > 1 && first.Type != r.q.Type; n, written = n-1, written-1 {
		first, ok = wire.ReadRecord(a.Body, first.End)
	}
	if !ok || n < 2 || written < 1 {
		return
	}
	// The owners of a set are written alike, and so its records have one length.
	length := first.End - first.Start
	set := a.Body[first.Start : first.Start+n*length]
	out := r.out[base+first.Start:][:written*length]
	start := int(uint64(r.turn) * uint64(n) >> 32)
	copy(out[copy(out, set[start*length:]):], set)
}

// rotates reports whether the order of an answer's records is free: those of addresses are.
func (r *reply) rotates(a *zone.Answer) bool {
	return a.Records > 1 && r.turn != 0 && (r.q.Type == wire.TypeA || r.q.Type == wire.TypeAAAA)
}
