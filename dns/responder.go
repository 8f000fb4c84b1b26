package dns

import (
	"bytes"
	"net/netip"
	"time"

	"sluice/dns/wire"
	"sluice/dns/zone"
)

// The limits of Client.
const (
	// UDPLimit is the longest reply sent by UDP: one that no path between here and the client has to fragment
	// (DNS flag day 2020).
	UDPLimit = 1232
	// TCPLimit is the longest message that there is. With it, what the client says of UDP does not count.
	TCPLimit = 65535
	// plainLimit is the longest reply to a client that says nothing of EDNS (RFC 1035 section 4.2.1).
	plainLimit = 512
)

// Responder turns queries into replies. The zones come with each query, so that a query sees one generation of them. It is safe for any
// number of goroutines, and does not allocate. The zero value is ready.
type Responder struct {
	Cookies     *Cookies      // nil: none are given
	IdleTimeout time.Duration // of connections, for clients that ask for it; 0: they are not told
}

// Transport is what a query comes by.
type Transport uint8

// The transports.
const (
	UDP Transport = iota
	TCP
	TLS // over TCP (RFC 7858)
)

// Client is who asks, and what else the reply depends on.
type Client struct {
	Addr  netip.Addr // no IPv4 address in the form of an IPv6 address; invalid: not known, and there are no cookies
	Limit int        // of bytes in a reply, at most UDPLimit by UDP, TCPLimit else
	Time  uint32     // seconds since 1970, for cookies
	Turn  uint32     // where a set of addresses begins: 0 at its first, 1<<31 in the middle

	Transport Transport
}

// Answer writes the reply to query into out and returns its length, 0 if there is to be none. The reply never has more bytes than out
// has room for or than the client takes. Without zones, because they are not loaded yet, it is a server failure: nothing may be said
// not to exist. query and out must not overlap.
func (s Responder) Answer(z *zone.Zones, query, out []byte, c Client) int {
	var r reply
	n, _ := s.respond(&r, z, query, out, &c)
	return n
}

// lack is what a reply out of the zones alone does not have yet.
type lack uint8

const (
	nothing lack = iota
	outside      // the name lies in no zone, and others know it
	target       // the answer ends with a CNAME record that leads out of the zone
	search       // a pod follows its search path, whose next elements may have what the first has not
)

// reply is a reply while it is written.
type reply struct {
	out    []byte
	n      int // bytes written
	limit  int
	opt    int // bytes that the OPT record is going to have; 0: there is none
	flags  uint16
	counts wire.Counts

	extended uint16 // extended error; 0: none
	turn     uint32
	client   Client // as server, the zero value if the query has no options: most have none, and copying costs more than all else of them
	server   Responder
	q        wire.Question
	lacks    lack
}

// outcome is what is known of a reply beside its bytes.
type outcome struct {
	rcode int
	qtype uint16 // 0: there was no question that could be read
	do    bool
	lacks lack
}

// respond is Answer, and says what came of it. A reply that lacks something is a good one all the same. r may have been used before: to clear
// it for each query would take a tenth of the time.
func (s *Responder) respond(r *reply, z *zone.Zones, query, out []byte, c *Client) (n int, o outcome) {
	if n, rcode := r.begin(s, query, out, c); n >= 0 {
		return n, outcome{rcode: rcode}
	}
	return r.finish(r.fill(z, c))
}

// finish ends a reply to a question that was read.
func (r *reply) finish(rcode int) (n int, o outcome) {
	return r.end(rcode), outcome{rcode, r.q.Type, r.q.EDNS && r.q.DO, r.lacks}
}

// begin reads the query and writes its question into out. It returns -1, or the length of the reply and its response code when there
// is nothing else to say.
func (r *reply) begin(s *Responder, query, out []byte, c *Client) (n, rcode int) {
	status := wire.Peek(query, &r.q)
	r.out, r.limit, r.turn = out, min(len(out), replyLimit(&r.q, c.Limit)), c.Turn
	r.opt = 0
	if r.q.EDNS {
		r.opt = wire.OPTLen
	}
	if r.q.Options {
		r.client, r.server = *c, *s
		r.opt += r.optionsLen()
	}
	if status == wire.Ignore || r.limit < wire.HeaderLen {
		return 0, 0
	}
	switch status {
	case wire.Malformed:
		return r.headerOnly(wire.FormErr)
	case wire.Unsupported:
		return r.headerOnly(wire.NotImp)
	case wire.CookieOnly:
		if !r.givesCookie() {
			return r.headerOnly(wire.FormErr)
		}
	}
	if wire.HeaderLen+len(r.q.Section())+r.opt > r.limit {
		return 0, 0
	}
	r.restart()
	if status == wire.CookieOnly {
		r.counts.Question = 0
		rcode = r.cookieOnly()
		return r.end(rcode), rcode
	}
	return -1, 0
}

// restart takes back all that was written behind the question.
func (r *reply) restart() {
	r.n = wire.HeaderLen + copy(r.out[wire.HeaderLen:], r.q.Section())
	r.flags, r.counts, r.extended, r.lacks = 0, wire.Counts{Question: 1}, 0, nothing
}

// replyLimit returns how long a reply may be: what the client takes by UDP, and no less than every client takes.
func replyLimit(q *wire.Question, limit int) int {
	switch {
	case limit >= TCPLimit:
		return TCPLimit
	case !q.EDNS:
		return min(limit, plainLimit)
	}
	return min(limit, max(plainLimit, int(q.UDPSize)))
}

