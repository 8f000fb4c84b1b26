package ring

import "sync/atomic"

// Desc describes a packet in the RX and TX rings (struct xdp_desc).
type Desc struct {
	Addr    uint64 // offset of the packet's first byte in the UMEM
	Len     uint32 // bytes
	Options uint32
}

// Entry is what a ring holds: chunk addresses (fill, completion) or packet descriptors (RX, TX).
type Entry interface{ uint64 | Desc }

// needWakeup is XDP_RING_NEED_WAKEUP of the flags word.
const needWakeup = 1

// Producer is the end of a ring that writes. It belongs to one goroutine.
type Producer[T Entry] struct {
	view[T]
	next uint32 // index of the next entry to write; ahead of the shared index by what is not published yet
	seen uint32 // the consumer's index when last read
}

// NewProducer returns the writing end of the ring of size entries that lies in mem.
func NewProducer[T Entry](mem []byte, l Layout, size uint32) (*Producer[T], error) {
	v, err := newView[T](mem, l, size)
	if err != nil {
		return nil, err
	}
	return &Producer[T]{v, atomic.LoadUint32(v.producer), atomic.LoadUint32(v.consumer)}, nil
}

// Size returns the number of entries that the ring holds.
func (p *Producer[T]) Size() uint32 { return p.mask + 1 }

// Room returns how many entries may be put now, and at most want.
func (p *Producer[T]) Room(want uint32) uint32 {
	room := p.Size() - (p.next - p.seen)
	if room < want {
		p.seen = atomic.LoadUint32(p.consumer)
		room = p.Size() - (p.next - p.seen)
	}
	return min(room, want)
}

// Put writes the next entry, for which Room must have been found. The consumer sees it after Publish.
func (p *Producer[T]) Put(e T) {
	p.entries[p.next&p.mask] = e
	p.next++
}

// Publish shows the consumer all entries put so far.
func (p *Producer[T]) Publish() { atomic.StoreUint32(p.producer, p.next) }

// Pending returns how many entries the consumer has not taken yet, including those that are not published.
func (p *Producer[T]) Pending() uint32 {
	p.seen = atomic.LoadUint32(p.consumer)
	return p.next - p.seen
}

// NeedWakeup reports whether the kernel wants a system call before it takes entries (XDP_USE_NEED_WAKEUP). Ask after
// Publish: the other order can miss a kernel that has just gone to sleep.
func (p *Producer[T]) NeedWakeup() bool { return atomic.LoadUint32(p.flags)&needWakeup != 0 }

// Consumer is the end of a ring that reads. It belongs to one goroutine.
type Consumer[T Entry] struct {
	view[T]
	next uint32 // index of the next entry to read; ahead of the shared index by what is not released yet
	seen uint32 // the producer's index when last read
}

// NewConsumer returns the reading end of the ring of size entries that lies in mem.
func NewConsumer[T Entry](mem []byte, l Layout, size uint32) (*Consumer[T], error) {
	v, err := newView[T](mem, l, size)
	if err != nil {
		return nil, err
	}
	return &Consumer[T]{v, atomic.LoadUint32(v.consumer), atomic.LoadUint32(v.producer)}, nil
}

// Ready returns how many entries may be taken now, and at most want.
func (c *Consumer[T]) Ready(want uint32) uint32 {
	ready := c.seen - c.next
	if ready < want {
		c.seen = atomic.LoadUint32(c.producer)
		ready = c.seen - c.next
	}
	return min(ready, want)
}

// Take reads the next entry, which Ready must have reported.
func (c *Consumer[T]) Take() T {
	e := c.entries[c.next&c.mask]
	c.next++
	return e
}

// Release lets the producer write over all entries taken so far.
func (c *Consumer[T]) Release() { atomic.StoreUint32(c.consumer, c.next) }
