package engine

import (
	"log/slog"

	"sluice/config/topology"
	"sluice/dns/forward"
	"sluice/engine/control"
)

// forwarding is who is asked for names that the gateway does not have. It belongs to nameServers, whose lock guards it.
type forwarding struct {
	log       *slog.Logger
	forwarder *forward.Forwarder // nil: nobody
	of        *topology.Topology // that it was made for
	retired   forward.Counters   // of those from before
}

// renew takes up what a snapshot says of forwarding. On an error what was before stays in use.
func (f *forwarding) renew(snap *control.Snapshot) error {
	if snap.Topology == f.of {
		return nil // another health of it
	}
	next, err := (*forward.Forwarder)(nil), error(nil)
	if snap.Names != nil {
		next, err = forward.Renew(f.forwarder, &snap.Topology.DNS, forward.Options{Log: f.log})
	}
	if err != nil {
		return err
	}
	if next != nil && next != f.forwarder {
		f.log.Info("other names are forwarded", "servers", next)
	}
	f.of, f.forwarder = snap.Topology, next
	return nil
}

// retire ends a forwarder, which may be nil, and keeps what it has counted.
func (f *forwarding) retire(old *forward.Forwarder) {
	if old == nil {
		return
	}
	old.Close()
	c := old.Counters()
	c.Entries, c.Upstreams, c.Unhealthy = 0, 0, 0
	f.retired.Add(c)
}

// forwarded returns what has been counted of forwarding.
func (s *nameServers) forwarded() forward.Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.retired
	if s.forwarder != nil {
		c.Add(s.forwarder.Counters())
	}
	return c
}