// headerOnly replies to what could not be read: there is no question to repeat.
func (r *reply) headerOnly(rcode int) (int, int) {
	wire.PutHeader(r.out, &r.q, 0, rcode, wire.Counts{})
	return wire.HeaderLen, rcode
}

// fill writes what stands between the question and the OPT record, and returns the response code.
func (r *reply) fill(z *zone.Zones, c *Client) int {
	if z != nil && z.Forwards() {
		r.flags |= wire.FlagRA
	}
	switch {
	case r.q.EDNS && r.q.Version != 0:
		return wire.BadVers
	case r.q.BadOption:
		return wire.FormErr
	case z == nil:
		r.extended = wire.NotReady
		return wire.ServFail
	case r.q.Class == wire.ClassCH:
		return r.chaos(z)
	case r.q.Class != wire.ClassIN:
		return wire.Refused
	case r.q.Type == wire.TypeAXFR || r.q.Type == wire.TypeIXFR:
		r.extended = wire.Prohibited
		return wire.Refused
	}
	node, in := z.Find(&r.q)
	if in == nil {
		if r.q.Flags&wire.FlagRD != 0 && z.Outside(&r.q) {
			r.lacks = outside
		}
		r.extended = wire.NotAuthoritative
		return wire.Refused
	}
	r.flags |= wire.FlagAA
	if node == nil {
		return r.absent(z, in, c)
	}
	var a zone.Answer
	if !z.Answer(node, r.q.Type, &a) {
		r.negative(in)
		return wire.NoError
	}
	r.answer(in, &a)
	if a.Open() && r.q.Flags&wire.FlagRD != 0 && z.Forwards() {
		r.lacks = target
	}
	return a.RCode
}

// absent answers for a name that is no node of its zone.
func (r *reply) absent(z *zone.Zones, in *zone.Zone, c *Client) int {
	if a, ok := z.PodAddress(&r.q); ok {
		r.pod(z, in, a)
		return wire.NoError
	}
	if z.Searched(&r.q, c.Addr) != nil {
		r.lacks = search
	}
	r.negative(in)
	return wire.NXDomain
}

// chaos answers questions of class CH, which have no zone and so no negative answers.
func (r *reply) chaos(z *zone.Zones) int {
	a := z.Chaos(&r.q)
	if a == nil {
		return wire.Refused
	}
	r.flags |= wire.FlagAA
	r.answer(nil, a)
	return wire.NoError
}

// pod answers for a name that spells an address.
func (r *reply) pod(z *zone.Zones, in *zone.Zone, a netip.Addr) {
	switch {
	case r.q.Type == wire.TypeANY:
		r.answer(in, z.Any())
	case r.q.Type == wire.TypeA && a.Is4(), r.q.Type == wire.TypeAAAA && a.Is6():
		if in.AddressLen(a) > r.room() {
			r.flags |= wire.FlagTC
			return
		}
		in.PutAddress(r.out[r.n:], a)
		r.n += in.AddressLen(a)
		r.counts.Answer = 1
	default:
		r.negative(in)
	}
}

// room returns how many bytes may still be written in front of the OPT record.
func (r *reply) room() int { return r.limit - r.n - r.opt }

// negative writes the SOA of a zone into the authority section, which says for how long the absence may be remembered.
func (r *reply) negative(in *zone.Zone) {
	if in.SOALen() > r.room() {
		r.flags |= wire.FlagTC
		return
	}
	in.PutSOA(r.out[r.n:], r.q.NameLen())
	r.n += in.SOALen()
	r.counts.Authority = 1
}

// answer writes a compiled answer.
func (r *reply) answer(in *zone.Zone, a *zone.Answer) {
	base, written := r.n, a.Body
	if a.Cut || len(a.Body) > r.room() {
		written = r.fit(a)
	} else {
		r.counts.Answer, r.counts.Additional = a.Records, a.Additional
	}
	r.n += copy(r.out[r.n:], written)
	if r.rotates(a) {
		r.rotate(a, base)
	}
	r.spell(in, a, base, len(written))
	if a.Negative && r.flags&wire.FlagTC == 0 {
		r.negative(in)
	}
}

// spell gives the apex of the zone, where it is written out in the first n bytes of an answer, the spelling that it has in the
// question. Compressed names point there anyway.
func (r *reply) spell(in *zone.Zone, a *zone.Answer, base, n int) {
	if a.Tails() == 0 {
		return
	}
	name := r.q.Section()[:r.q.NameLen()]
	apex := name[len(name)-len(in.Apex()):]
	if bytes.Equal(apex, r.q.Name()[len(name)-len(apex):]) {
		return
	}
	for i := range a.Tails() {
		if at := a.Tail(i); at+len(apex) <= n {
			copy(r.out[base+at:], apex)
		}
	}
}

// end writes header and OPT record, and returns the length of the reply.
func (r *reply) end(rcode int) int {
	if r.opt > 0 {
		wire.PutOPT(r.out[r.n:], UDPLimit, rcode, r.q.DO)
		r.n += wire.OPTLen
		r.counts.Additional++
		if r.q.Options || r.extended != 0 {
			r.putOptions()
		}
	}
	wire.PutHeader(r.out, &r.q, r.flags, rcode, r.counts)
	return r.n
}
