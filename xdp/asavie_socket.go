package xdp

import (
	"fmt"
	"strings"
	"sync"
	"time"

	asavie "github.com/asavie/xdp"
	"golang.org/x/sys/unix"
)

// ownerShift is where a frame's Addr has the index of the socket that owns it, above the address in that socket's UMEM.
const ownerShift = 40

// base returns the address of f's chunk in the memory of its socket.
func base(f *Frame) uint64 { return f.Addr & (1<<ownerShift - 1) }

// chunkState says where a chunk is, as far as the library has to be second-guessed.
type chunkState uint8

const (
	chunkElsewhere chunkState = iota // free, filling, with the worker, or pending
	chunkSending                     // given to the library's Transmit, and not seen back
)

// asavieSocket is the library's socket of one queue, and the account of its chunks that the library does not keep.
type asavieSocket struct {
	queueID
	counters
	xsk      *asavie.Socket
	index    int // in the Port's list of sockets
	size     int // bytes of a chunk
	ring     int // entries of each ring
	zeroCopy bool

	state    []chunkState
	free     []uint64
	fillBuf  []asavie.Desc
	pending  []asavie.Desc // accepted by Transmit, for send to give to the library
	filling  int
	sending  int // given to the library, and not harvested
	returned int // of these, completed

	mu     sync.Mutex // guards closed, for Stats against Close
	closed bool
}

// newAsavieSocket opens a socket and fills its fill ring.
func newAsavieSocket(id queueID, ifindex, index, ring, size int) (*asavieSocket, error) {
	chunks := 2*ring + spare
	s := &asavieSocket{queueID: id, index: index, size: size, ring: ring, state: make([]chunkState, chunks),
		free: make([]uint64, 0, chunks), fillBuf: make([]asavie.Desc, 0, ring), pending: make([]asavie.Desc, 0, ring)}
	for i := chunks - 1; i >= 0; i-- {
		s.free = append(s.free, uint64(i*size))
	}
	options := &asavie.SocketOptions{NumFrames: chunks, FrameSize: size, FillRingNumDescs: ring,
		CompletionRingNumDescs: ring, RxRingNumDescs: ring, TxRingNumDescs: ring}
	var err error
	if s.xsk, err = bindAsavie(ifindex, id.queue, options); err != nil {
		return nil, fmt.Errorf("github.com/asavie/xdp, ring of %d entries: %w", ring, err)
	}
	s.zeroCopy = zeroCopy(s.xsk.FD())
	s.refill()
	return s, nil
}

// bindAsavie opens the library's socket. It waits for a while for a queue that is still in use; the library's errors wrap
// none, so that EBUSY has to be known by its text.
func bindAsavie(ifindex, queue int, options *asavie.SocketOptions) (*asavie.Socket, error) {
	deadline := time.Now().Add(bindPatience)
	for pause := time.Millisecond; ; pause *= 2 {
		xsk, err := asavie.NewSocket(ifindex, queue, options)
		if err == nil || !strings.HasSuffix(err.Error(), unix.EBUSY.Error()) || time.Now().After(deadline) {
			return xsk, err
		}
		time.Sleep(pause)
	}
}

// name returns what a frame of the chunk at addr carries as Addr.
func (s *asavieSocket) name(addr uint64) uint64 { return uint64(s.index)<<ownerShift | addr }

// chunk returns the memory of the chunk at addr.
func (s *asavieSocket) chunk(addr uint64) []byte {
	return s.xsk.GetFrame(asavie.Desc{Addr: addr, Len: uint32(s.size)})[:s.size:s.size]
}

// give puts a chunk back on the free list.
func (s *asavieSocket) give(addr uint64) { s.free = append(s.free, addr) }

// take removes a chunk from the free list.
func (s *asavieSocket) take() (addr uint64, ok bool) {
	if len(s.free) == 0 {
		s.harvest()
	}
	last := len(s.free) - 1
	if last < 0 {
		return 0, false
	}
	addr = s.free[last]
	s.free = s.free[:last]
	return addr, true
}

