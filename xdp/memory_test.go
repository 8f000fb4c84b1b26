package xdp_test

import (
	"bytes"
	"testing"
	"time"

	"sluice/xdp"
)

// newMemory returns a Memory with two interfaces, eight chunks and TX rings of four.
func newMemory(o xdp.MemoryOptions) *xdp.Memory {
	o.Interfaces = []xdp.Interface{{Name: "a", Index: 1, MTU: 1500}, {Name: "b", Index: 2, MTU: 1500}}
	o.Frames, o.TxRing = 8, 4
	return xdp.NewMemory(o)
}

func wantAudit(t *testing.T, m *xdp.Memory, want xdp.Audit) {
	t.Helper()
	got, err := m.Audit()
	if err != nil {
		t.Fatal(err)
	}
	want.Total = 8
	if got != want {
		t.Errorf("audit: got %+v, want %+v", got, want)
	}
}

func TestMemoryForward(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{})
	if err := m.Deliver(0, []byte("first"), []byte("second")); err != nil {
		t.Fatal(err)
	}
	frames := make([]xdp.Frame, 4)
	if n := m.Receive(frames); n != 2 {
		t.Fatalf("received %d, want 2", n)
	}
	if frames[0].Start < xdp.Headroom || string(frames[0].Bytes()) != "first" || frames[0].Iface != 0 {
		t.Errorf("frame 0: %q at %d on interface %d", frames[0].Bytes(), frames[0].Start, frames[0].Iface)
	}
	wantAudit(t, m, xdp.Audit{Free: 6, Worker: 2})
	if n := m.Transmit(1, frames[:2]); n != 2 {
		t.Fatalf("transmitted %d, want 2", n)
	}
	if got := m.Sent(1); got != nil {
		t.Errorf("sent %q before Flush", got)
	}
	wantAudit(t, m, xdp.Audit{Free: 6, Tx: 2})
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	got := m.Sent(1)
	if len(got) != 2 || string(got[0]) != "first" || string(got[1]) != "second" {
		t.Errorf("sent %q", got)
	}
	wantAudit(t, m, xdp.Audit{Free: 8})
}

func TestMemoryFullRing(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{})
	m.Stall(1, true)
	frames := make([]xdp.Frame, 6)
	for i := range frames {
		f, ok := m.Alloc()
		if !ok {
			t.Fatal("no frame left")
		}
		f.End += copy(f.Buf[f.End:], "x")
		frames[i] = f
	}
	if n := m.Transmit(1, frames); n != 4 {
		t.Fatalf("accepted %d, want the 4 of the ring", n)
	}
	m.Release(frames[4:])
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	wantAudit(t, m, xdp.Audit{Free: 4, Tx: 4})
	m.Stall(1, false)
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	wantAudit(t, m, xdp.Audit{Free: 8})
	if s := m.Stats()[1]; s.TxFull != 2 || s.TxPackets != 4 || s.Completed != 4 {
		t.Errorf("stats %+v", s)
	}
}

func TestMemoryRunsOut(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{})
	for range 10 {
		if err := m.Deliver(0, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	frames := make([]xdp.Frame, 16)
	if n := m.Receive(frames); n != 8 {
		t.Fatalf("received %d, want 8", n)
	}
	if _, ok := m.Alloc(); ok {
		t.Error("Alloc gave a frame that is not there")
	}
	if s := m.Stats()[0]; s.RxFillRingEmpty != 2 {
		t.Errorf("lost %d, want 2", s.RxFillRingEmpty)
	}
	if err := m.Deliver(0, bytes.Repeat([]byte{1}, 2048)); err == nil {
		t.Error("a packet larger than a chunk was taken")
	}
}

func TestMemoryAuditFindsDoubleRelease(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{})
	a, _ := m.Alloc()
	b, _ := m.Alloc()
	m.Release([]xdp.Frame{a, a}) // the worker's count is right again, but b is lost and a is there twice
	if _, err := m.Audit(); err == nil {
		t.Errorf("audit is silent, though %#x was released twice and %#x not at all", a.Addr, b.Addr)
	}
}

func TestMemoryWake(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{})
	m.Wake()
	start := time.Now()
	if err := m.Wait(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("Wait took %v although Wake was called", took)
	}
}

func TestMemoryNoAllocation(t *testing.T) {
	m := newMemory(xdp.MemoryOptions{Discard: true})
	frames, packet := make([]xdp.Frame, 4), []byte("packet")
	round := func() {
		if err := m.Deliver(0, packet); err != nil {
			t.Fatal(err)
		}
		n := m.Receive(frames)
		m.Transmit(1, frames[:n])
		if err := m.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}
