package dns

import "sluice/dns/zone"

// Worker answers for one thread that has the queries in its own memory, as a packet worker does: it has the buffer for the reply and
// counters of its own, and no socket. It does not allocate.
//
// Concurrency: one goroutine, but for Counters.
type Worker struct {
	out      [UDPLimit]byte
	counters tally
}

// Answer returns the reply to a query that came by UDP, and its response code. The reply is empty when there is to be none; it is good
// until the next call. complete is false for a query that other servers must be asked for: it is for a Server, and not counted here.
func (w *Worker) Answer(z *zone.Zones, query []byte, c Client) (reply []byte, rcode int, complete bool) {
	c.Limit = min(c.Limit, UDPLimit)
	n, rcode, lacks := respond(z, query, w.out[:], c)
	if lacks != nothing {
		return nil, rcode, false
	}
	w.counters.count(w.out[:n], rcode)
	return w.out[:n], rcode, true
}

// Counters returns what has been answered so far. It may be called from any goroutine.
func (w *Worker) Counters() (c ProtocolCounters) {
	w.counters.addTo(&c)
	return c
}
