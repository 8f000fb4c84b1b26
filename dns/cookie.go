package dns

import (
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/dchest/siphash"

	"sluice/config/topology"
	"sluice/dns/wire"
)

// A cookie is the client's 8 bytes and the server's 16: version, three bytes reserved, time and hash (RFC 9018 section 4).
const (
	cookieLen     = cookieHash + 8
	cookieTime    = wire.ClientCookieLen + 4
	cookieHash    = cookieTime + 4
	cookieVersion = 1
)

// How old a cookie may be, in seconds (RFC 9018 section 4.3). The clocks of servers that share a secret may differ by cookieAhead.
const (
	cookieLifetime = 60 * 60
	cookieRenewal  = 30 * 60 // a good one that is older is replaced
	cookieAhead    = 5 * 60
)

// secretLifetime is for how many seconds a random secret makes cookies. That of the day before is still accepted.
const secretLifetime = 24 * 60 * 60

// Cookies makes and checks the cookies by which a client and this server know each other from somebody who forges source addresses
// (RFC 7873). Whoever answers at one address must share them, or have the same secrets. A query with a server cookie that is not good is
// answered like one without, with a new one: cookies would tell which clients to spare from a limit of rates, and there is no such limit
// (RFC 7873 section 5.2.4). Only a client that asks for nothing but a cookie is told by BADCOOKIE (section 5.4).
//
// Concurrency: all methods may be called by any goroutine.
type Cookies struct{ secrets atomic.Pointer[secrets] }

// secrets are what cookies are made by. They are immutable.
type secrets struct {
	keys   []secret // the first makes cookies, all are accepted
	random bool     // made here, to be replaced every day
	since  uint32   // when the first was made, in seconds since 1970; valid iff random
}

// secret is a key of SipHash.
type secret struct{ k0, k1 uint64 }

// NewCookies returns cookies by a random secret, which is replaced every day.
func NewCookies() *Cookies {
	c := &Cookies{}
	c.secrets.Store(&secrets{keys: []secret{randomSecret()}, random: true, since: uint32(time.Now().Unix())})
	return c
}

// SetSecrets has cookies made by the first of the given secrets, and accepted by all of them; without any, it goes back to a random one.
// To replace a secret that several servers share, all of them first get the new one as the second, then as the first, and after an hour
// the old one is taken away (RFC 9018 section 5).
func (c *Cookies) SetSecrets(shared []topology.Secret) {
	s := &secrets{}
	for _, b := range shared {
		s.keys = append(s.keys, secretOf(b))
	}
	switch {
	case len(shared) > 0:
		c.secrets.Store(s)
	case !c.secrets.Load().random:
		c.secrets.Store(NewCookies().secrets.Load())
	}
}

func randomSecret() secret {
	var b [16]byte
	rand.Read(b[:])
	return secretOf(b)
}

func secretOf(b [16]byte) secret {
	return secret{binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])}
}

// current returns the secrets in use at a time, after replacing them if that is due.
func (c *Cookies) current(now uint32) *secrets {
	s := c.secrets.Load()
	if !s.random || int32(now-s.since) < secretLifetime {
		return s
	}
	// Who comes second uses what the first has made.
	c.secrets.CompareAndSwap(s, &secrets{keys: []secret{randomSecret(), s.keys[0]}, random: true, since: now})
	return c.secrets.Load()
}

// put writes the cookie for the reply to a query with a cookie into out, cookieLen bytes. now is in seconds since 1970.
func (c *Cookies) put(out, query []byte, client netip.Addr, now uint32) {
	s := c.current(now)
	if _, fresh := s.check(query, client, now); fresh {
		copy(out, query)
		return
	}
	copy(out, query[:wire.ClientCookieLen])
	binary.BigEndian.PutUint32(out[wire.ClientCookieLen:], cookieVersion<<24)
	binary.BigEndian.PutUint32(out[cookieTime:], now)
	binary.LittleEndian.PutUint64(out[cookieHash:], s.keys[0].hash(out, client))
}

// isGood reports whether a cookie has a server cookie that is valid for a client.
func (c *Cookies) isGood(cookie []byte, client netip.Addr, now uint32) bool {
	good, _ := c.current(now).check(cookie, client, now)
	return good
}

// check reports whether a cookie was given to a client and is valid, and whether it need not be replaced yet.
func (s *secrets) check(cookie []byte, client netip.Addr, now uint32) (good, fresh bool) {
	if len(cookie) != cookieLen || cookie[wire.ClientCookieLen] != cookieVersion {
		return false, false
	}
	age := int32(now - binary.BigEndian.Uint32(cookie[cookieTime:])) // RFC 1982
	if age < -cookieAhead || age > cookieLifetime {
		return false, false
	}
	for i, k := range s.keys {
		if k.hash(cookie, client) == binary.LittleEndian.Uint64(cookie[cookieHash:]) {
			return true, i == 0 && age <= cookieRenewal
		}
	}
	return false, false
}

// hash returns the hash over what stands before it in a cookie, and the address of the client (RFC 9018 section 4.4).
func (k secret) hash(cookie []byte, client netip.Addr) uint64 {
	var in [cookieHash + 16]byte
	n := copy(in[:], cookie[:cookieHash])
	if client.Is4() {
		v4 := client.As4()
		n += copy(in[n:], v4[:])
	} else {
		v6 := client.As16()
		n += copy(in[n:], v6[:])
	}
	return siphash.Hash(k.k0, k.k1, in[:n])
}
