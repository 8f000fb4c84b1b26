package forward

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	mdns "github.com/miekg/dns"
)

// group is the upstreams for one domain.
type group struct {
	domain    string // with the dot at the end; "." is for all
	upstreams []*upstream
	forwarder *Forwarder
}

// exchange asks the upstreams one after the other, beginning with any, until one gives an answer that settles the question; each is asked
// twice at most. What none can settle, a server failure say, is passed on.
func (g *group) exchange(ctx context.Context, q Question) (*mdns.Msg, error) {
	var last *mdns.Msg
	err := ErrUnreachable
	for _, u := range g.order() {
		if ctx.Err() != nil {
			break
		}
		reply, failure := g.forwarder.exchange(ctx, u, q)
		switch {
		case failure != nil:
			err = errors.Join(ErrUnreachable, failure)
		case !failed(reply.Rcode):
			return reply, nil
		default:
			last = reply
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, err
}

// order returns whom to ask: those that answer, from a random one on, twice. When none is known to answer any may have come back.
func (g *group) order() (out []*upstream) {
	first := rand.IntN(len(g.upstreams))
	for i := range g.upstreams {
		if u := g.upstreams[(first+i)%len(g.upstreams)]; u.healthy() {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		for i := range g.upstreams {
			if u := g.upstreams[(first+i)%len(g.upstreams)]; !u.looping.Load() {
				out = append(out, u)
			}
		}
	}
	return append(out, out...)
}

// failed reports whether another server may know better than to answer with this code.
func failed(rcode int) bool {
	switch rcode {
	case mdns.RcodeSuccess, mdns.RcodeNameError, mdns.RcodeYXDomain:
		return false
	}
	return true
}

// exchange asks one upstream, and looks into it when it does not answer.
func (f *Forwarder) exchange(ctx context.Context, u *upstream, q Question) (*mdns.Msg, error) {
	start := time.Now()
	reply, err := u.exchange(ctx, q, f.opts.Attempt)
	f.counters.sent.Add(1)
	f.counters.waited.Add(uint64(time.Since(start)))
	switch {
	case err == nil:
		u.fails.Store(0)
	case f.ctx.Err() == nil: // an end of this process is not the upstream's fault
		f.counters.failures.Add(1)
		u.failed()
	}
	return reply, err
}
