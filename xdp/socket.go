package xdp

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"sluice/xdp/ring"
)

// kernelHeadroom is what the kernel leaves free in front of a received packet beyond the headroom that we ask for
// (XDP_PACKET_HEADROOM).
const kernelHeadroom = 256

// bindPatience bounds the wait for a queue that another socket still holds: the kernel frees it some time after that
// socket was closed.
const bindPatience = 2 * time.Second

// socket is the AF_XDP socket of one queue with its four rings. It belongs to its worker; counters are for everybody.
type socket struct {
	queueID
	counters
	fd         int
	rx         *ring.Consumer[ring.Desc]
	tx         *ring.Producer[ring.Desc]
	fill       *ring.Producer[uint64]
	completion *ring.Consumer[uint64]
	maps       [][]byte
	filling    int // chunks in the fill ring, or on their way from it to the RX ring
	sending    int // chunks in the TX ring, or on their way from it to the completion ring
	zeroCopy   bool
}

// newSocket opens a socket and its rings, without binding it. The first socket of a worker, whose umem is not nil, brings
// the packet memory with it; the others share it when they are bound.
func newSocket(id queueID, umem *pool, entries uint32) (*socket, error) {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("AF_XDP socket: %w", err)
	}
	s := &socket{queueID: id, fd: fd}
	if umem != nil {
		if err := registerUMEM(fd, umem.mem, umem.size, Headroom); err != nil {
			return nil, errors.Join(err, s.close())
		}
	}
	if err := s.openRings(entries); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openRings makes the rings and maps them.
func (s *socket) openRings(entries uint32) error {
	for _, opt := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING, unix.XDP_TX_RING} {
		if err := unix.SetsockoptInt(s.fd, unix.SOL_XDP, opt, int(entries)); err != nil {
			return fmt.Errorf("ring of %d entries: %w", entries, err)
		}
	}
	var off unix.XDPMmapOffsets
	if err := getsockopt(s.fd, unix.XDP_MMAP_OFFSETS, &off); err != nil {
		return fmt.Errorf("ring offsets: %w", err)
	}
	var err error
	if s.fill, err = mapRing(s, unix.XDP_UMEM_PGOFF_FILL_RING, off.Fr, entries, ring.NewProducer[uint64]); err != nil {
		return fmt.Errorf("fill ring: %w", err)
	}
	if s.completion, err = mapRing(s, unix.XDP_UMEM_PGOFF_COMPLETION_RING, off.Cr, entries, ring.NewConsumer[uint64]); err != nil {
		return fmt.Errorf("completion ring: %w", err)
	}
	if s.rx, err = mapRing(s, unix.XDP_PGOFF_RX_RING, off.Rx, entries, ring.NewConsumer[ring.Desc]); err != nil {
		return fmt.Errorf("RX ring: %w", err)
	}
	if s.tx, err = mapRing(s, unix.XDP_PGOFF_TX_RING, off.Tx, entries, ring.NewProducer[ring.Desc]); err != nil {
		return fmt.Errorf("TX ring: %w", err)
	}
	return nil
}

// largestEntry is the size of struct xdp_desc, the larger of the two kinds of ring entries.
const largestEntry = 16

// mapRing maps the ring at page offset pgoff and opens our end of it.
func mapRing[R any](s *socket, pgoff int64, off unix.XDPRingOffset, entries uint32,
	open func([]byte, ring.Layout, uint32) (R, error)) (R, error) {
	var none R
	size := int(off.Desc) + int(entries)*8
	if pgoff == unix.XDP_PGOFF_RX_RING || pgoff == unix.XDP_PGOFF_TX_RING {
		size = int(off.Desc) + int(entries)*largestEntry
	}
	mem, err := unix.Mmap(s.fd, pgoff, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return none, fmt.Errorf("mmap: %w", err)
	}
	s.maps = append(s.maps, mem)
	return open(mem, ring.Layout{Producer: off.Producer, Consumer: off.Consumer, Flags: off.Flags, Entries: off.Desc}, entries)
}

// bind attaches the socket to its queue. It waits for a while for one that is still in use.
func (s *socket) bind(ifindex int, flags uint16, shared int) error {
	sa := &unix.SockaddrXDP{Flags: flags, Ifindex: uint32(ifindex), QueueID: uint32(s.queue), SharedUmemFD: uint32(shared)}
	deadline := time.Now().Add(bindPatience)
	for pause := time.Millisecond; ; pause *= 2 {
		err := unix.Bind(s.fd, sa)
		if err != unix.EBUSY || time.Now().After(deadline) {
			return err
		}
		time.Sleep(pause)
	}
}

