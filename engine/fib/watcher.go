package fib

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"sluice/xdp/packet"
)

const (
	settle      = 2 * time.Millisecond   // from the first change to the rebuild, so that changes that come together cost one
	resyncEvery = 30 * time.Second       // everything is read again, in case a change went unseen
	retryAfter  = 200 * time.Millisecond // after a failed read
	bufferSize  = 4 << 20                // of the socket for changes, in bytes
)

// Watcher follows the kernel's routes, links and neighbours.
//
// Concurrency: all methods may be called from any goroutine. Current and Resolve neither block nor allocate.
type Watcher struct {
	current  atomic.Pointer[Snapshot]
	attached []int
	kernel   kernel
	socket   *nl.NetlinkSocket
	log      *slog.Logger

	requests chan NextHop
	keep     chan []netip.Addr
	changes  chan change
	stop     chan struct{}
	done     sync.WaitGroup

	// Of the run goroutine alone.
	tables tables
	stale  kind // what has to be read again
	dirty  bool // tables have changed since the last build
	probes probes
}

// kind is a set of tables.
type kind uint8

const (
	linksKind kind = 1 << iota
	routesKind
	neighboursKind
	allKinds = linksKind | routesKind | neighboursKind
)

// change is one message of the kernel: a table to read again, or a neighbour.
type change struct {
	stale   kind
	key     neighbourKey
	n       neighbour
	deleted bool
}

// Watch starts to follow the network namespace of the calling thread. interfaces are the kernel indices of the attached
// interfaces; NextHop.Iface counts in their order. The first snapshot is there when Watch returns.
func Watch(interfaces []int, log *slog.Logger) (*Watcher, error) {
	// Subscribe before the first read, so that no change falls between.
	socket, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_NEIGH,
		unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("subscribing to routing changes: %w", err)
	}
	if err := socket.SetReceiveBufferSize(bufferSize, true); err != nil {
		log.Warn("the buffer for routing changes stays small; run with CAP_NET_ADMIN", "error", err)
	}
	handle, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		socket.Close()
		return nil, fmt.Errorf("netlink: %w", err)
	}
	w := &Watcher{
		attached: interfaces, kernel: kernel{handle}, socket: socket, log: log,
		requests: make(chan NextHop, 256), keep: make(chan []netip.Addr, 1), changes: make(chan change, 1024),
		stop: make(chan struct{}), stale: allKinds, probes: newProbes(),
	}
	w.current.Store(Static(0))
	if err := w.sync(); err != nil {
		socket.Close()
		handle.Close()
		return nil, err
	}
	w.done.Add(2)
	go w.read()
	go w.run()
	return w, nil
}

// Current returns the newest snapshot.
func (w *Watcher) Current() *Snapshot { return w.current.Load() }

// Close stops following. Current goes on to return the last snapshot.
func (w *Watcher) Close() error {
	close(w.stop)
	w.socket.Close()
	w.done.Wait()
	w.kernel.handle.Close()
	return nil
}

// read receives changes until the socket is closed.
func (w *Watcher) read() {
	defer w.done.Done()
	for {
		messages, _, err := w.socket.Receive()
		if err != nil {
			if w.closing() || !w.send(change{stale: allKinds}) {
				return
			}
			if !errors.Is(err, unix.ENOBUFS) { // that one says that changes were lost; anything else must not spin
				w.log.Warn("receiving routing changes failed; everything is read again", "error", err)
				w.pause(retryAfter)
			}
			continue
		}
		for i := range messages {
			if c, ok := parseChange(messages[i].Header.Type, messages[i].Data); ok && !w.send(c) {
				return
			}
		}
	}
}

// closing reports whether Close has been called.
func (w *Watcher) closing() bool {
	select {
	case <-w.stop:
		return true
	default:
		return false
	}
}

// send hands a change to the run goroutine; false when the Watcher is being closed.
func (w *Watcher) send(c change) bool {
	select {
	case w.changes <- c:
		return true
	case <-w.stop:
		return false
	}
}

