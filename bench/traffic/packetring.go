package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// packetRing sends through the transmit ring of a packet socket (packet(7), TPACKET_V2), past the queueing discipline: what is left
// where the kernel refuses live frames. Each frame is an skb, which costs what live frames spare.
type packetRing struct {
	fd     int
	ring   []byte
	slot   int // bytes of a slot
	frames frames
	sent   uint32 // frames so far: each is in the slot behind the one before
}

// frames is what a ring sends.
type frames interface {
	// longest is the length of the longest frame.
	longest() int
	// put makes b frame number n and returns its length. b is zero for the first ringSlots frames; later it holds what was put there for
	// n-ringSlots.
	put(b []byte, n uint32) int
}

// flows are the frames of a stream, one of each flow in turn.
type flows struct {
	template []byte
	sums     sums
	mask     uint32 // number of flows minus one
}

func (s Stream) flows() *flows {
	t := s.template()
	return &flows{template: t, sums: s.sums(t), mask: uint32(s.Flows - 1)}
}

func (f *flows) longest() int { return len(f.template) }

func (f *flows) put(b []byte, n uint32) int {
	if n < ringSlots {
		copy(b, f.template)
	}
	f.sums.put(b, n&f.mask)
	return len(f.template)
}

// Sizes of the ring.
const (
	ringSlots = 512
	// slotHead is the header of a slot, struct tpacket2_hdr as TPACKET_ALIGN rounds it up, behind which the frame stands.
	slotHead = 32
)

// newPacketRing opens a ring on the interface with index ifindex. The caller is in its namespace.
func newPacketRing(ifindex int, f frames) (_ *packetRing, err error) {
	r := &packetRing{frames: f, slot: 128}
	for r.slot < slotHead+f.longest() {
		r.slot *= 2
	}
	if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("a packet socket: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Close(r.fd))
		}
	}()
	block := uint32(max(r.slot, unix.Getpagesize()))
	request := unix.TpacketReq{Block_size: block, Block_nr: uint32(ringSlots*r.slot) / block,
		Frame_size: uint32(r.slot), Frame_nr: ringSlots}
	err = errors.Join(
		unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2),
		unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1),
		unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_TX_RING, &request),
		unix.Bind(r.fd, &unix.SockaddrLinklayer{Ifindex: ifindex}),
	)
	if err != nil {
		return nil, fmt.Errorf("a transmit ring: %w", err)
	}
	if r.ring, err = unix.Mmap(r.fd, 0, ringSlots*r.slot, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return nil, fmt.Errorf("mapping the transmit ring: %w", err)
	}
	return r, nil
}

// burst fills the ring and waits until the kernel has given all of it away, again and again.
func (r *packetRing) burst(n uint32) error {
	for n > 0 {
		batch := min(n, ringSlots)
		for range batch {
			r.fill(r.ring[int(r.sent%ringSlots)*r.slot:])
			r.sent++
		}
		if err := r.send(); err != nil {
			return err
		}
		n -= batch
	}
	return nil
}

// fill puts the next frame into a slot and hands it to the kernel, which does not look before send.
func (r *packetRing) fill(slot []byte) {
	n := r.frames.put(slot[slotHead:r.slot], r.sent)
	binary.NativeEndian.PutUint32(slot[4:], uint32(n))
	binary.NativeEndian.PutUint32(slot, unix.TP_STATUS_SEND_REQUEST)
}

// send returns when the kernel needs none of the slots any more.
func (r *packetRing) send() (err error) {
	const tries = 1000 // an interface that is busy has room again at once, or it is not there any more
	for range tries {
		err = unix.Send(r.fd, nil, 0)
		if err == nil || !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("sending from a packet ring: %w", err)
	}
	return nil
}

func (r *packetRing) method() string { return "packet ring" }

func (r *packetRing) Close() error { return errors.Join(unix.Munmap(r.ring), unix.Close(r.fd)) }
