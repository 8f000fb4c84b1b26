// Package xdp moves frames between network interfaces and workers: the XDP program that picks what is ours, AF_XDP
// sockets with their rings and UMEM, and an in-memory stand-in for tests.
//
// Open makes the sockets and deals them out to workers as Ports; Attach then puts the program, which package xdp/bpf holds,
// in front of them with the Rules of what is ours. There are three Ports: over our own rings (afxdp.go, socket.go), over
// github.com/asavie/xdp for comparison (asavie.go), and Memory.
package xdp

import "time"

// Headroom is the number of bytes in front of a received frame's data that a worker may use to grow the frame (a VLAN
// tag, the header of an ICMP error). Every driver guarantees at least this much.
const Headroom = 128

// Frame is one chunk of packet memory and the bytes of a packet inside it. A frame has exactly one owner at any time: a
// ring, the free list, or the worker that received it. The owner alone may touch Buf.
type Frame struct {
	Buf   []byte // the whole chunk, headroom included; the packet is Buf[Start:End]
	Start int
	End   int
	Iface int    // index into the Port's interfaces on which the frame came in
	Addr  uint64 // the driver's own name of the chunk; workers carry it, and never look at it
}

// Bytes returns the packet, starting with its Ethernet header. The slice is valid until the frame is given back.
func (f *Frame) Bytes() []byte { return f.Buf[f.Start:f.End] }

// Port is what one worker sees of the network: at least one queue of every attached interface, over one pool of frames.
//
// Concurrency: all methods but Wake and Stats belong to the one goroutine that owns the Port.
// Ownership: a frame from Receive or Alloc belongs to the caller until Transmit has accepted it or Release has taken it.
type Port interface {
	// Interfaces returns the attached interfaces in the order of Frame.Iface.
	Interfaces() []Interface
	// Receive fills frames from all sockets, in turn, and returns how many it filled; 0 when nothing has come. It never blocks.
	Receive(frames []Frame) int
	// Alloc takes a free frame for a packet of the worker's own; ok is false when none is left.
	Alloc() (f Frame, ok bool)
	// Transmit queues frames to go out of interface iface, in order, and returns how many were accepted; the rest still
	// belong to the caller (the ring is full).
	Transmit(iface int, frames []Frame) int
	// Release gives frames back to the pool.
	Release(frames []Frame)
	// Flush publishes what Transmit queued, reaps completions, refills the fill rings, and makes the system calls that the
	// rings ask for, none otherwise. Call it once a batch. An errno of the network (link down, out of buffers) is counted and
	// healed; only an error that ends this Port is returned.
	Flush() error
	// Wait sleeps until a frame may have come, Wake is called, or d has passed; now and then it returns early for nothing.
	Wait(d time.Duration) error
	// Wake makes a concurrent or the next Wait return at once. Any goroutine may call it.
	Wake()
	// Stats returns the counters of each socket. Any goroutine may call it.
	Stats() []SocketStats
	// Close gives back sockets and memory. The worker must have stopped.
	Close() error
}

// Interface is an attached network interface.
type Interface struct {
	Name   string
	Index  int // the kernel's ifindex
	MAC    [6]byte
	MTU    int
	Queues int // receive queues in use
}

// SocketStats counts what one socket (one queue of one interface) did since it was opened. All values only grow.
type SocketStats struct {
	Interface string `json:"interface"`
	Queue     int    `json:"queue"`
	ZeroCopy  bool   `json:"zero_copy"` // what the kernel granted
	RxPackets uint64 `json:"rx_packets"`
	RxBytes   uint64 `json:"rx_bytes"`
	TxPackets uint64 `json:"tx_packets"` // accepted by the TX ring
	TxBytes   uint64 `json:"tx_bytes"`
	Completed uint64 `json:"completed"`  // frames the kernel gave back after sending
	TxFull    uint64 `json:"tx_full"`    // frames refused because the TX ring was full
	FillEmpty uint64 `json:"fill_empty"` // refills that found no free frame
	Kicks     uint64 `json:"kicks"`      // sendto calls that the TX ring asked for
	Wakeups   uint64 `json:"wakeups"`    // recvfrom calls that the fill ring asked for
	KickErrs  uint64 `json:"kick_errs"`  // of these, failed by an errno that means trouble (ENETDOWN, ENXIO, ENOBUFS)
	// From the kernel (getsockopt XDP_STATISTICS, struct xdp_statistics).
	RxDropped       uint64 `json:"rx_dropped"`
	RxInvalid       uint64 `json:"rx_invalid"`
	TxInvalid       uint64 `json:"tx_invalid"`
	RxRingFull      uint64 `json:"rx_ring_full"`
	RxFillRingEmpty uint64 `json:"rx_fill_ring_empty"`
	TxRingEmpty     uint64 `json:"tx_ring_empty"`
}