func (w *Watcher) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-w.stop:
	}
}

// parseChange reads one message; ok is false when it is of no interest.
func parseChange(kind uint16, data []byte) (c change, ok bool) {
	switch kind {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return change{stale: linksKind | routesKind}, true // routes come and go with links, IPv4 ones without a message
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		return change{stale: routesKind}, true
	case unix.RTM_NEWNEIGH, unix.RTM_DELNEIGH:
		n, err := netlink.NeighDeserialize(data)
		if err != nil {
			return change{stale: neighboursKind}, true
		}
		c.key, c.n, ok = convertNeighbour(n)
		c.deleted = kind == unix.RTM_DELNEIGH
		return c, ok
	}
	return c, false
}

// run applies changes and probes neighbours until the Watcher is closed.
func (w *Watcher) run() {
	defer w.done.Done()
	rebuild := time.NewTimer(resyncEvery)
	resync, keep := time.NewTicker(resyncEvery), time.NewTicker(keepEvery)
	defer func() { rebuild.Stop(); resync.Stop(); keep.Stop() }()
	pending, pause := false, settle
	for {
		select {
		case <-w.stop:
			return
		case c := <-w.changes:
			w.apply(c)
		case hop := <-w.requests:
			w.probe(hop)
		case addrs := <-w.keep:
			w.probes.kept = addrs
			w.probeKept()
		case <-keep.C:
			w.probeKept()
		case <-resync.C:
			w.stale = allKinds
		case <-rebuild.C:
			pending, pause = false, w.rebuild()
		}
		if !pending && (w.dirty || w.stale != 0) {
			pending = true
			rebuild.Reset(pause)
		}
	}
}

// rebuild brings the snapshot up to date and returns how long the next one has to wait: with large tables building takes
// time, and the kernel may change them without pause.
func (w *Watcher) rebuild() time.Duration {
	began := time.Now()
	if err := w.sync(); err != nil {
		w.log.Warn("reading routes and neighbours failed; the last known ones stay in use, trying again", "error", err)
		return retryAfter
	}
	return max(settle, 4*time.Since(began))
}

// apply takes in one change.
func (w *Watcher) apply(c change) {
	w.stale |= c.stale
	if c.stale != 0 {
		return
	}
	old := w.tables.neighbours[c.key]
	if c.deleted {
		delete(w.tables.neighbours, c.key)
		c.n = neighbour{}
	} else {
		w.tables.neighbours[c.key] = c.n
	}
	if old != c.n {
		w.dirty = true
		w.report(c.key, old, c.n)
	}
}

// sync reads what is stale, and publishes a snapshot if it differs from the current one.
func (w *Watcher) sync() error {
	if err := w.readStale(); err != nil {
		return err
	}
	w.dirty = false
	current := w.current.Load()
	if next := build(&w.tables, w.attached, current.generation+1); !next.same(current) {
		w.current.Store(next)
	}
	return nil
}

func (w *Watcher) readStale() (err error) {
	if w.stale&linksKind != 0 {
		if w.tables.links, err = w.kernel.links(); err != nil {
			return err
		}
	}
	if w.stale&routesKind != 0 {
		if w.tables.routes, err = w.kernel.routes(); err != nil {
			return err
		}
	}
	if w.stale&neighboursKind != 0 {
		if w.tables.neighbours, err = w.kernel.neighbours(); err != nil {
			return err
		}
	}
	w.stale = 0
	return nil
}

// Resolve asks the kernel for the link-layer address of hop's neighbour, unless it has just been asked. The answer comes
// with a later snapshot. It never blocks; false means that too many requests wait already, so ask again later.
func (w *Watcher) Resolve(hop NextHop) bool {
	if hop.State != Ready && hop.State != Incomplete || hop.Gateway == (packet.Addr{}) {
		return true
	}
	select {
	case w.requests <- hop:
		return true
	default:
		return false
	}
}
