// Package traffic makes and counts load: a generator that sends UDP datagrams out of an interface as fast as one core can
// by XDP live frames (BPF_PROG_TEST_RUN), or by a packet ring where the kernel is built to refuse those, a sink that counts them in XDP, and the bare XDP forwarder between them that is
// the limit for everything else.
//
// A veth takes redirected frames only when its peer polls by NAPI, that is when a native XDP program is attached to the
// peer or GRO is on there; otherwise they vanish without a count. Prepare sees to that for the caller.
package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"sluice/xdp/packet"
)

// headerLen is the Ethernet, IPv4 and UDP headers that the generator writes.
const headerLen = 14 + 20 + 8

// Stream describes the datagrams of a run.
type Stream struct {
	SrcMAC, DstMAC [6]byte
	Src            netip.Addr // the first source address; flows beyond 16384 take the following ones
	Dst            netip.AddrPort
	Flows          int // a power of two, up to 2^20
	Size           int // of the Ethernet frame without its checksum, 60 to 1514; "64 bytes on the wire" is 60
	CPU            int // the processor that sends, from 0; -1 leaves it to the scheduler
}

// Generator sends one stream out of one interface.
//
// Concurrency: Run from one goroutine.
type Generator struct {
	sender
	host Host
	cpu  int
}

// Host runs a function in the network namespace that an interface lives in; lab.Host is one.
type Host interface {
	Do(f func() error) error
}

// NewGenerator prepares to send s out of the interface with index ifindex in the namespace of host: by live frames, or by a packet
// ring where the kernel refuses these.
func NewGenerator(host Host, ifindex int, s Stream) (*Generator, error) {
	if s.Flows < 1 || s.Flows > 1<<20 || s.Flows&(s.Flows-1) != 0 {
		return nil, fmt.Errorf("flows %d: must be a power of two up to 2^20", s.Flows)
	}
	if s.Size < 60 || s.Size > 1514 {
		return nil, fmt.Errorf("frame size %d: must be 60 to 1514", s.Size)
	}
	g := &Generator{host: host, cpu: s.CPU}
	fast, err := newLiveFrames(ifindex, s)
	if err != nil {
		return nil, err
	}
	if ok, err := fast.permitted(); ok {
		g.sender = fast
		return g, nil
	} else if err = errors.Join(err, fast.Close()); err != nil {
		return nil, err
	}
	err = host.Do(func() error {
		slow, err := newPacketRing(ifindex, s.flows())
		g.sender = slow
		return err
	})
	if err != nil {
		return nil, err
	}
	return g, nil
}

// Method says how the generator sends: "live frames" or "packet ring".
func (g *Generator) Method() string { return g.method() }

// template returns the frame with source address, source port and checksums zero; the program fills these in.
func (s Stream) template() []byte {
	f := make([]byte, s.Size)
	copy(f[0:], s.DstMAC[:])
	copy(f[6:], s.SrcMAC[:])
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	ip := f[14:]
	ip[0], ip[8], ip[9] = 0x45, 64, packet.ProtoUDP
	binary.BigEndian.PutUint16(ip[2:], uint16(s.Size-14))
	dst := s.Dst.Addr().As4()
	copy(ip[16:], dst[:])
	binary.BigEndian.PutUint16(ip[22:], s.Dst.Port())
	binary.BigEndian.PutUint16(ip[24:], uint16(s.Size-34))
	return f
}

// sums are what the checksums of a stream's frames are made of: all that they cover but source address and port.
type sums struct {
	ip, udp uint32 // ones' complement sums, not folded
	src     uint32 // the first source address
}

func (s Stream) sums(frame []byte) sums {
	ip, udp := frame[14:34], frame[34:]
	return sums{ip: sum(ip), udp: sum(udp) + sum(ip[16:20]) + packet.ProtoUDP + uint32(len(udp)), src: packet.AddrFrom(s.Src).V4()}
}

// put makes a frame that was a template one of a flow, as the program in traffic.c that sends live frames does.
func (s sums) put(frame []byte, flow uint32) {
	const portsEach, firstPort = 1 << 14, 1024
	addr, port := s.src+flow/portsEach, firstPort+flow%portsEach
	addrSum := addr>>16 + addr&0xffff
	b := binary.BigEndian
	b.PutUint32(frame[26:], addr)
	b.PutUint16(frame[24:], fold(s.ip+addrSum))
	b.PutUint16(frame[34:], uint16(port))
	check := fold(s.udp + addrSum + port)
	if check == 0 {
		check = 0xffff // 0 would say that there is none
	}
	b.PutUint16(frame[40:], check)
}

func fold(sum uint32) uint16 {
	sum = sum&0xffff + sum>>16
	sum = sum&0xffff + sum>>16
	return ^uint16(sum)
}

// sum is the ones' complement sum of b in 16-bit words, not folded; b is at most a frame long, so it cannot overflow.
func sum(b []byte) uint32 {
	var s uint32
	for ; len(b) >= 2; b = b[2:] {
		s += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		s += uint32(b[0]) << 8
	}
	return s&0xffff + s>>16
}

// runChunk is how many frames one system call sends: short enough to end a run on time, long enough to cost nothing.
const runChunk = 1 << 16

// Run sends frames for at least d and returns how many it sent.
func (g *Generator) Run(d time.Duration) (sent uint64, err error) {
	err = g.do(func() error {
		for end := time.Now().Add(d); time.Now().Before(end); sent += runChunk {
			if err := g.burst(runChunk); err != nil {
				return err
			}
		}
		return nil
	})
	return sent, err
}

// Send sends exactly n frames.
func (g *Generator) Send(n uint32) error {
	return g.do(func() error { return g.burst(n) })
}

// do calls f on a thread in the generator's namespace and on its processor; the thread ends with f.
func (g *Generator) do(f func() error) error { return pinned(g.host, g.cpu, f) }

// pinned calls f on a thread in the namespace of host and on a processor, -1 for any; the thread ends with f.
func pinned(host Host, cpu int, f func() error) error {
	return host.Do(func() error {
		if cpu >= 0 {
			var set unix.CPUSet
			set.Set(cpu)
			if err := unix.SchedSetaffinity(0, &set); err != nil {
				return fmt.Errorf("pinning the generator to processor %d: %w", cpu, err)
			}
		}
		return f()
	})
}
