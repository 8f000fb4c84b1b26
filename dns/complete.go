package dns

import (
	"context"
	"errors"
	"net/netip"
	"strings"

	mdns "github.com/miekg/dns"

	"sluice/dns/forward"
	"sluice/dns/wire"
)

// maxTargets is how many CNAME records an answer follows from zone to zone and out of them.
const maxTargets = 8

// complete is respond with what others know: names outside the zones, targets of CNAME records, and the rest of search paths.
func complete(ctx context.Context, s *Responder, from *sources, query, out []byte, c *Client) (n int, o outcome) {
	var r reply
	if n, rcode := r.begin(s, query, out, c); n >= 0 {
		return n, outcome{rcode: rcode}
	}
	rcode := r.fill(from.zones, c)
	l := lookup{ctx: ctx, from: from, client: c.Addr, q: forward.Question{Type: r.q.Type, DO: r.q.EDNS && r.q.DO, CD: r.q.Flags&wire.FlagCD != 0}}
	if r.lacks == nothing || l.asked.Unpack(query) != nil {
		return r.finish(rcode)
	}
	switch r.lacks {
	case outside:
		rcode = r.outside(&l)
	case target:
		rcode = r.target(&l, rcode)
	case search:
		rcode = r.search(&l, rcode)
	}
	return r.finish(rcode)
}

// lookup is where the rest of an answer is found.
type lookup struct {
	ctx    context.Context
	from   *sources
	client netip.Addr
	q      forward.Question // without name
	asked  mdns.Msg         // the query as it came
}

// find returns the answer for a name, of the zones or of another server.
func (l *lookup) find(name string) (*mdns.Msg, error) {
	if m := l.own(name); m.Rcode != mdns.RcodeRefused {
		return m, nil
	}
	return l.ask(name)
}

// own returns the answer of the zones: RcodeRefused for names outside.
func (l *lookup) own(name string) *mdns.Msg {
	m := &mdns.Msg{}
	query, err := (&mdns.Msg{Question: []mdns.Question{{Name: name, Qtype: l.q.Type, Qclass: mdns.ClassINET}}}).Pack()
	if err == nil {
		out := make([]byte, TCPLimit)
		n, _ := new(Responder).respond(new(reply), l.from.zones, query, out, &Client{Limit: TCPLimit})
		err = m.Unpack(out[:n])
	}
	if err != nil { // the name has come from elsewhere, and is none that can be asked for
		m.Rcode = mdns.RcodeRefused
	}
	return m
}

// ask returns the answer of another server.
func (l *lookup) ask(name string) (*mdns.Msg, error) {
	if l.from.forward == nil {
		return nil, forward.ErrNoUpstream
	}
	q := l.q
	q.Name = strings.ToLower(name)
	return l.from.forward.Resolve(l.ctx, q)
}

// outside answers for a name of no zone.
func (r *reply) outside(l *lookup) (rcode int) {
	m, err := l.ask(l.asked.Question[0].Name)
	switch {
	case errors.Is(err, forward.ErrNoUpstream):
		return wire.Refused
	case err != nil:
		r.extended = wire.NoReachable
		return wire.ServFail
	}
	if m.AuthenticatedData && (l.q.DO || l.asked.AuthenticatedData) { // RFC 6840 section 5.8
		r.flags |= wire.FlagAD
	}
	return r.message(l, m)
}

// target adds to an answer that ends with a CNAME record what that leads to. Whoever cannot be asked has no say in it: the client may
// be able to.
func (r *reply) target(l *lookup, rcode int) int {
	m, err := l.follow(l.own(l.asked.Question[0].Name))
	if errors.Is(err, forward.ErrNoUpstream) {
		return rcode
	}
	return r.message(l, m)
}

