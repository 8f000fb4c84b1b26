package conntrack_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// sizes are the numbers of flows that the benchmarks run with.
var sizes = []struct {
	name  string
	flows int
}{{"flows=1k", 1 << 10}, {"flows=64k", 1 << 16}, {"flows=1M", 1 << 20}}

// filled returns an entered handle of a table with n flows, and their tuples of both directions in random order.
func filled(b *testing.B, n int) (*conntrack.Handle, []packet.Tuple) {
	b.Helper()
	h := open(b, n+n/8).Register()
	h.Enter(second)
	keys := make([]packet.Tuple, 0, 2*n)
	for i := range n {
		mustInsert(b, h, packet.ProtoUDP, i)
		fwd, reply := pair(packet.ProtoUDP, i)
		keys = append(keys, fwd, reply)
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return h, keys
}

func BenchmarkLookup(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			h, keys := filled(b, size.flows)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, _, ok := h.Lookup(&keys[i]); !ok {
					b.Fatal("not found")
				}
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}

func BenchmarkLookupMiss(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			h, keys := filled(b, size.flows)
			for i := range keys {
				keys[i].Proto = packet.ProtoTCP
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, _, ok := h.Lookup(&keys[i]); ok {
					b.Fatal("found")
				}
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}

// BenchmarkInsertRemove is the life of a flow: looked for in vain, inserted, removed; a batch is 64.
func BenchmarkInsertRemove(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			h, _ := filled(b, size.flows)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				fwd, reply := pair(packet.ProtoTCP, i&(size.flows-1))
				h.Lookup(&fwd)
				f, _, r := h.Insert(&fwd, &reply, conntrack.Meta{})
				if r != conntrack.Inserted {
					b.Fatal(r)
				}
				h.Remove(f)
				if i++; i&63 == 0 {
					h.Leave()
					h.Enter(second)
				}
			}
		})
	}
}

// BenchmarkPacket is a packet of an established flow: lookup and accounting.
func BenchmarkPacket(b *testing.B) {
	for _, size := range sizes {
		b.Run(size.name, func(b *testing.B) {
			h, keys := filled(b, size.flows)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				f, d, ok := h.Lookup(&keys[i])
				if !ok {
					b.Fatal("not found")
				}
				h.Packet(f, d, 0, 64)
				if i++; i == len(keys) {
					i = 0
				}
			}
		})
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	h := open(b, 100).Register()
	for b.Loop() {
		h.Enter(second)
		h.Leave()
	}
}

// BenchmarkSweepIdle is a lap over a million live flows none of which is due.
func BenchmarkSweepIdle(b *testing.B) {
	o := options(1 << 20)
	o.Timeouts.UDP = 100 * 365 * 24 * time.Hour
	tab, err := conntrack.New(o)
	if err != nil {
		b.Fatal(err)
	}
	defer tab.Close()
	h := tab.Register()
	h.Enter(second)
	for i := range 1 << 20 {
		mustInsert(b, h, packet.ProtoUDP, i)
	}
	h.Leave()
	now := second
	for b.Loop() {
		now += second // the hand's rest
		tab.Sweep(h, now, 1<<30)
	}
}

func BenchmarkHash(b *testing.B) {
	tab := open(b, 100)
	fwd, _ := pair(packet.ProtoTCP, 1)
	var sum uint64
	b.Run("of=table", func(b *testing.B) {
		for b.Loop() {
			k := fwd.Words()
			sum += tab.HashOf(&k)
		}
	})
	b.Run("of=tuple", func(b *testing.B) {
		for b.Loop() {
			sum += fwd.Hash(sum)
		}
	})
}

// BenchmarkSegment: data one way and its acknowledgement the other, with the window check and without.
func BenchmarkSegment(b *testing.B) {
	for _, unchecked := range []bool{false, true} {
		b.Run(fmt.Sprintf("unchecked=%v", unchecked), func(b *testing.B) {
			h := open(b, 10).Register()
			h.Enter(second)
			f := mustInsert(b, h, packet.ProtoTCP, 1)
			if unchecked {
				f.Uncheck()
			}
			h.Segment(f, fwd, &packet.Segment{Seq: 0, Len: 1, Flags: syn, Window: 60000}, 60)
			h.Segment(f, rep, &packet.Segment{Seq: 0, Len: 1, Ack: 1, Flags: syn | ack, Window: 60000}, 60)
			data := packet.Segment{Seq: 1, Len: 1448, Ack: 1, Flags: ack, Window: 60000}
			answer := packet.Segment{Seq: 1, Flags: ack, Window: 60000}
			h.Segment(f, fwd, &packet.Segment{Seq: 1, Ack: 1, Flags: ack, Window: 60000}, 60)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if i&1 == 0 {
					h.Segment(f, fwd, &data, 1500)
					data.Seq = data.End()
					continue
				}
				answer.Ack = data.Seq
				if !h.Segment(f, rep, &answer, 52) {
					b.Fatal("out of window")
				}
			}
		})
	}
}
