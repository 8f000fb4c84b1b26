package dns

import (
	"sync/atomic"

	"sluice/dns/wire"
)

// rcodes is how many response codes are told apart: those of the header, and BadVers.
const rcodes = wire.BadVers + 1

// ProtocolCounters counts what came by UDP or by TCP, since the server was opened.
type ProtocolCounters struct {
	Replies   [rcodes]uint64 // by response code
	Truncated uint64         // of them with TC set
	Ignored   uint64         // messages that were no queries, or too long
	Unsent    uint64         // replies that the socket did not take
	Refused   uint64         // connections above the limit
	Transfers uint64         // of the replies, those that are zones, or the serials of zones, for secondaries
}

// Queries returns the number of replies of all codes.
func (c *ProtocolCounters) Queries() (n uint64) {
	for _, v := range c.Replies {
		n += v
	}
	return n
}

// Counters are the counters of a Server.
type Counters struct {
	UDP, TCP, TLS ProtocolCounters

	Shed uint64 // queries that other servers were to be asked for, and that too many others had to wait behind
}

// Counters returns the counters as they are now.
func (s *Server) Counters() (c Counters) {
	for _, r := range s.udp {
		r.counters.addTo(&c.UDP)
	}
	for _, l := range s.tcp {
		if l.tls == nil {
			l.counters.addTo(&c.TCP)
		} else {
			l.counters.addTo(&c.TLS)
		}
	}
	c.Shed = s.rest.shed.Load()
	return c
}

// Add adds what another has counted.
func (c *Counters) Add(o Counters) {
	c.UDP.Add(&o.UDP)
	c.TCP.Add(&o.TCP)
	c.TLS.Add(&o.TLS)
	c.Shed += o.Shed
}

// Add adds what another has counted.
func (c *ProtocolCounters) Add(o *ProtocolCounters) {
	for i := range o.Replies {
		c.Replies[i] += o.Replies[i]
	}
	c.Truncated += o.Truncated
	c.Ignored += o.Ignored
	c.Unsent += o.Unsent
	c.Refused += o.Refused
	c.Transfers += o.Transfers
}

// tally is the live form of ProtocolCounters. Each UDP reader has its own, so that cores do not fight for a cache line.
type tally struct {
	_         [64]byte
	replies   [rcodes]atomic.Uint64
	truncated atomic.Uint64
	ignored   atomic.Uint64
	unsent    atomic.Uint64
	refused   atomic.Uint64
	transfers atomic.Uint64
	_         [64]byte
}

// count takes in a reply; an empty one means that the message was ignored.
func (t *tally) count(reply []byte, rcode int) {
	if len(reply) == 0 {
		t.ignored.Add(1)
		return
	}
	t.replies[rcode].Add(1)
	if reply[2]&byte(wire.FlagTC>>8) != 0 {
		t.truncated.Add(1)
	}
}

// transferred takes in the reply to a query for a zone, of however many messages.
func (t *tally) transferred(rcode int) {
	t.replies[rcode].Add(1)
	if rcode == wire.NoError {
		t.transfers.Add(1)
	}
}

func (t *tally) addTo(c *ProtocolCounters) {
	for i := range t.replies {
		c.Replies[i] += t.replies[i].Load()
	}
	c.Truncated += t.truncated.Load()
	c.Ignored += t.ignored.Load()
	c.Unsent += t.unsent.Load()
	c.Refused += t.refused.Load()
	c.Transfers += t.transfers.Load()
}
