package xdp

import (
	"errors"
	"fmt"
	"runtime"
	"time"
)

// asaviePort is the Port over the sockets of github.com/asavie/xdp v0.3.3, for comparison with our own. What the library does
// not have, and what that means here:
//
//   - One UMEM per socket, none shared: a packet that leaves by another interface than it came in by is copied into a chunk
//     of the socket that sends it.
//   - No atomic access to ring indices: only on amd64, whose processors keep stores in order, do they work; Open refuses
//     other machines.
//   - GetDescs does not reserve what it returns, and takes received frames for free ones. Chunks are accounted for here; GetDescs
//     serves only to learn which sent chunks have come back, since Complete does not say. It walks over all chunks each
//     time, so it is asked only when free ones get scarce.
//   - Transmit panics when sendto fails, as it does on a link that is down. The packets are in the ring by then, so the panic
//     is counted and nothing else happens.
//   - No need_wakeup: a system call per Flush in which something is to be sent. Rings are filled after bind, not before.
//   - Zero-copy is the kernel's choice. A socket that got it sees nothing in generic mode, so this combination is refused.
//   - Close leaves the mappings of the rings behind, and these keep the socket: its queue is taken until the process ends.
type asaviePort struct {
	ifaces  []Interface
	sockets []*asavieSocket
	tx      []*asavieSocket // by interface: the socket that sends
	next    int             // index into sockets at which the next Receive starts
	worker  int             // frames that the worker holds
	poll    *poller
	closed  bool
}

var _ Port = (*asaviePort)(nil)

// openAsavie opens the sockets of one worker on queues.
func openAsavie(ifaces []Interface, queues []queueID, o *Options) (*asaviePort, error) {
	if runtime.GOARCH != "amd64" {
		return nil, fmt.Errorf("driver %s: not safe on %s, since github.com/asavie/xdp has no memory barriers: use driver %s",
			DriverAsavie, runtime.GOARCH, DriverAFXDP)
	}
	p := &asaviePort{ifaces: ifaces, tx: make([]*asavieSocket, len(ifaces))}
	if err := p.open(queues, o); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *asaviePort) open(queues []queueID, o *Options) error {
	size, err := chunkSize(p.ifaces)
	if err != nil {
		return err
	}
	fds := make([]int, 0, len(queues))
	for _, id := range queues {
		s, err := newAsavieSocket(id, p.ifaces[id.iface].Index, len(p.sockets), o.Ring, size)
		if err != nil {
			return fmt.Errorf("interface %s queue %d: %w", p.ifaces[id.iface].Name, id.queue, err)
		}
		p.sockets = append(p.sockets, s)
		if p.tx[id.iface] == nil {
			p.tx[id.iface] = s
		}
		if s.zeroCopy && o.Mode == ModeGeneric {
			return fmt.Errorf("interface %s: driver %s cannot keep the kernel from zero-copy, which excludes generic mode: "+
				"use driver %s", p.ifaces[id.iface].Name, DriverAsavie, DriverAFXDP)
		}
		fds = append(fds, s.xsk.FD())
	}
	p.poll, err = newPoller(fds)
	return err
}

// Interfaces implements Port.
func (p *asaviePort) Interfaces() []Interface { return p.ifaces }

// Receive implements Port.
func (p *asaviePort) Receive(frames []Frame) int {
	n := 0
	for range p.sockets {
		s := p.sockets[p.next]
		if p.next++; p.next == len(p.sockets) {
			p.next = 0
		}
		n += s.receive(frames[n:])
		if n == len(frames) {
			break
		}
	}
	p.worker += n
	return n
}

// Alloc implements Port.
func (p *asaviePort) Alloc() (f Frame, ok bool) {
	for _, s := range p.sockets {
		addr, ok := s.take()
		if ok {
			p.worker++
			return Frame{Buf: s.chunk(addr), Start: Headroom, End: Headroom, Addr: s.name(addr)}, true
		}
	}
	return f, false
}

// Transmit implements Port.
func (p *asaviePort) Transmit(iface int, frames []Frame) int {
	out := p.tx[iface]
	n := min(len(frames), out.room())
	for i := range frames[:n] {
		if owner := p.owner(&frames[i]); owner == out {
			out.queue(&frames[i])
		} else if out.queueCopy(&frames[i]) {
			owner.give(base(&frames[i]))
		} else {
			n = i
			break
		}
	}
	p.worker -= n
	out.txFull.Add(uint64(len(frames) - n))
	return n
}

// Release implements Port.
func (p *asaviePort) Release(frames []Frame) {
	for i := range frames {
		p.owner(&frames[i]).give(base(&frames[i]))
	}
	p.worker -= len(frames)
}

// owner returns the socket to whose memory f belongs.
func (p *asaviePort) owner(f *Frame) *asavieSocket { return p.sockets[f.Addr>>ownerShift] }

// Flush implements Port. It never fails: what the network does to a socket is counted there, and heals.
func (p *asaviePort) Flush() error {
	for _, s := range p.tx {
		s.send()
	}
	for _, s := range p.sockets {
		s.refill()
	}
	return nil
}

// Wait implements Port.
func (p *asaviePort) Wait(d time.Duration) error { return p.poll.wait(d) }

// Wake implements Port.
func (p *asaviePort) Wake() { p.poll.wake() }

// Stats implements Port.
func (p *asaviePort) Stats() []SocketStats {
	out := make([]SocketStats, len(p.sockets))
	for i, s := range p.sockets {
		out[i] = SocketStats{Interface: p.ifaces[s.iface].Name, Queue: s.queueID.queue, ZeroCopy: s.zeroCopy}
		s.counters.fill(&out[i])
		s.kernelStats(&out[i])
	}
	return out
}

// Close implements Port.
func (p *asaviePort) Close() error {
	if p.closed {
		return nil
	}
	p.closed = true
	var errs []error
	for _, s := range p.sockets {
		errs = append(errs, s.close())
	}
	if p.poll != nil {
		errs = append(errs, p.poll.close())
	}
	return errors.Join(errs...)
}

// Audit counts where the frames are. Call it from the worker's goroutine.
func (p *asaviePort) Audit() (Audit, error) {
	a := Audit{Worker: p.worker}
	var errs []error
	for _, s := range p.sockets {
		s.harvest()
		a.Total += len(s.state)
		a.Free += len(s.free)
		a.Fill += s.filling
		a.Tx += s.sending + len(s.pending)
		errs = append(errs, unique(s.free))
	}
	return a, errors.Join(append(errs, a.sum())...)
}

// queues lists the worker's sockets for the XDP program's map.
func (p *asaviePort) queues() []queueSocket {
	out := make([]queueSocket, len(p.sockets))
	for i, s := range p.sockets {
		out[i] = queueSocket{s.queueID, s.xsk.FD()}
	}
	return out
}