// close gives back the socket and its rings. The kernel keeps the rings and the packet memory until it is done with them.
func (s *socket) close() error {
	errs := []error{unix.Close(s.fd)}
	for _, mem := range s.maps {
		errs = append(errs, unix.Munmap(mem))
	}
	s.maps = nil
	return errors.Join(errs...)
}

// receive moves packets from the RX ring into frames.
func (s *socket) receive(p *pool, frames []Frame) int {
	n := int(s.rx.Ready(uint32(len(frames))))
	if n == 0 {
		return 0
	}
	var bytes int
	for i := range frames[:n] {
		d := s.rx.Take()
		f := &frames[i]
		f.Addr = p.base(d.Addr)
		f.Buf = p.chunk(f.Addr)
		f.Start = int(d.Addr - f.Addr)
		f.End = f.Start + int(d.Len)
		f.Iface = s.iface
		bytes += int(d.Len)
	}
	s.rx.Release()
	s.filling -= n
	p.worker += n
	s.rxPackets.Add(uint64(n))
	s.rxBytes.Add(uint64(bytes))
	return n
}

// transmit puts frames into the TX ring, for flush to publish.
func (s *socket) transmit(p *pool, frames []Frame) int {
	n := int(s.tx.Room(uint32(len(frames))))
	var bytes int
	for i := range frames[:n] {
		f := &frames[i]
		s.tx.Put(ring.Desc{Addr: f.Addr + uint64(f.Start), Len: uint32(f.End - f.Start)})
		bytes += f.End - f.Start
	}
	s.sending += n
	p.worker -= n
	s.txPackets.Add(uint64(n))
	s.txBytes.Add(uint64(bytes))
	if n < len(frames) {
		s.txFull.Add(uint64(len(frames) - n))
	}
	return n
}

// send publishes what transmit has put, wakes the kernel if it asks for that, and takes back what has been sent.
func (s *socket) send(p *pool) {
	if s.sending == 0 {
		return
	}
	s.tx.Publish()
	s.kick(p)
	s.reap(p)
}

// kick makes the kernel send. In copy mode one call sends a few packets (32 by default) and says EAGAIN when there are more,
// so it is repeated for as long as it gets anywhere.
func (s *socket) kick(p *pool) {
	left := s.tx.Pending()
	for left > 0 && s.tx.NeedWakeup() {
		errno := kickTx(s.fd)
		s.kicks.Add(1)
		before := left
		left = s.tx.Pending()
		switch {
		case errno == 0 || errno == unix.EAGAIN || errno == unix.EINTR:
		case errno == unix.EBUSY: // the driver is at it; the packets stay in the ring
			return
		default: // ENETDOWN, ENXIO, ENOBUFS: the packets stay in the ring, and go when the link is there again
			s.kickErrs.Add(1)
			return
		}
		if left == before {
			return
		}
		s.reap(p) // the kernel also stops when the completion ring is full
	}
}

// reap takes chunks that have been sent back to the free list.
func (s *socket) reap(p *pool) {
	n := s.completion.Ready(uint32(s.sending))
	if n == 0 {
		return
	}
	for range n {
		p.give(p.base(s.completion.Take()))
	}
	s.completion.Release()
	s.sending -= int(n)
	s.completed.Add(uint64(n))
}

// refill gives the kernel free chunks to receive into, all but keep of them.
func (s *socket) refill(p *pool, keep int) {
	room := int(s.fill.Room(s.fill.Size()))
	n := min(room, len(p.free)-keep)
	if n > 0 {
		for _, addr := range p.free[len(p.free)-n:] {
			s.fill.Put(addr)
		}
		p.free = p.free[:len(p.free)-n]
		s.fill.Publish()
		s.filling += n
	} else if room > 0 {
		s.fillEmpty.Add(1)
	}
	if s.fill.NeedWakeup() {
		s.wakeups.Add(1)
		if errno := kickRx(s.fd); errno != 0 && errno != unix.EAGAIN && errno != unix.EBUSY && errno != unix.EINTR {
			s.kickErrs.Add(1)
		}
	}
}
