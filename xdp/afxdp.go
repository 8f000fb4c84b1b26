package xdp

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Sizes of the rings and of the packet memory. Every socket has chunks for a full fill ring and for a full TX ring, so that
// neither direction starves the other; spare is for the packets that a worker makes itself.
const (
	defaultRing = 2048
	spare       = 256
)

// afxdpPort is the Port over our own rings: one UMEM, shared by the sockets of all queues that the worker owns, so that a
// frame goes from any of its interfaces to any other without a copy.
type afxdpPort struct {
	pool
	ifaces  []Interface
	sockets []*socket
	tx      []*socket // by interface: the socket that sends; always the same one, which keeps the order
	next    int       // index into sockets at which the next Receive starts
	poll    *poller

	mu     sync.Mutex // guards closed, for Stats against Close
	closed bool
}

var _ Port = (*afxdpPort)(nil)

// openAFXDP opens the sockets of one worker on queues. The kernel gives all sockets of one UMEM the mode of the first, so
// zero-copy is tried for all of them, and then copy mode for all of them.
func openAFXDP(ifaces []Interface, queues []queueID, o *Options) (*afxdpPort, error) {
	if o.Mode != ModeGeneric { // generic XDP sees packets only after the driver has copied them
		p, err := openSockets(ifaces, queues, o, unix.XDP_ZEROCOPY)
		if err == nil || errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EPERM) {
			return p, err
		}
	}
	return openSockets(ifaces, queues, o, unix.XDP_COPY)
}

// openSockets opens the sockets of one worker in one mode, XDP_ZEROCOPY or XDP_COPY.
func openSockets(ifaces []Interface, queues []queueID, o *Options, mode uint16) (*afxdpPort, error) {
	p := &afxdpPort{ifaces: ifaces, tx: make([]*socket, len(ifaces))}
	if err := p.open(queues, o, mode); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *afxdpPort) open(queues []queueID, o *Options, mode uint16) error {
	size, err := chunkSize(p.ifaces)
	if err != nil {
		return err
	}
	entries := o.Ring
	mem, err := unix.Mmap(-1, 0, (len(queues)*2*entries+spare)*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("packet memory: %w", err)
	}
	p.pool.init(mem, size)
	fds := make([]int, 0, len(queues))
	for _, id := range queues {
		if err := p.openSocket(id, uint32(entries), mode); err != nil {
			return fmt.Errorf("interface %s queue %d: %w", p.ifaces[id.iface].Name, id.queue, err)
		}
		fds = append(fds, p.sockets[len(p.sockets)-1].fd)
	}
	p.poll, err = newPoller(fds)
	return err
}

// openSocket opens, fills and binds one more socket. The fill ring is filled first: some drivers never start on a queue that
// was empty when it was activated.
func (p *afxdpPort) openSocket(id queueID, entries uint32, mode uint16) error {
	var umem *pool
	flags, shared := uint16(unix.XDP_SHARED_UMEM), 0
	if len(p.sockets) == 0 {
		umem, flags = &p.pool, mode|unix.XDP_USE_NEED_WAKEUP
	} else {
		shared = p.sockets[0].fd
	}
	s, err := newSocket(id, umem, entries)
	if err != nil {
		return err
	}
	p.sockets = append(p.sockets, s)
	if p.tx[id.iface] == nil {
		p.tx[id.iface] = s
	}
	s.refill(&p.pool, 0)
	if err := s.bind(p.ifaces[id.iface].Index, flags, shared); err != nil {
		return bindError(err, mode)
	}
	s.zeroCopy = zeroCopy(s.fd)
	return nil
}

// bindError says what an errno of bind means here.
func bindError(err error, mode uint16) error {
	name := "copy mode"
	if mode == unix.XDP_ZEROCOPY {
		name = "zero-copy"
	}
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("another AF_XDP socket holds the queue: %w", err)
	}
	return fmt.Errorf("binding the socket in %s: %w", name, err)
}

// Interfaces implements Port.
func (p *afxdpPort) Interfaces() []Interface { return p.ifaces }

// Receive implements Port. Each call starts with another socket, so that a busy one does not starve the rest.
func (p *afxdpPort) Receive(frames []Frame) int {
	n := 0
	for range p.sockets {
		s := p.sockets[p.next]
		if p.next++; p.next == len(p.sockets) {
			p.next = 0
		}
		n += s.receive(&p.pool, frames[n:])
		if n == len(frames) {
			break
		}
	}
	return n
}

// Alloc implements Port.
func (p *afxdpPort) Alloc() (f Frame, ok bool) {
	ok = p.take(&f)
	f.Start, f.End = Headroom, Headroom
	return f, ok
}

// Transmit implements Port.
func (p *afxdpPort) Transmit(iface int, frames []Frame) int {
	return p.tx[iface].transmit(&p.pool, frames)
}

// Release implements Port.
func (p *afxdpPort) Release(frames []Frame) {
	for i := range frames {
		p.give(frames[i].Addr)
	}
	p.worker -= len(frames)
}

// Flush implements Port. It never fails: what the network does to a socket is counted there, and heals.
func (p *afxdpPort) Flush() error {
	for _, s := range p.tx {
		s.send(&p.pool)
	}
	for _, s := range p.sockets {
		s.refill(&p.pool, spare)
	}
	return nil
}

// Wait implements Port.
func (p *afxdpPort) Wait(d time.Duration) error { return p.poll.wait(d) }

// Wake implements Port.
func (p *afxdpPort) Wake() { p.poll.wake() }

// Stats implements Port.
func (p *afxdpPort) Stats() []SocketStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]SocketStats, len(p.sockets))
	for i, s := range p.sockets {
		out[i] = SocketStats{Interface: p.ifaces[s.iface].Name, Queue: s.queue, ZeroCopy: s.zeroCopy}
		s.counters.fill(&out[i])
		if !p.closed {
			kernelStats(s.fd, &out[i])
		}
	}
	return out
}

// Close implements Port.
func (p *afxdpPort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	for i := len(p.sockets) - 1; i >= 0; i-- { // the one that brought the packet memory last
		errs = append(errs, p.sockets[i].close())
	}
	if p.poll != nil {
		errs = append(errs, p.poll.close())
	}
	if p.mem != nil {
		errs = append(errs, unix.Munmap(p.mem))
		p.mem = nil
	}
	return errors.Join(errs...)
}

// Audit counts where the frames are. Call it from the worker's goroutine.
func (p *afxdpPort) Audit() (Audit, error) {
	a := p.audit()
	for _, s := range p.sockets {
		a.Fill += s.filling
		a.Tx += s.sending
	}
	return a, a.check(p.free)
}

// queues lists the worker's sockets for the XDP program's map.
func (p *afxdpPort) queues() []queueSocket {
	out := make([]queueSocket, len(p.sockets))
	for i, s := range p.sockets {
		out[i] = queueSocket{s.queueID, s.fd}
	}
	return out
}
