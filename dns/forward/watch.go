package forward

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	mdns "github.com/miekg/dns"
)

// loopAgain is how long an upstream that asks this server is left alone before it is tried again, and lostAgain the same for one that
// did not say whether it does.
const (
	loopAgain = 30 * time.Second
	lostAgain = 10 * time.Second
)

// probeName returns a name below a domain that nobody else asks for.
func probeName(domain string) string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	if domain == "." {
		domain = ""
	}
	return hex.EncodeToString(b[:8]) + "." + hex.EncodeToString(b[8:]) + "." + domain
}

// cameBack reports whether a question is one that this server has sent to find loops.
func (f *Forwarder) cameBack(q Question) bool {
	if q.Type != mdns.TypeHINFO {
		return false
	}
	for _, g := range f.groups {
		for _, u := range g.upstreams {
			if u.probe == q.Name {
				u.back.Store(true)
				return true
			}
		}
	}
	return false
}

// watch looks after an upstream until the forwarder ends: whether its questions come back here, at the start and whenever it has been
// away; and when it does not answer, whether it does again.
func (f *Forwarder) watch(u *upstream) {
	for f.ctx.Err() == nil {
		again := f.checkLoop(u)
		select {
		case <-f.ctx.Done():
		case <-again:
		case <-u.suspect:
			f.untilAnswers(u)
		}
	}
}

// checkLoop asks an upstream for the name of its probe, and returns when to do so again; nil is never.
func (f *Forwarder) checkLoop(u *upstream) <-chan time.Time {
	u.back.Store(false)
	_, err := u.exchange(f.ctx, Question{Name: u.probe, Type: mdns.TypeHINFO}, f.opts.Attempt)
	loops := u.back.Load()
	if was := u.looping.Swap(loops); loops && !was {
		f.opts.Log.Error("an upstream sends what it is asked back here and is left out: take this server out of its configuration", "upstream", u.addr)
	} else if was && !loops && err == nil {
		f.opts.Log.Info("an upstream does not ask back any more", "upstream", u.addr)
	}
	switch {
	case loops:
		return time.After(loopAgain)
	case err != nil:
		return time.After(lostAgain)
	}
	return nil
}

// untilAnswers probes an upstream until it answers.
func (f *Forwarder) untilAnswers(u *upstream) {
	wait := time.NewTicker(f.opts.ProbeEvery)
	defer wait.Stop()
	reported := false
	for {
		if f.answers(u) {
			u.fails.Store(0)
			if reported {
				f.opts.Log.Info("an upstream answers again", "upstream", u.addr)
			}
			return
		}
		f.counters.probeFailures.Add(1)
		if fails := u.fails.Add(1); fails >= maxFails && !reported {
			reported = true
			f.opts.Log.Warn("an upstream does not answer: others are asked until it does", "upstream", u.addr)
		}
		select {
		case <-f.ctx.Done():
			return
		case <-wait.C:
		}
	}
}

// answers reports whether an upstream answers anything, as CoreDNS asks it.
func (f *Forwarder) answers(u *upstream) bool {
	ctx, cancel := context.WithTimeout(f.ctx, f.opts.Attempt)
	defer cancel()
	_, err := u.exchange(ctx, Question{Name: ".", Type: mdns.TypeNS}, f.opts.Attempt)
	return err == nil
}
