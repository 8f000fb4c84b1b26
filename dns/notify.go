package dns

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns/zone"
)

// NotifierOptions say how secondaries are told of changes.
type NotifierOptions struct {
	Port    uint16       // of the secondaries; default 53
	Sources []netip.Addr // that messages are sent from: the first of the secondary's family; without one it is left to the routes
	Log     *slog.Logger // default: slog.Default()
}

// notifyTries is how often a secondary is told before it is given up until the next change, and notifyWait how long it has to answer
// the first time; the time doubles with each try.
const (
	notifyTries = 5
	notifyWait  = time.Second
)

// Notifier tells secondaries that zones have changed (RFC 1996). A process has one, however many servers it has.
//
// Concurrency: all methods may be called by any goroutine.
type Notifier struct {
	opts    NotifierOptions
	mu      sync.Mutex
	serial  uint32                            // that was announced last; valid iff rounds is not nil
	rounds  map[netip.Addr]context.CancelFunc // of each secondary; the next round ends the one before
	running sync.WaitGroup
	closed  bool
}

// NewNotifier returns a notifier that has announced nothing yet.
func NewNotifier(opts NotifierOptions) *Notifier {
	if opts.Port == 0 {
		opts.Port = 53
	}
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	return &Notifier{opts: opts}
}

// Announce tells the secondaries of z of all zones, unless they were told of its serial before. It does not wait for them.
func (n *Notifier) Announce(z *zone.Zones) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	before := n.rounds
	known := before != nil && n.serial == z.Serial()
	n.serial, n.rounds = z.Serial(), map[netip.Addr]context.CancelFunc{}
	for _, a := range z.Secondaries() {
		if end := before[a]; known && end != nil {
			n.rounds[a] = end
			delete(before, a)
			continue
		}
		ctx, end := context.WithCancel(context.Background())
		n.rounds[a] = end
		n.running.Go(func() { n.tell(ctx, a, z) })
	}
	for _, end := range before {
		end()
	}
}

// Close ends all that is under way.
func (n *Notifier) Close() {
	n.mu.Lock()
	n.closed = true
	for _, end := range n.rounds {
		end()
	}
	n.mu.Unlock()
	n.running.Wait()
}

// tell sends a secondary a message for each zone, and gives it up when one is not answered.
func (n *Notifier) tell(ctx context.Context, to netip.Addr, z *zone.Zones) {
	client := &mdns.Client{Net: "udp"}
	for _, source := range n.opts.Sources {
		if source.Is4() == to.Is4() {
			client.Dialer = dialer(source)
			break
		}
	}
	scratch := make([]byte, TCPLimit)
	for _, apex := range z.Apexes() {
		soa, err := records(z, apex, mdns.TypeSOA, scratch)
		if err != nil { // no reply of the responder's is unreadable
			n.opts.Log.Error("a secondary is not told", "secondary", to, "error", err)
			return
		}
		name := soa[0].Header().Name
		m := new(mdns.Msg).SetNotify(name)
		m.Answer = soa
		switch rcode, err := n.exchange(ctx, client, m, netip.AddrPortFrom(to, n.opts.Port).String()); {
		case ctx.Err() != nil:
			return
		case err != nil:
			n.opts.Log.Warn("a secondary does not answer: it learns of the change when it asks", "secondary", to, "zone", name, "error", err)
			return
		case rcode != mdns.RcodeSuccess:
			n.opts.Log.Warn("a secondary does not take the change of a zone", "secondary", to, "zone", name, "rcode", RCodeName(rcode))
		}
	}
}

// exchange sends a message until it is answered.
func (n *Notifier) exchange(ctx context.Context, c *mdns.Client, m *mdns.Msg, to string) (rcode int, err error) {
	wait := notifyWait
	for range notifyTries {
		c.Timeout = wait
		start := time.Now()
		var reply *mdns.Msg
		if reply, _, err = c.ExchangeContext(ctx, m, to); err == nil {
			return reply.Rcode, nil
		}
		// A refusal by ICMP comes at once, and says no more than that the secondary is not up yet.
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-time.After(wait - time.Since(start)):
		}
		wait *= 2
	}
	return 0, err
}
