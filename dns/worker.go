package dns

import (
	"time"

	"sluice/dns/zone"
)

// Worker answers for one thread that has the queries in its own memory, as a packet worker does: it has the buffer for the reply and
// counters of its own, and no socket. It does not allocate.
//
// Concurrency: one goroutine, but for Counters.
type Worker struct {
	responder Responder
	time      uint32
	turn      uint32
	reply     reply
	out       [UDPLimit]byte
	counters  tally
}

// NewWorker returns a worker that answers as r does.
func NewWorker(r Responder) *Worker {
	w := &Worker{responder: r}
	w.SetTime(time.Now())
	return w
}

// SetTime says what time it is: the worker reads no clock. Seconds are exact enough.
func (w *Worker) SetTime(t time.Time) { w.time = uint32(t.Unix()) }

// Answer returns the reply to a query that came by UDP, and its response code. The reply is empty when there is to be none; it is good
// until the next call. Of c the time and the turn are the worker's. complete is false for a query that other servers must be asked for:
// it is for a Server, and not counted here.
func (w *Worker) Answer(z *zone.Zones, query []byte, c Client) (reply []byte, rcode int, complete bool) {
	c.Limit, c.Time, c.Turn = min(c.Limit, UDPLimit), w.time, w.turn
	w.turn += nextTurn
	n, o := w.responder.respond(&w.reply, z, query, w.out[:], &c)
	if o.lacks != nothing {
		return nil, o.rcode, false
	}
	w.counters.count(w.out[:n], o)
	return w.out[:n], o.rcode, true
}

// Counters returns what has been answered so far. It may be called from any goroutine.
func (w *Worker) Counters() (c ProtocolCounters) {
	w.counters.addTo(&c)
	return c
}
