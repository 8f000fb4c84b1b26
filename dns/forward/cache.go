package forward

import (
	"sync/atomic"
	"time"

	mdns "github.com/miekg/dns"

	lru "github.com/hashicorp/golang-lru/v2"
)

// How long answers are kept. Whatever they say themselves, it is no longer than this; a server failure says nothing.
const (
	maxPositive = time.Hour
	maxNegative = 30 * time.Minute
	failureTime = 5 * time.Second // RFC 2308 section 7.1
	maxStale    = time.Hour       // after an answer has run out it may still be given, if no upstream answers (RFC 8767)
	staleTTL    = 30              // seconds that it is given with (RFC 8767 section 4)
)

// maxKept is the longest answer that is kept, in bytes.
const maxKept = 8192

// cache keeps answers, and drops those that were not asked for the longest when it is full.
type cache struct {
	entries  *lru.Cache[Question, *entry]
	counters *tally
}

// entry is an answer that is kept. What it holds is not changed any more.
type entry struct {
	answer  *mdns.Msg
	since   time.Time
	ttl     time.Duration
	hits    atomic.Uint32
	renewed atomic.Bool  // it has been asked for again
	lost    atomic.Int64 // when upstreams last failed to renew it, in nanoseconds since 1970
}

func newCache(size int, counters *tally) *cache {
	entries, err := lru.NewWithEvict(size, func(Question, *entry) { counters.evictions.Add(1) })
	if err != nil {
		panic(err) // the size is not positive, which Options sees to
	}
	return &cache{entries, counters}
}

// get returns what is known, also when it has run out, or nil. Answers that ran out too long ago are not known.
func (c *cache) get(q Question, now time.Time) *entry {
	e, ok := c.entries.Get(q)
	switch {
	case !ok || now.After(e.since.Add(e.ttl+maxStale)) || e.expired(now) && failed(e.answer.Rcode):
		c.counters.misses.Add(1)
		return nil
	case e.expired(now):
		c.counters.misses.Add(1)
	case e.answer.Rcode == mdns.RcodeSuccess && len(e.answer.Answer) > 0:
		c.counters.hits.Add(1)
	default:
		c.counters.denials.Add(1)
	}
	return e
}

// put keeps an answer for as long as it says.
func (c *cache) put(q Question, answer *mdns.Msg, now time.Time) {
	if failed(answer.Rcode) {
		c.fail(q, answer, now)
	} else if ttl := lifetime(answer, q.Type); ttl > 0 && answer.Len() <= maxKept {
		c.entries.Add(q, &entry{answer: answer, since: now, ttl: ttl})
	}
}

// fail remembers for a while that nobody has an answer, so that not every query waits for it. What was known before is worth more.
func (c *cache) fail(q Question, answer *mdns.Msg, now time.Time) {
	if e, ok := c.entries.Peek(q); ok && !failed(e.answer.Rcode) && now.Before(e.since.Add(e.ttl+maxStale)) {
		e.lost.Store(now.UnixNano())
		return
	}
	c.entries.Add(q, &entry{answer: answer, since: now, ttl: failureTime})
}

// isLost reports whether nobody could renew the answer a moment ago.
func (e *entry) isLost(now time.Time) bool { return now.Sub(time.Unix(0, e.lost.Load())) < failureTime }

// lifetime returns how long an answer that is no failure may be kept; 0: not at all.
func lifetime(m *mdns.Msg, qtype uint16) time.Duration {
	if m.Truncated {
		return 0
	}
	ttl := maxPositive
	for _, r := range m.Answer {
		ttl = min(ttl, time.Duration(r.Header().Ttl)*time.Second)
	}
	if m.Rcode == mdns.RcodeSuccess && answers(m, qtype) {
		return ttl
	}
	return min(ttl, negativeLifetime(m))
}

// answers reports whether there is a record of the type that was asked for.
func answers(m *mdns.Msg, qtype uint16) bool {
	for _, r := range m.Answer {
		if t := r.Header().Rrtype; t == qtype || qtype == mdns.TypeANY {
			return true
		}
	}
	return false
}

// negativeLifetime returns for how long the absence of something may be remembered, by the SOA that comes with it (RFC 2308 section 5);
// without one, not at all.
func negativeLifetime(m *mdns.Msg) time.Duration {
	for _, r := range m.Ns {
		if soa, ok := r.(*mdns.SOA); ok {
			return min(maxNegative, time.Duration(min(soa.Hdr.Ttl, soa.Minttl))*time.Second)
		}
	}
	return 0
}

func (e *entry) expired(now time.Time) bool { return !now.Before(e.since.Add(e.ttl)) }

// reply returns the answer with the times that are left.
func (e *entry) reply(now time.Time) *mdns.Msg {
	age := uint32(max(0, now.Sub(e.since)) / time.Second)
	return e.withTTL(func(ttl uint32) uint32 { return ttl - min(ttl, age) })
}

// staleReply returns an answer that has run out.
func (e *entry) staleReply() *mdns.Msg {
	return e.withTTL(func(uint32) uint32 { return staleTTL })
}

func (e *entry) withTTL(of func(uint32) uint32) *mdns.Msg {
	m := e.answer.Copy()
	for _, section := range [][]mdns.RR{m.Answer, m.Ns, m.Extra} {
		for _, r := range section {
			r.Header().Ttl = of(r.Header().Ttl)
		}
	}
	return m
}

// wantsPrefetch reports, once, that an answer which is asked for again and again has less than a tenth of its time left.
func (e *entry) wantsPrefetch(now time.Time) bool {
	const often = 2
	return e.hits.Add(1) >= often && e.since.Add(e.ttl).Sub(now) < e.ttl/10 && e.renewed.CompareAndSwap(false, true)
}
