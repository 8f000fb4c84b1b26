package ring_test

import (
	"encoding/binary"
	"runtime"
	"sync"
	"testing"

	"sluice/xdp/ring"
)

const size = 8

// layout is the same for every ring of these tests: the index words on cache lines of their own, as the kernel has them.
var layout = ring.Layout{Producer: 0, Consumer: 64, Flags: 128, Entries: 192}

// memory returns the zeroed memory of a ring of up to 1024 entries whose two indices stand at start.
func memory(start uint32) []byte {
	mem := make([]byte, 192+1024*16)
	binary.NativeEndian.PutUint32(mem[layout.Producer:], start)
	binary.NativeEndian.PutUint32(mem[layout.Consumer:], start)
	return mem
}

// pair returns both ends of one ring.
func pair[T ring.Entry](t *testing.T, start, entries uint32) (*ring.Producer[T], *ring.Consumer[T], []byte) {
	t.Helper()
	mem := memory(start)
	p, err := ring.NewProducer[T](mem, layout, entries)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ring.NewConsumer[T](mem, layout, entries)
	if err != nil {
		t.Fatal(err)
	}
	return p, c, mem
}

// starts are index values around which the arithmetic has to hold.
var starts = []struct {
	name  string
	index uint32
}{
	{"at zero", 0},
	{"before the sign bit", 1<<31 - 10},
	{"before the wrap-around", 1<<32 - 10},
	{"at the last index", 1<<32 - 1},
}

func TestFullAndEmpty(t *testing.T) {
	for _, s := range starts {
		t.Run(s.name, func(t *testing.T) {
			p, c, _ := pair[uint64](t, s.index, size)
			for round := range uint64(10) {
				if n := c.Ready(100); n != 0 {
					t.Fatalf("round %d: %d ready in an empty ring", round, n)
				}
				if n := p.Room(100); n != size {
					t.Fatalf("round %d: room for %d, want %d", round, n, size)
				}
				for i := range uint64(size) {
					p.Put(round*100 + i)
				}
				if n := c.Ready(100); n != 0 {
					t.Fatalf("round %d: %d ready before Publish", round, n)
				}
				p.Publish()
				if n := p.Room(1); n != 0 {
					t.Fatalf("round %d: room for %d in a full ring", round, n)
				}
				if n := p.Pending(); n != size {
					t.Fatalf("round %d: %d pending, want %d", round, n, size)
				}
				if n := c.Ready(100); n != size {
					t.Fatalf("round %d: %d ready, want %d", round, n, size)
				}
				for i := range uint64(size) {
					if got := c.Take(); got != round*100+i {
						t.Fatalf("round %d: entry %d is %d", round, i, got)
					}
				}
				if n := p.Room(1); n != 0 {
					t.Fatalf("round %d: room for %d before Release", round, n)
				}
				c.Release()
			}
		})
	}
}

func TestPartialBatches(t *testing.T) {
	for _, s := range starts {
		t.Run(s.name, func(t *testing.T) {
			p, c, _ := pair[ring.Desc](t, s.index, size)
			var put, taken uint64
			for step := range 200 {
				for range p.Room(uint32(step%5 + 1)) {
					p.Put(ring.Desc{Addr: put, Len: uint32(put) + 1})
					put++
				}
				p.Publish()
				for range c.Ready(uint32(step%3 + 1)) {
					if d := c.Take(); d.Addr != taken || d.Len != uint32(taken)+1 {
						t.Fatalf("step %d: got %+v, want address %d", step, d, taken)
					}
					taken++
				}
				c.Release()
				if want := uint32(put - taken); p.Pending() != want {
					t.Fatalf("step %d: %d pending, want %d", step, p.Pending(), want)
				}
			}
			if taken < 200 {
				t.Errorf("only %d entries went through", taken)
			}
		})
	}
}

func TestNeedWakeup(t *testing.T) {
	p, _, mem := pair[uint64](t, 0, size)
	for _, tc := range []struct {
		name  string
		flags uint32
		want  bool
	}{{"clear", 0, false}, {"set", 1, true}, {"set among others", 0xffffffff, true}, {"only others", 0xfffffffe, false}} {
		t.Run(tc.name, func(t *testing.T) {
			binary.NativeEndian.PutUint32(mem[layout.Flags:], tc.flags)
			if got := p.NeedWakeup(); got != tc.want {
				t.Errorf("flags %#x: got %v", tc.flags, got)
			}
		})
	}
}

func TestBadLayout(t *testing.T) {
	for _, tc := range []struct {
		name   string
		layout ring.Layout
		size   uint32
	}{
		{"size is no power of two", layout, 6},
		{"size zero", layout, 0},
		{"entries outside", ring.Layout{Consumer: 64, Flags: 128, Entries: 192 + 1024*16 - 8}, size},
		{"entries far outside", ring.Layout{Consumer: 64, Flags: 128, Entries: 1<<64 - 8}, size},
		{"word outside", ring.Layout{Producer: 192 + 1024*16 - 2, Consumer: 64, Flags: 128, Entries: 192}, size},
		{"word not aligned", ring.Layout{Producer: 2, Consumer: 64, Flags: 128, Entries: 192}, size},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ring.NewProducer[uint64](memory(0), tc.layout, tc.size); err == nil {
				t.Error("NewProducer accepts it")
			}
			if _, err := ring.NewConsumer[ring.Desc](memory(0), tc.layout, tc.size); err == nil {
				t.Error("NewConsumer accepts it")
			}
		})
	}
}

// TestTwoGoroutines moves entries across the wrap-around between two goroutines; the race detector checks the order.
func TestTwoGoroutines(t *testing.T) {
	const total, entries = 200_000, 64
	p, c, _ := pair[ring.Desc](t, 1<<32-1000, entries)
	var wg sync.WaitGroup
	wg.Go(func() {
		for sent := uint64(0); sent < total; {
			n := p.Room(uint32(min(16, total-sent)))
			for range n {
				p.Put(ring.Desc{Addr: sent, Len: uint32(sent), Options: uint32(sent >> 3)})
				sent++
			}
			p.Publish()
			if n == 0 {
				runtime.Gosched()
			}
		}
	})
	for got := uint64(0); got < total; {
		n := c.Ready(16)
		for range n {
			if d := c.Take(); d.Addr != got || d.Len != uint32(got) || d.Options != uint32(got>>3) {
				t.Errorf("entry %d is %+v", got, d)
				c.Release()
				return
			}
			got++
		}
		c.Release()
		if n == 0 {
			runtime.Gosched()
		}
	}
	wg.Wait()
}

func TestNoAllocation(t *testing.T) {
	p, c, _ := pair[ring.Desc](t, 1<<32-10, size)
	if n := testing.AllocsPerRun(100, func() { batch(p, c) }); n != 0 {
		t.Errorf("%v allocations a batch", n)
	}
}

// batch sends a full ring's worth of entries through.
func batch(p *ring.Producer[ring.Desc], c *ring.Consumer[ring.Desc]) {
	for range p.Room(size) {
		p.Put(ring.Desc{Addr: 4096, Len: 60})
	}
	p.Publish()
	for range c.Ready(size) {
		c.Take()
	}
	c.Release()
}

func BenchmarkBatch(b *testing.B) {
	mem := memory(0)
	p, err := ring.NewProducer[ring.Desc](mem, layout, size)
	if err != nil {
		b.Fatal(err)
	}
	c, err := ring.NewConsumer[ring.Desc](mem, layout, size)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		batch(p, c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/size, "ns/entry")
}