// follow adds to an answer what the CNAME record at its end leads to, if there is one. When that fails the answer is a server failure, so
// that the client tries again.
func (l *lookup) follow(m *mdns.Msg) (*mdns.Msg, error) {
	for range maxTargets {
		alias, ok := lastAlias(m)
		if !ok || l.q.Type == mdns.TypeCNAME {
			return m, nil
		}
		rest, err := l.find(alias)
		if err != nil {
			return &mdns.Msg{MsgHdr: mdns.MsgHdr{Rcode: mdns.RcodeServerFailure}}, err
		}
		m.Answer, m.Ns, m.Extra, m.Rcode = append(m.Answer, rest.Answer...), rest.Ns, rest.Extra, rest.Rcode
		if len(rest.Answer) == 0 || m.Rcode != mdns.RcodeSuccess {
			return m, nil
		}
	}
	return m, nil
}

// lastAlias returns the target of the CNAME record that an answer ends with.
func lastAlias(m *mdns.Msg) (string, bool) {
	if len(m.Answer) == 0 {
		return "", false
	}
	alias, ok := m.Answer[len(m.Answer)-1].(*mdns.CNAME)
	if !ok {
		return "", false
	}
	return alias.Target, true
}

// search goes on along the search path of a pod, and answers with the first name that exists, as if what was asked for were another name
// of it. When none does, the resolver of the pod has to find that out itself.
func (r *reply) search(l *lookup, rcode int) int {
	typed := r.q.Section()[:len(l.from.zones.Searched(&r.q, l.client))]
	elements, ttl := l.from.zones.SearchRest()
	for _, element := range elements {
		name, _, err := mdns.UnpackDomainName([]byte(string(typed)+element), 0)
		if err != nil {
			continue // too long a name: there is none
		}
		m, err := l.find(name)
		if err == nil {
			m, err = l.follow(m)
		}
		if err != nil || m.Rcode != mdns.RcodeSuccess {
			continue
		}
		asked := mdns.RR_Header{Name: l.asked.Question[0].Name, Rrtype: mdns.TypeCNAME, Class: mdns.ClassINET, Ttl: ttl}
		m.Answer = append([]mdns.RR{&mdns.CNAME{Hdr: asked, Target: name}}, m.Answer...)
		return r.message(l, m)
	}
	return rcode
}

// message writes what was found in place of what stands behind the question.
func (r *reply) message(l *lookup, m *mdns.Msg) (rcode int) {
	flags := r.flags &^ wire.FlagTC
	r.restart()
	out := mdns.Msg{Question: l.asked.Question, Answer: m.Answer, Ns: m.Ns, Extra: withoutOPT(m.Extra), Compress: true}
	if rcode = m.Rcode; rcode == wire.ServFail || rcode > 0xf {
		r.flags, r.extended = flags&^wire.FlagAA, wire.NoReachable
		return wire.ServFail
	}
	spellAsAsked(out.Answer, l.asked.Question[0].Name)
	r.reserve(&out)
	out.Truncate(r.limit)
	out.Extra = withoutOPT(out.Extra)
	packed, err := out.Pack()
	if err != nil { // a record that was read cannot be written
		r.flags = flags &^ wire.FlagAA
		return wire.ServFail
	}
	if out.Truncated {
		flags |= wire.FlagTC
	}
	r.flags = flags
	r.n += copy(r.out[r.n:], packed[r.n:]) // both begin with the header and one and the same question
	r.counts.Answer, r.counts.Authority, r.counts.Additional = uint16(len(out.Answer)), uint16(len(out.Ns)), uint16(len(out.Extra))
	return rcode
}

// reserve gives a message an OPT record as long as that of the reply is going to be.
func (r *reply) reserve(m *mdns.Msg) {
	if r.opt == 0 {
		return
	}
	m.SetEdns0(UDPLimit, false)
	if options := r.opt - wire.OPTLen; options > 0 {
		m.IsEdns0().Option = []mdns.EDNS0{&mdns.EDNS0_LOCAL{Data: make([]byte, options-wire.OptionHead)}}
	}
}

// spellAsAsked gives records of the name that was asked for its spelling in the question.
func spellAsAsked(records []mdns.RR, name string) {
	for _, r := range records {
		if strings.EqualFold(r.Header().Name, name) {
			r.Header().Name = name
		}
	}
}

// withoutOPT returns the records that are of the zones.
func withoutOPT(records []mdns.RR) (out []mdns.RR) {
	for _, r := range records {
		if r.Header().Rrtype != mdns.TypeOPT {
			out = append(out, r)
		}
	}
	return out
}
