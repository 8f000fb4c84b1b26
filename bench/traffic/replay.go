package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/xdp/packet"
)

// Replay sends prepared frames in turn, from a packet ring and at a fixed rate.
//
// Concurrency: Run from one goroutine; Sent from any.
type Replay struct {
	ring *packetRing
	host Host
	cpu  int
	sent atomic.Uint64
}

// Pace is how fast a Replay sends. Between bursts it sleeps, so that what its processor is busy with is the sending and what the
// kernel does for the receiver meanwhile, never a loop that waits.
type Pace struct {
	Rate  int // frames a second
	Burst int // frames at once; more when the sender is late
}

// prepared are whole frames, sent in turn.
type prepared [][]byte

func (p prepared) longest() (n int) {
	for _, f := range p {
		n = max(n, len(f))
	}
	return n
}

func (p prepared) put(b []byte, n uint32) int { return copy(b, p[n%uint32(len(p))]) }

// NewReplay prepares to send frames out of the interface with index ifindex in the namespace of host, on processor cpu (-1: any). The
// number of frames is a power of two, so that their order survives the wrap of a 32-bit count.
func NewReplay(host Host, ifindex int, frames [][]byte, cpu int) (*Replay, error) {
	if n := len(frames); n == 0 || n&(n-1) != 0 {
		return nil, fmt.Errorf("%d frames: must be a power of two", n)
	}
	r := &Replay{host: host, cpu: cpu}
	err := host.Do(func() (err error) {
		r.ring, err = newPacketRing(ifindex, prepared(frames))
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Run sends for d, and returns when all that it sent has left. Each run goes on with the frame behind the last one of the run before.
func (r *Replay) Run(p Pace, d time.Duration) error {
	if p.Rate <= 0 || p.Burst <= 0 || p.Burst > ringSlots {
		return fmt.Errorf("%d frames a second in bursts of %d: the rate must be positive and a burst 1 to %d frames", p.Rate, p.Burst, ringSlots)
	}
	return pinned(r.host, r.cpu, func() error {
		begin, sent := time.Now(), 0
		for {
			elapsed := time.Since(begin)
			if elapsed >= d {
				return nil
			}
			due := min(int(elapsed.Seconds()*float64(p.Rate))-sent, ringSlots)
			if due < p.Burst {
				next := time.Duration(float64(sent+p.Burst) / float64(p.Rate) * float64(time.Second))
				sleep(next - elapsed)
				continue
			}
			if err := r.ring.burst(uint32(due)); err != nil {
				return err
			}
			sent += due
			r.sent.Add(uint64(due))
		}
	})
}

// sleep blocks the thread, which costs less than to have the runtime wake a goroutine that is tied to one.
func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // woken early by a signal: the caller looks at the clock
}

// Sent returns how many frames have been sent.
func (r *Replay) Sent() uint64 { return r.sent.Load() }

// Close gives the ring back.
func (r *Replay) Close() error { return r.ring.Close() }

// Link is the link-layer addresses of a frame.
type Link struct{ Src, Dst [6]byte }

// Datagram returns an Ethernet frame with a UDP datagram over IPv4, all checksums filled in.
func Datagram(l Link, src, dst netip.AddrPort, payload []byte) ([]byte, error) {
	if !src.Addr().Is4() || !dst.Addr().Is4() || headerLen+len(payload) > 1514 {
		return nil, errors.New("a frame of a datagram: must be IPv4 and fit into 1514 bytes")
	}
	f := Stream{SrcMAC: l.Src, DstMAC: l.Dst, Dst: dst, Size: headerLen + len(payload)}.template()
	copy(f[headerLen:], payload)
	b, from := binary.BigEndian, src.Addr().As4()
	copy(f[26:], from[:])
	b.PutUint16(f[34:], src.Port())
	b.PutUint16(f[24:], fold(sum(f[14:34])))
	check := fold(sum(f[26:]) + packet.ProtoUDP + uint32(len(f)-34))
	if check == 0 {
		check = 0xffff // 0 would say that there is none
	}
	b.PutUint16(f[40:], check)
	return f, nil
}
