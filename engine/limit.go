package engine

// repliesPerSecond bounds the ICMP errors, and likewise the echo replies, that one worker sends: enough for every honest
// client, and no amplifier for others (RFC 1812 section 4.3.2.8, RFC 4443 section 2.4 f).
const repliesPerSecond = 1000

// bucket is a token bucket whose clock is passed in. It holds a tenth of a second's tokens at most.
type bucket struct {
	interval int64 // ns per token
	burst    int64 // ns of credit at most
	credit   int64 // ns
	last     int64 // when credit was brought up to date
}

func newBucket(perSecond int64) bucket {
	b := bucket{interval: 1e9 / perSecond, burst: 1e9 / 10}
	b.credit = b.burst
	return b
}

// take takes a token if there is one at now.
func (b *bucket) take(now int64) bool {
	if elapsed := now - b.last; elapsed > 0 {
		b.credit = min(b.burst, b.credit+min(elapsed, b.burst))
		b.last = now
	}
	if b.credit < b.interval {
		return false
	}
	b.credit -= b.interval
	return true
}