// receive moves packets from the RX ring into frames.
func (s *asavieSocket) receive(frames []Frame) int {
	descs := s.xsk.Receive(len(frames))
	var bytes int
	for i, d := range descs {
		addr := d.Addr - d.Addr%uint64(s.size)
		f := &frames[i]
		*f = Frame{Buf: s.chunk(addr), Start: int(d.Addr - addr), Iface: s.iface, Addr: s.name(addr)}
		f.End = f.Start + int(d.Len)
		if f.Start < Headroom { // kernels before 5.8 leave none unless asked to, and the library does not ask
			f.End = Headroom + copy(f.Buf[Headroom:], f.Bytes())
			f.Start = Headroom
		}
		bytes += int(d.Len)
	}
	s.filling -= len(descs)
	s.rxPackets.Add(uint64(len(descs)))
	s.rxBytes.Add(uint64(bytes))
	return len(descs)
}

// room returns how many more packets may be queued.
func (s *asavieSocket) room() int { return s.xsk.NumFreeTxSlots() - len(s.pending) }

// queue takes over a frame of the socket's own memory.
func (s *asavieSocket) queue(f *Frame) { s.append(base(f)+uint64(f.Start), f.End-f.Start) }

// queueCopy takes over a copy of a frame; false when no chunk is free.
func (s *asavieSocket) queueCopy(f *Frame) bool {
	addr, ok := s.take()
	if !ok {
		return false
	}
	n := copy(s.chunk(addr)[Headroom:], f.Bytes())
	s.append(addr+Headroom, n)
	return true
}

func (s *asavieSocket) append(addr uint64, n int) {
	s.pending = append(s.pending, asavie.Desc{Addr: addr, Len: uint32(n)})
	s.txPackets.Add(1)
	s.txBytes.Add(uint64(n))
}

// send gives the library what is pending and repeats the system call for as long as it gets anywhere: in copy mode one
// sends few packets. Then it takes note of what has been sent.
func (s *asavieSocket) send() {
	for _, d := range s.pending {
		s.state[d.Addr/uint64(s.size)] = chunkSending
	}
	s.sending += len(s.pending)
	left := s.unsent() + len(s.pending)
	for left > 0 {
		ok := s.kick(s.pending)
		s.pending = s.pending[:0]
		before := left
		left = s.unsent()
		s.complete()
		if !ok || left == before {
			return
		}
	}
	s.complete()
}

// unsent returns how many packets the kernel has not taken out of the TX ring.
func (s *asavieSocket) unsent() int { return s.ring - s.xsk.NumFreeTxSlots() }

// kick calls the library's Transmit, and turns its panic on a failed sendto into a counter. There is room for all of descs:
// room saw to that, and the kernel only makes more.
func (s *asavieSocket) kick(descs []asavie.Desc) (ok bool) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case error:
			if !strings.HasPrefix(r.Error(), "sendto failed") {
				panic(r)
			}
			s.kickErrs.Add(1)
			ok = false
		default:
			panic(r)
		}
	}()
	s.kicks.Add(1)
	s.xsk.Transmit(descs)
	return true
}

// complete takes entries out of the completion ring, and asks which chunks they were when free ones are scarce.
func (s *asavieSocket) complete() {
	if n := s.xsk.NumCompleted(); n > 0 {
		s.xsk.Complete(n)
		s.returned += n
		s.completed.Add(uint64(n))
	}
	if len(s.free) < spare {
		s.harvest()
	}
}

// harvest puts completed chunks on the free list.
func (s *asavieSocket) harvest() {
	if s.returned == 0 {
		return
	}
	for _, d := range s.xsk.GetDescs(len(s.state)) {
		if i := d.Addr / uint64(s.size); s.state[i] == chunkSending {
			s.state[i] = chunkElsewhere
			s.give(d.Addr)
			s.sending--
			s.returned--
		}
	}
}

// refill gives the kernel free chunks to receive into, all but a few.
func (s *asavieSocket) refill() {
	room := s.xsk.NumFreeFillSlots()
	n := min(room, len(s.free)-spare)
	if n <= 0 {
		if room > 0 {
			s.fillEmpty.Add(1)
		}
		return
	}
	s.fillBuf = s.fillBuf[:0]
	for _, addr := range s.free[len(s.free)-n:] {
		s.fillBuf = append(s.fillBuf, asavie.Desc{Addr: addr})
	}
	s.free = s.free[:len(s.free)-n]
	s.filling += s.xsk.Fill(s.fillBuf)
}

// kernelStats adds the kernel's counters unless the socket is closed.
func (s *asavieSocket) kernelStats(st *SocketStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		kernelStats(s.xsk.FD(), st)
	}
}

func (s *asavieSocket) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.xsk.Close()
}
