package dns

import "sluice/dns/wire"

// optLen returns how long the OPT record of the reply is going to be; 0: there is none.
func (r *reply) optLen() int {
	switch {
	case !r.q.EDNS:
		return 0
	case r.givesCookie():
		return wire.OPTLen + wire.OptionHead + cookieLen
	}
	return wire.OPTLen
}

// givesCookie reports whether the reply has a cookie: to a client whose address is known, and who knows of cookies.
func (r *reply) givesCookie() bool {
	return r.q.Cookie != nil && !r.q.BadOption && r.cookies != nil && r.client.Addr.IsValid()
}

// cookieOnly returns the response code for a query that asks for nothing but a cookie, or whether the one that it has is good
// (RFC 7873 section 5.4).
func (r *reply) cookieOnly() int {
	if len(r.q.Cookie) == wire.ClientCookieLen || r.cookies.isGood(r.q.Cookie, r.client.Addr, r.client.Time) {
		return wire.NoError
	}
	return wire.BadCookie
}

// putOPT writes the OPT record.
func (r *reply) putOPT(rcode int) {
	opt := r.out[r.n:]
	wire.PutOPT(opt, UDPLimit, rcode, r.q.DO)
	if r.opt > wire.OPTLen {
		wire.SetOptionsLen(opt, r.opt-wire.OPTLen)
		r.putOptions(opt[wire.OPTLen:])
	}
	r.n += r.opt
	r.counts.Additional++
}

// putOptions writes the options that optLen has counted.
func (r *reply) putOptions(out []byte) {
	if r.givesCookie() {
		wire.PutOption(out, wire.OptionCookie, cookieLen)
		r.cookies.put(out[wire.OptionHead:], r.q.Cookie, r.client.Addr, r.client.Time)
	}
}
