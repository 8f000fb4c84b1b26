package dns

import (
	"encoding/binary"
	"time"

	"sluice/dns/wire"
)

// paddingBlock is what the length of a padded reply is a multiple of (RFC 8467 section 4.1).
const paddingBlock = 468

// optionsLen returns how long the options of the reply are going to be, without padding and extended errors, which are left out where there is
// no room.
func (r *reply) optionsLen() (n int) {
	if r.givesCookie() {
		n += wire.OptionHead + cookieLen
	}
	if r.tellsTimeout() {
		n += wire.OptionHead + 2
	}
	return n
}

// tellsTimeout reports whether the reply says how long the connection may be idle (RFC 7828 section 3.3.2).
func (r *reply) tellsTimeout() bool {
	return r.q.Keepalive && r.client.Transport != UDP && r.server.IdleTimeout > 0
}

// givesCookie reports whether the reply has a cookie: to a client whose address is known, and who knows of cookies.
func (r *reply) givesCookie() bool {
	return r.q.Cookie != nil && !r.q.BadOption && r.server.Cookies != nil && r.client.Addr.IsValid()
}

// cookieOnly returns the response code for a query that asks for nothing but a cookie, or whether the one that it has is good
// (RFC 7873 section 5.4).
func (r *reply) cookieOnly() int {
	if len(r.q.Cookie) == wire.ClientCookieLen || r.server.Cookies.isGood(r.q.Cookie, r.client.Addr, r.client.Time) {
		return wire.NoError
	}
	return wire.BadCookie
}

// putOptions writes the options that optionsLen has counted, and those that it has not, behind the OPT record that was written.
func (r *reply) putOptions() {
	opt, start := r.out[r.n-wire.OPTLen:], r.n
	if r.givesCookie() {
		r.server.Cookies.put(r.option(wire.OptionCookie, cookieLen), r.q.Cookie, r.client.Addr, r.client.Time)
	}
	if r.tellsTimeout() {
		const unit = 100 * time.Millisecond
		binary.BigEndian.PutUint16(r.option(wire.OptionKeepalive, 2), uint16(min(r.server.IdleTimeout/unit, 1<<16-1)))
	}
	if r.extended != 0 && r.n+wire.OptionHead+2 <= r.limit {
		binary.BigEndian.PutUint16(r.option(wire.OptionError, 2), r.extended)
	}
	if r.q.Padding && r.client.Transport == TLS {
		r.pad()
	}
	wire.SetOptionsLen(opt, r.n-start)
}

// pad fills the reply up, if there is room: to the next block, or to the longest message (RFC 8467 section 4.1). By a transport that
// everybody can read it would say nothing and cost bytes.
func (r *reply) pad() {
	length := r.n + wire.OptionHead
	if length <= r.limit {
		clear(r.option(wire.OptionPadding, min((length+paddingBlock-1)/paddingBlock*paddingBlock, r.limit)-length))
	}
}

// option writes the head of an option and returns where its n bytes of data belong.
func (r *reply) option(code uint16, n int) []byte {
	wire.PutOption(r.out[r.n:], code, n)
	start := r.n + wire.OptionHead
	r.n = start + n
	return r.out[start:r.n]
}
