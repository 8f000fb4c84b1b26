package forward

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/sync/singleflight"
)

// Options of a Forwarder. The zero value of a field has a default.
type Options struct {
	MaxInFlight int              // questions to upstreams at once; default 1000
	CacheSize   int              // answers that are kept; default 9984, as CoreDNS
	Attempt     time.Duration    // for an upstream to answer once; default 2 s
	Deadline    time.Duration    // for a question as a whole, all attempts together; default 4.5 s, before stub resolvers give up
	ProbeEvery  time.Duration    // between two probes of an upstream that does not answer; default 0.5 s
	Now         func() time.Time // default time.Now
	Log         *slog.Logger     // default slog.Default()
}

func (o *Options) defaults() {
	if o.MaxInFlight <= 0 {
		o.MaxInFlight = 1000
	}
	if o.CacheSize <= 0 {
		o.CacheSize = 9984
	}
	if o.Attempt <= 0 {
		o.Attempt = 2 * time.Second
	}
	if o.Deadline <= 0 {
		o.Deadline = 4500 * time.Millisecond
	}
	if o.ProbeEvery <= 0 {
		o.ProbeEvery = 500 * time.Millisecond
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// The errors of Resolve.
var (
	ErrNoUpstream  = errors.New("no upstream is set for this name")
	ErrOverload    = errors.New("too many questions in flight")
	ErrLoop        = errors.New("the question has come back: upstreams ask this server")
	ErrUnreachable = errors.New("no upstream has answered")
)

// Question is what an upstream is asked for, of class IN.
type Question struct {
	Name string // lower case, with the dot at the end
	Type uint16
	DO   bool // DNSSEC records are wanted (RFC 3225)
	CD   bool // answers that do not validate are wanted as well (RFC 4035 section 3.2.2)
}

// Forwarder asks upstreams and keeps their answers. It is made for one setting of forward and stub, and replaced with it.
//
// Concurrency: all methods may be called by any goroutine.
type Forwarder struct {
	opts     Options
	servers  Servers
	groups   []*group // those of longer domains first
	cache    *cache
	flights  singleflight.Group
	slots    chan struct{}
	counters tally

	ctx     context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup
}

// New returns a forwarder and starts to look after its upstreams. Close ends it.
func New(servers Servers, opts Options) *Forwarder {
	opts.defaults()
	f := &Forwarder{opts: opts, servers: servers, slots: make(chan struct{}, opts.MaxInFlight)}
	f.cache = newCache(opts.CacheSize, &f.counters)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	for _, list := range servers.sorted() {
		g := &group{domain: mdns.Fqdn(list.Domain), forwarder: f}
		for _, addr := range list.Addrs {
			g.upstreams = append(g.upstreams, newUpstream(addr, g.domain))
		}
		f.groups = append(f.groups, g)
	}
	for _, g := range f.groups {
		for _, u := range g.upstreams {
			f.running.Go(func() { f.watch(u) })
		}
	}
	return f
}

// String says who is asked for what.
func (f *Forwarder) String() string { return f.servers.String() }

// Close ends all that is under way: who waits for an answer gets an error.
func (f *Forwarder) Close() {
	f.cancel()
	f.running.Wait()
}

// Resolve returns the answer to a question: of the cache, or of an upstream. The caller may change it. It has no OPT record, and its
// response code is whatever the upstream has said.
func (f *Forwarder) Resolve(ctx context.Context, q Question) (*mdns.Msg, error) {
	if f.cameBack(q) {
		return nil, ErrLoop
	}
	g := f.group(q.Name)
	if g == nil {
		return nil, ErrNoUpstream
	}
	now := f.opts.Now()
	kept := f.cache.get(q, now)
	if kept != nil && !kept.expired(now) {
		if kept.wantsPrefetch(now) {
			f.prefetch(g, q)
		}
		return kept.reply(now), nil
	}
	if kept != nil && kept.isLost(now) {
		f.counters.stale.Add(1)
		return kept.staleReply(), nil
	}
	return f.fetch(ctx, g, q, kept)
}

// staleWait is how long a client waits for a fresh answer while there is one that has run out (RFC 8767 section 5).
const staleWait = 1800 * time.Millisecond

// fetch asks the upstreams, and falls back to an answer that has run out, if there is one.
func (f *Forwarder) fetch(ctx context.Context, g *group, q Question, stale *entry) (*mdns.Msg, error) {
	var patience <-chan time.Time
	if stale != nil {
		t := time.NewTimer(staleWait)
		defer t.Stop()
		patience = t.C
	}
	var err error
	select {
	case r := <-f.ask(g, q):
		if err = r.Err; err != nil {
			break
		}
		if reply := r.Val.(*mdns.Msg); stale == nil || !failed(reply.Rcode) {
			return reply.Copy(), nil
		}
	case <-patience:
	case <-ctx.Done():
		err = ctx.Err()
	}
	if stale == nil {
		return nil, err
	}
	f.counters.stale.Add(1)
	return stale.staleReply(), nil
}

// prefetch renews an answer that is asked for often and about to run out.
func (f *Forwarder) prefetch(g *group, q Question) {
	f.counters.prefetches.Add(1)
	f.ask(g, q)
}

// ask puts a question to the upstreams of a group, unless it is on its way already, and keeps the answer.
func (f *Forwarder) ask(g *group, q Question) <-chan singleflight.Result {
	return f.flights.DoChan(q.key(), func() (any, error) {
		select {
		case f.slots <- struct{}{}:
			defer func() { <-f.slots }()
		default:
			f.counters.overloads.Add(1)
			return nil, ErrOverload
		}
		ctx, cancel := context.WithTimeout(f.ctx, f.opts.Deadline)
		defer cancel()
		reply, err := g.exchange(ctx, q)
		switch {
		case err == nil:
			f.cache.put(q, reply, f.opts.Now())
		case f.ctx.Err() == nil:
			f.cache.fail(q, new(mdns.Msg).SetRcode(q.message(), mdns.RcodeServerFailure), f.opts.Now())
		}
		return reply, err
	})
}

// key returns the question as text, for the table of what is in flight.
func (q Question) key() string {
	return q.Name + " " + mdns.Type(q.Type).String() + flag(q.DO, " do") + flag(q.CD, " cd")
}

func flag(set bool, text string) string {
	if set {
		return text
	}
	return ""
}

// group returns who is asked for a name, or nil.
func (f *Forwarder) group(name string) *group {
	for _, g := range f.groups {
		if g.domain == "." || name == g.domain || strings.HasSuffix(name, "."+g.domain) {
			return g
		}
	}
	return nil
}
