package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	mdns "github.com/miekg/dns"
)

// maxFails is how many times in a row an upstream may not answer before others are asked instead.
const maxFails = 2

// udpSize is the longest reply that is taken by UDP (DNS flag day 2020).
const udpSize = 1232

// upstream is one server of a group.
type upstream struct {
	addr    netip.AddrPort
	probe   string        // name that is asked for to find out whether this server's queries come back here
	fails   atomic.Uint32 // in a row
	looping atomic.Bool   // they do
	back    atomic.Bool   // probe has been asked for here since it was sent
	suspect chan struct{} // holds an element when watch is to look again
}

func newUpstream(addr netip.AddrPort, domain string) *upstream {
	return &upstream{addr: addr, probe: probeName(domain), suspect: make(chan struct{}, 1)}
}

// healthy reports whether the upstream should be asked.
func (u *upstream) healthy() bool { return u.fails.Load() < maxFails && !u.looping.Load() }

// failed counts that the upstream has not answered, and has it looked after.
func (u *upstream) failed() {
	u.fails.Add(1)
	select {
	case u.suspect <- struct{}{}:
	default: // it is to be looked after already
	}
}

// exchange asks the upstream once by UDP, and by TCP if the reply was cut.
func (u *upstream) exchange(ctx context.Context, q Question, patience time.Duration) (*mdns.Msg, error) {
	reply, err := u.send(ctx, "udp", q, patience)
	if err == nil && reply.Truncated {
		reply, err = u.send(ctx, "tcp", q, patience)
	}
	if err != nil {
		return nil, fmt.Errorf("upstream %v: %w", u.addr, err)
	}
	return reply, nil
}

var errNotTheAnswer = errors.New("the reply is to another question")

// send asks by UDP or TCP from a port that is not used otherwise, so that replies are hard to forge.
func (u *upstream) send(ctx context.Context, network string, q Question, patience time.Duration) (*mdns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	client := &mdns.Client{Net: network, Timeout: patience}
	conn, err := client.DialContext(ctx, u.addr.String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() }) // what waits for the reply then fails
	defer stop()
	m := q.message()
	reply, _, err := client.ExchangeWithConnContext(ctx, m, conn)
	if err != nil {
		return nil, err
	}
	if !reply.Response || !sameQuestion(reply, m) {
		return nil, errNotTheAnswer
	}
	reply.Extra = withoutOPT(reply)
	return reply, nil
}

// message returns the query for a question.
func (q Question) message() *mdns.Msg {
	m := new(mdns.Msg).SetQuestion(q.Name, q.Type)
	m.AuthenticatedData, m.CheckingDisabled = true, q.CD // RFC 6840 section 5.7: the bit of a reply is understood
	return m.SetEdns0(udpSize, q.DO)
}

// sameQuestion reports whether a reply repeats the question, but for the case of letters.
func sameQuestion(reply, query *mdns.Msg) bool {
	if len(reply.Question) != 1 {
		return false
	}
	got, want := reply.Question[0], query.Question[0]
	return strings.EqualFold(got.Name, want.Name) && got.Qtype == want.Qtype && got.Qclass == want.Qclass
}

// withoutOPT returns the additional section without what is between this server and the upstream alone.
func withoutOPT(m *mdns.Msg) (out []mdns.RR) {
	for _, r := range m.Extra {
		if r.Header().Rrtype != mdns.TypeOPT {
			out = append(out, r)
		}
	}
	return out
}
