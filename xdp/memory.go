package xdp

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MemoryOptions shapes a Memory. Zero values take the defaults.
type MemoryOptions struct {
	Interfaces []Interface
	Frames     int  // chunks in the pool; 1024 by default
	FrameSize  int  // bytes of a chunk; 2048 by default
	TxRing     int  // descriptors of each TX ring; 256 by default
	Discard    bool // count what is sent and keep none of it: for benchmarks and allocation tests
}

// Memory is a Port without a kernel: Deliver puts packets in front of Receive, Sent takes out what Flush has sent. It
// refuses frames when a TX ring is full and runs out of frames exactly as the socket drivers do, so that tests reach those paths.
//
// Concurrency: the Port's methods belong to the worker. Deliver, Sent and Stall may be called by any goroutine.
type Memory struct {
	opts MemoryOptions
	pool pool
	wake chan struct{}

	mu     sync.Mutex // guards what follows
	input  []memPacket
	ifaces []memIface
}

// memPacket is a packet that has come and has not been received.
type memPacket struct {
	iface int
	data  []byte
}

// memIface is one interface's TX ring and what went out of it.
type memIface struct {
	ring    []memDesc // accepted by Transmit, not sent yet
	stalled bool
	sent    [][]byte
	stats   memStats
}

// memDesc is a TX descriptor.
type memDesc struct {
	addr       uint64
	start, end int
}

// memStats are the counters of one interface.
type memStats struct {
	rxPackets, rxBytes, txPackets, txBytes, completed, txFull, rxNoFrame atomic.Uint64
}

var _ Port = (*Memory)(nil)

// NewMemory returns a Port over heap memory.
func NewMemory(o MemoryOptions) *Memory {
	if o.Frames == 0 {
		o.Frames = 1024
	}
	if o.FrameSize == 0 {
		o.FrameSize = 2048
	}
	if o.TxRing == 0 {
		o.TxRing = 256
	}
	m := &Memory{opts: o, wake: make(chan struct{}, 1), ifaces: make([]memIface, len(o.Interfaces))}
	m.pool.init(make([]byte, o.Frames*o.FrameSize), o.FrameSize)
	for i := range m.ifaces {
		m.ifaces[i].ring = make([]memDesc, 0, o.TxRing)
	}
	return m
}

// Deliver queues packets as if they had come in on interface iface. The bytes are copied when they are received: leave
// them alone until then. A packet that does not fit into a chunk behind the headroom is refused.
func (m *Memory) Deliver(iface int, packets ...[]byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range packets {
		if len(p) > m.opts.FrameSize-Headroom {
			return fmt.Errorf("packet of %d bytes: a chunk holds %d", len(p), m.opts.FrameSize-Headroom)
		}
		m.input = append(m.input, memPacket{iface, p})
	}
	return nil
}

// Sent returns the packets that left interface iface since the last call, in order. The caller owns them.
func (m *Memory) Sent(iface int) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.ifaces[iface].sent
	m.ifaces[iface].sent = nil
	return out
}

// Stall stops interface iface from taking frames off its TX ring, or lets it go on: a link that is down and up again.
func (m *Memory) Stall(iface int, stalled bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ifaces[iface].stalled = stalled
}

// Interfaces implements Port.
func (m *Memory) Interfaces() []Interface { return m.opts.Interfaces }

// Receive implements Port. A packet for which no frame is left is lost and counted (RxFillRingEmpty).
func (m *Memory) Receive(frames []Frame) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, taken := 0, 0
	for ; taken < len(m.input) && n < len(frames); taken++ {
		p := &m.input[taken]
		st := &m.ifaces[p.iface].stats
		if !m.pool.take(&frames[n]) {
			st.rxNoFrame.Add(1)
			continue
		}
		frames[n].Iface = p.iface
		frames[n].Start = Headroom
		frames[n].End = Headroom + copy(frames[n].Buf[Headroom:], p.data)
		st.rxPackets.Add(1)
		st.rxBytes.Add(uint64(len(p.data)))
		n++
	}
	m.input = m.input[:copy(m.input, m.input[taken:])]
	return n
}

// Alloc implements Port.
func (m *Memory) Alloc() (f Frame, ok bool) {
	ok = m.pool.take(&f)
	f.Start, f.End = Headroom, Headroom
	return f, ok
}

// Transmit implements Port.
func (m *Memory) Transmit(iface int, frames []Frame) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := &m.ifaces[iface]
	n := min(len(frames), m.opts.TxRing-len(out.ring))
	for i := range frames[:n] {
		f := &frames[i]
		out.ring = append(out.ring, memDesc{f.Addr, f.Start, f.End})
		out.stats.txBytes.Add(uint64(f.End - f.Start))
	}
	m.pool.worker -= n
	out.stats.txPackets.Add(uint64(n))
	out.stats.txFull.Add(uint64(len(frames) - n))
	return n
}

// Release implements Port.
func (m *Memory) Release(frames []Frame) {
	for i := range frames {
		m.pool.give(frames[i].Addr)
	}
	m.pool.worker -= len(frames)
}

// Flush implements Port: every interface that is not stalled sends what its TX ring holds.
func (m *Memory) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.ifaces {
		out := &m.ifaces[i]
		if out.stalled {
			continue
		}
		for _, d := range out.ring {
			if !m.opts.Discard {
				out.sent = append(out.sent, bytes.Clone(m.pool.chunk(d.addr)[d.start:d.end]))
			}
			m.pool.give(d.addr)
		}
		out.stats.completed.Add(uint64(len(out.ring)))
		out.ring = out.ring[:0]
	}
	return nil
}

// Wait implements Port.
func (m *Memory) Wait(d time.Duration) error {
	m.mu.Lock()
	waiting := len(m.input)
	m.mu.Unlock()
	if waiting > 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-m.wake:
	case <-timer.C:
	}
	return nil
}

// Wake implements Port.
func (m *Memory) Wake() {
	select {
	case m.wake <- struct{}{}:
	default: // one is pending already
	}
}

// Stats implements Port.
func (m *Memory) Stats() []SocketStats {
	out := make([]SocketStats, len(m.ifaces))
	for i := range out {
		s := &m.ifaces[i].stats
		out[i] = SocketStats{
			Interface: m.opts.Interfaces[i].Name,
			RxPackets: s.rxPackets.Load(), RxBytes: s.rxBytes.Load(),
			TxPackets: s.txPackets.Load(), TxBytes: s.txBytes.Load(),
			Completed: s.completed.Load(), TxFull: s.txFull.Load(), RxFillRingEmpty: s.rxNoFrame.Load(),
		}
	}
	return out
}

// Close implements Port.
func (m *Memory) Close() error { return nil }

// Audit counts where the frames are. Call it from the worker's goroutine.
func (m *Memory) Audit() (Audit, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.pool.audit()
	for i := range m.ifaces {
		a.Tx += len(m.ifaces[i].ring)
	}
	return a, a.check(m.pool.free)
}
