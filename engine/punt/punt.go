// Package punt hands frames back to the kernel: those that XDP redirected to us and that turned out to be nobody's, such as
// the reply to one of the node's own connections whose port lies in the SNAT range.
//
// For each attached interface there is a TAP device. A frame written to it comes in there, where a filter redirects it to
// the ingress of the interface that it was taken from: to sockets, packet filters and captures it looks as if it had never
// been away. That is done by the mirred action of traffic control and not by bpf_redirect, because what mirred redirects
// is marked in the kernel (skb->redirected) and generic XDP leaves it alone; after bpf_redirect it would run through the
// program once more, and come back to us without end (seen on Linux 6.18). Native XDP sees neither.
package punt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/xdp"
	"sluice/xdp/packet"
)

// headerLen is the length of struct virtio_net_hdr in front of each frame (linux/virtio_net.h, legacy form).
const headerLen = 10

// needsChecksum says that the transport checksum is not complete: flag VIRTIO_NET_HDR_F_NEEDS_CSUM.
const needsChecksum = 1

// Set is the way to the kernel for all attached interfaces.
//
// Concurrency: the methods may be called from any goroutine; Close after the last Punt.
type Set struct {
	taps   []*tap
	punted atomic.Uint64
	failed atomic.Uint64
}

// Open makes a TAP device for each interface, in the network namespace of the calling thread. The devices vanish with the
// process.
func Open(interfaces []xdp.Interface) (*Set, error) {
	s := &Set{}
	for _, i := range interfaces {
		t, err := openTap(i)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the way back to the kernel for %s: %w", i.Name, err), s.Close())
		}
		s.taps = append(s.taps, t)
	}
	return s, nil
}

// Close removes the devices.
func (s *Set) Close() error {
	var errs []error
	for _, t := range s.taps {
		errs = append(errs, t.close())
	}
	s.taps = nil
	return errors.Join(errs...)
}

// Punted returns how many frames the kernel has taken, and how many it refused.
func (s *Set) Punted() (punted, failed uint64) { return s.punted.Load(), s.failed.Load() }

// Punter is the way to the kernel for one worker: it has the buffer in which a frame gets its header.
//
// Concurrency: one goroutine.
type Punter struct {
	set *Set
	buf []byte
	in  packet.Info
}

// maxFrame is the largest frame that a worker may have: a chunk of packet memory is never larger.
const maxFrame = 4096

// Punter returns a Punter for a worker.
func (s *Set) Punter() *Punter { return &Punter{set: s, buf: make([]byte, headerLen+maxFrame)} }

// Punt gives a frame to the kernel as if it had just come in on interface iface, an index into the attached interfaces. The
// frame stays the caller's, unchanged. It does not block; false means that the kernel did not take it.
func (p *Punter) Punt(iface int, frame []byte) bool {
	if iface < 0 || iface >= len(p.set.taps) || len(frame) > maxFrame {
		p.set.failed.Add(1)
		return false
	}
	n := copy(p.buf[headerLen:], frame)
	p.header(p.buf[headerLen : headerLen+n])
	// EAGAIN, EIO (somebody has taken the device down), ENOMEM: the frame is lost, as in a full queue of the kernel.
	if _, err := unix.Write(p.set.taps[iface].fd, p.buf[:headerLen+n]); err != nil {
		p.set.failed.Add(1)
		return false
	}
	p.set.punted.Add(1)
	return true
}

// header fills in the header for a frame, which is a copy. A sender on this machine, or on this host next to a virtual machine,
// may have left the checksum to a network card, and the bytes hold the sum of the pseudo-header only: the kernel must be told,
// or it would drop the packet as damaged. What it is told is about sums of 16 bits; SCTP's is completed here.
func (p *Punter) header(frame []byte) {
	clear(p.buf[:headerLen])
	switch {
	case packet.Parse(frame, &p.in) != packet.OK:
		return
	case packet.LacksSCTPSum(frame, &p.in):
		packet.Complete(frame, &p.in)
		return
	case !packet.IsPartial(frame, &p.in):
		return
	}
	p.buf[0] = needsChecksum
	binary.NativeEndian.PutUint16(p.buf[6:], uint16(p.in.L4))
	binary.NativeEndian.PutUint16(p.buf[8:], checksumOffset(p.in.Proto))
}

// checksumOffset is where the checksum lies in a transport header.
func checksumOffset(proto uint8) uint16 {
	switch proto {
	case packet.ProtoUDP:
		return 6
	case packet.ProtoICMPv6:
		return 2
	}
	return 16 // TCP
}
