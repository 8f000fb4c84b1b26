package fib

import (
	"errors"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"sluice/xdp/packet"
)

const (
	keepEvery  = 3 * time.Second        // well below the kernel's 5 s in DELAY and the 15 s that a neighbour is REACHABLE at least
	probeAgain = 100 * time.Millisecond // a burst of packets asks once
)

// probes is what the Watcher knows about asking for neighbours.
type probes struct {
	kept  []netip.Addr
	asked map[neighbourKey]time.Time // lately; forgotten every keepEvery
}

func newProbes() probes { return probes{asked: map[neighbourKey]time.Time{}} }

// Keep replaces the addresses whose next hops are resolved ahead and kept alive. Packets that we send do not tell the kernel
// that a neighbour is in use, so it would let it go stale without verifying it. The slice belongs to the Watcher.
func (w *Watcher) Keep(addrs []netip.Addr) {
	for {
		select {
		case w.keep <- addrs:
			return
		case <-w.keep: // an older list that nobody has taken yet
		}
	}
}

// Failed returns those of addrs that cannot be reached: no next hop, one out of an interface that is not attached, or one that
// did not answer.
func (s *Snapshot) Failed(addrs []netip.Addr) (out []netip.Addr) {
	for _, a := range addrs {
		if hop := s.Lookup(packet.AddrFrom(a)); hop.Failed || hop.State == NoRoute || hop.State == NotAttached {
			out = append(out, a)
		}
	}
	return out
}

// probeKept probes the next hops of all kept addresses.
func (w *Watcher) probeKept() {
	clear(w.probes.asked)
	s := w.Current()
	for _, a := range w.probes.kept {
		if hop := s.Lookup(packet.AddrFrom(a)); hop.State == Ready || hop.State == Incomplete {
			w.probe(hop)
		}
	}
}

// probe asks the kernel for the neighbour of hop.
func (w *Watcher) probe(hop NextHop) {
	key := neighbourKey{hop.Link, hop.Gateway.Netip()}
	if w.tables.neighbours[key].fixed || time.Since(w.probes.asked[key]) < probeAgain {
		return
	}
	w.probes.asked[key] = time.Now()
	// ENODEV, ENETDOWN: the device has gone meanwhile, and the snapshot is about to follow.
	if err := w.kernel.use(key); err != nil && !errors.Is(err, unix.ENODEV) && !errors.Is(err, unix.ENETDOWN) {
		w.log.Warn("asking the kernel for a neighbour failed; packets to it wait in vain", "neighbour", key.addr, "error", err)
	}
}

// report logs when a kept next hop stops or starts to answer.
func (w *Watcher) report(key neighbourKey, old, now neighbour) {
	if old.failed == now.failed || !w.isKept(key) {
		return
	}
	if now.failed {
		w.log.Warn("a next hop does not answer ARP or neighbour discovery; check that the host is up and on this network",
			"neighbour", key.addr, "link", key.link)
	} else if now.valid {
		w.log.Info("a next hop answers again", "neighbour", key.addr, "link", key.link)
	}
}

// isKept reports whether a neighbour is the next hop of a kept address.
func (w *Watcher) isKept(key neighbourKey) bool {
	s, gateway := w.Current(), packet.AddrFrom(key.addr)
	for _, a := range w.probes.kept {
		if hop := s.Lookup(packet.AddrFrom(a)); hop.Link == key.link && hop.Gateway == gateway {
			return true
		}
	}
	return false
}
