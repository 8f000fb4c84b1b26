package xdp_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"sluice/xdp"
)

var (
	client  = netip.MustParseAddrPort("198.18.0.1:4000")
	service = netip.MustParseAddrPort("198.19.0.1:53")
	other   = netip.MustParseAddrPort("198.18.9.9:53")
	rules   = &xdp.Rules{Services: []netip.Addr{service.Addr()}}
)

// auditor is a Port whose frames can be counted: all drivers of this package.
type auditor interface {
	xdp.Port
	Audit() (xdp.Audit, error)
}

// forwarder runs a worker that sends everything it receives out of the other interface, changing the first byte.
type forwarder struct {
	port  auditor
	stop  atomic.Bool
	done  sync.WaitGroup
	lost  atomic.Uint64
	moved atomic.Uint64
	err   error
}

func startForwarders(t *testing.T, s *xdp.Sockets) []*forwarder {
	t.Helper()
	var out []*forwarder
	for _, p := range s.Ports {
		f := &forwarder{port: p.(auditor)}
		f.done.Go(f.run)
		t.Cleanup(func() { f.finish(t) })
		out = append(out, f)
	}
	return out
}

func (f *forwarder) run() {
	frames := make([]xdp.Frame, 64)
	for !f.stop.Load() {
		n := f.port.Receive(frames)
		for i := range n {
			frames[i].Buf[frames[i].Start] = 0xfe
			if f.port.Transmit(1-frames[i].Iface, frames[i:i+1]) == 0 {
				f.port.Release(frames[i : i+1])
				f.lost.Add(1)
			}
		}
		f.moved.Add(uint64(n))
		f.err = errors.Join(f.err, f.port.Flush())
		if n == 0 {
			f.err = errors.Join(f.err, f.port.Wait(50*time.Millisecond))
		}
	}
}

// finish stops the worker and checks that no frame was lost.
func (f *forwarder) finish(t *testing.T) {
	t.Helper()
	if f.stop.Swap(true) {
		return
	}
	f.port.Wake()
	f.done.Wait()
	if f.err != nil {
		t.Errorf("worker: %v", f.err)
	}
	a, err := f.port.Audit()
	if err != nil || a.Worker != 0 {
		t.Errorf("audit %+v: %v", a, err)
	}
}

// setups are the ways in which sockets work on a veth pair.
var setups = []xdp.Options{
	{Driver: xdp.DriverAFXDP, Mode: xdp.ModeNative},
	{Driver: xdp.DriverAFXDP, Mode: xdp.ModeGeneric},
	{Driver: xdp.DriverAsavie, Mode: xdp.ModeNative},
	{Driver: xdp.DriverAsavie, Mode: xdp.ModeGeneric},
}

func eachSetup(t *testing.T, f func(t *testing.T, o xdp.Options)) {
	for _, o := range setups {
		t.Run(fmt.Sprintf("%s %s", o.Driver, o.Mode), func(t *testing.T) { f(t, o) })
	}
}

// TestForward sends packets of many sizes through the gateway and checks every byte of them.
func TestForward(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 1)
		s, a := n.open(t, o, rules)
		if got := a.Interfaces(); got[0].Mode != o.Mode || got[1].Mode != o.Mode {
			t.Errorf("attached as %+v", got)
		}
		startForwarders(t, s)
		left, right := newWire(t, n.left, "eth0"), newWire(t, n.right, "eth0")
		for _, size := range []int{1, 2, 18, 19, 100, 511, 1471, 1472} {
			payload := bytes.Repeat([]byte{byte(size), 0xa5, byte(size >> 8)}, size/3+1)[:size]
			frame := udpFrame(t, client, service, payload)
			left.send(frame)
			got := right.recv(service.Port(), 3*time.Second)
			if got == nil {
				t.Fatalf("payload of %d bytes: nothing came; sockets %+v", size, s.Ports[0].Stats())
			}
			if got[0] != 0xfe || !bytes.Equal(got[1:len(frame)], frame[1:]) {
				t.Fatalf("payload of %d bytes: sent\n%x\ngot\n%x", size, frame, got)
			}
		}
		left.send(udpFrame(t, client, other, []byte("not ours")))
		if got := right.recv(other.Port(), 100*time.Millisecond); got != nil && got[0] == 0xfe {
			t.Errorf("a packet that is not ours was forwarded: %x", got)
		}
		stats, err := a.Stats()
		check(t, err)
		if stats[0].Redirected != 8 || stats[0].Passed == 0 || stats[0].NoSocket != 0 {
			t.Errorf("program's counters %+v: want 8 redirected", stats[0])
		}
		st := s.Ports[0].Stats()
		if st[0].RxPackets != 8 || st[1].TxPackets != 8 || st[1].Completed != 8 || st[0].RxBytes != st[1].TxBytes {
			t.Errorf("sockets' counters %+v", st)
		}
	})
}

// TestTwoQueues checks that with two queues two workers run, and that both have work.
func TestTwoQueues(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 2)
		s, _ := n.open(t, o, rules)
		if len(s.Ports) != 2 || s.Interfaces[0].Queues != 2 {
			t.Fatalf("%d workers for %+v", len(s.Ports), s.Interfaces)
		}
		workers := startForwarders(t, s)
		left, right := newWire(t, n.left, "eth0"), newWire(t, n.right, "eth0")
		const count = 400
		for i := range uint16(count) {
			left.send(udpFrame(t, netip.AddrPortFrom(client.Addr(), 1000+i), service, []byte("x")))
			if got := right.recv(service.Port(), 3*time.Second); got == nil || got[0] != 0xfe {
				t.Fatalf("packet %d: got %x", i, got)
			}
		}
		a, b := workers[0].moved.Load(), workers[1].moved.Load()
		if a+b != count {
			t.Errorf("workers moved %d and %d packets, want %d together", a, b, count)
		}
		// In generic mode the kernel takes what veth left in skb->queue_mapping for a recorded receive queue, which counts
		// from one: both queues of the sender arrive as queue 0.
		if o.Mode == xdp.ModeNative && (a == 0 || b == 0) {
			t.Errorf("workers moved %d and %d packets, want some by each", a, b)
		}
	})
}

// TestUnevenQueues has one worker own both queues of one interface and the only one of the other.
func TestUnevenQueues(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 2, 1)
		s, _ := n.open(t, o, rules)
		if len(s.Ports) != 1 {
			t.Fatalf("%d workers, want 1", len(s.Ports))
		}
		startForwarders(t, s)
		left, right := newWire(t, n.left, "eth0"), newWire(t, n.right, "eth0")
		for i := range uint16(100) {
			left.send(udpFrame(t, netip.AddrPortFrom(client.Addr(), 1000+i), service, []byte("x")))
			if got := right.recv(service.Port(), 3*time.Second); got == nil || got[0] != 0xfe {
				t.Fatalf("packet %d: got %x", i, got)
			}
		}
		st := s.Ports[0].Stats()
		if st[0].RxPackets+st[1].RxPackets != 100 || st[2].TxPackets != 100 {
			t.Errorf("sockets' counters %+v", st)
		}
		if o.Mode == xdp.ModeNative && (st[0].RxPackets == 0 || st[1].RxPackets == 0) {
			t.Errorf("one queue got nothing: %+v", st[:2])
		}
	})
}

// TestStorm floods the gateway and then counts frames (in finish).
func TestStorm(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 1)
		o.Ring = 64
		s, _ := n.open(t, o, rules)
		workers := startForwarders(t, s)
		left := newWire(t, n.left, "eth0")
		frame := udpFrame(t, client, service, make([]byte, 200))
		for range 20_000 {
			left.send(frame)
		}
		waitFor(t, "the storm to pass", func() bool {
			before := workers[0].moved.Load()
			time.Sleep(50 * time.Millisecond)
			return workers[0].moved.Load() == before
		})
		workers[0].finish(t)
		for range 100 { // what is still in flight comes back
			check(t, workers[0].port.Flush())
			if a, err := workers[0].port.Audit(); err == nil && a.Tx == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		a, err := workers[0].port.Audit()
		if err != nil || a.Tx != 0 {
			t.Errorf("after the storm: %+v, %v", a, err)
		}
		if moved := workers[0].moved.Load(); moved < 1000 {
			t.Errorf("only %d packets went through", moved)
		}
	})
}

// waitFor polls until cond holds.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !cond(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestLinkDown takes the way out down while packets go there, and up again.
func TestLinkDown(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 1)
		o.Ring = 64
		s, _ := n.open(t, o, rules)
		workers := startForwarders(t, s)
		left, right := newWire(t, n.left, "eth0"), newWire(t, n.right, "eth0")
		frame := udpFrame(t, client, service, []byte("x"))

		check(t, n.gw.Down("right"))
		for range 200 {
			left.send(frame)
		}
		waitFor(t, "the failed kicks and the full ring to be counted", func() bool {
			left.send(frame)
			st := s.Ports[0].Stats()[1]
			return st.KickErrs > 0 && st.TxFull > 0 && workers[0].lost.Load() > 0
		})
		check(t, n.gw.Up("right"))
		waitFor(t, "packets to go through again", func() bool {
			left.send(frame)
			got := right.recv(service.Port(), 50*time.Millisecond)
			return got != nil && got[0] == 0xfe
		})
	})
}

// TestInterfaceGone deletes an interface under the sockets: the worker goes on with the other one.
func TestInterfaceGone(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 1)
		s, _ := n.open(t, o, rules)
		workers := startForwarders(t, s)
		left := newWire(t, n.left, "eth0")
		gone, err := n.gw.Netlink().LinkByName("right")
		check(t, err)
		check(t, n.gw.Netlink().LinkDel(gone))
		waitFor(t, "packets to be received and refused", func() bool {
			left.send(udpFrame(t, client, service, []byte("x")))
			return workers[0].moved.Load() > 10 && s.Ports[0].Stats()[1].KickErrs > 0
		})
	})
}

// TestForeignProgram checks that a program which is attached already is named and left alone.
func TestForeignProgram(t *testing.T) {
	n := newNetwork(t, 1)
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "somebody_elses", Type: ebpf.XDP, License: "GPL",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()}})
	check(t, err)
	defer prog.Close()
	for _, mode := range []xdp.Mode{xdp.ModeAuto, xdp.ModeNative, xdp.ModeGeneric} {
		t.Run(string(mode), func(t *testing.T) {
			check(t, n.gw.Do(func() error { return refuseForeign(t, prog, mode) }))
		})
	}
}

// refuseForeign attaches prog to the interface right and wants Attach to leave it alone. It runs off the test's goroutine,
// and so returns what ends the test.
func refuseForeign(t *testing.T, prog *ebpf.Program, mode xdp.Mode) error {
	right, err := netlink.LinkByName("right")
	if err != nil {
		return err
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: right.Attrs().Index})
	if err != nil {
		return err
	}
	defer l.Close()
	s, err := xdp.Open(xdp.Options{Interfaces: []string{"left", "right"}, Mode: mode})
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = xdp.Attach(s, rules)
	if err == nil || !strings.Contains(err.Error(), "somebody_elses") || !strings.Contains(err.Error(), "interface right") {
		t.Errorf("got %v, want an error that names the program and the interface", err)
	}
	for name, want := range map[string]bool{"left": false, "right": true} {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if x := l.Attrs().Xdp; (x != nil && x.Attached) != want {
			t.Errorf("interface %s: program attached %v, want %v", name, !want, want)
		}
	}
	return nil
}

// TestReopen checks that the queues can be taken again right after Close, though the kernel frees them with a delay.
func TestReopen(t *testing.T) {
	n := newNetwork(t, 2)
	check(t, n.gw.Do(func() error {
		for range 3 {
			s, err := xdp.Open(xdp.Options{Interfaces: []string{"left", "right"}, Ring: 64})
			if err != nil {
				return err
			}
			a, err := xdp.Attach(s, rules)
			if err != nil {
				return err
			}
			if err := errors.Join(a.Close(), s.Close(), a.Close(), s.Close()); err != nil {
				return err
			}
		}
		return nil
	}))
}

// TestOpenErrors checks that what cannot work is said in words that help.
func TestOpenErrors(t *testing.T) {
	n := newNetwork(t, 2)
	big, err := n.gw.Netlink().LinkByName("right")
	check(t, err)
	check(t, n.gw.Netlink().LinkSetMTU(big, 9000))
	for _, tc := range []struct {
		name string
		o    xdp.Options
		want string
	}{
		{"no interface", xdp.Options{}, "no interface"},
		{"unknown interface", xdp.Options{Interfaces: []string{"eth7"}}, "interface eth7"},
		{"loopback", xdp.Options{Interfaces: []string{"lo"}}, "interface lo"},
		{"fewer queues than the interface has", xdp.Options{Interfaces: []string{"left"}, Queues: 1}, "ethtool -L left combined 1"},
		{"more queues than the interface has", xdp.Options{Interfaces: []string{"left"}, Queues: 3}, "has 2 queues"},
		{"MTU too large", xdp.Options{Interfaces: []string{"left", "right"}}, "interface right has an MTU of 9000"},
		{"unknown driver", xdp.Options{Interfaces: []string{"left"}, Driver: "dpdk"}, `driver "dpdk"`},
		{"ring size", xdp.Options{Interfaces: []string{"left"}, Ring: 100}, "ring of 100 entries"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			check(t, n.gw.Do(func() error {
				s, err := xdp.Open(tc.o)
				if err == nil {
					s.Close()
				}
				if err == nil || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %q in it", err, tc.want)
				}
				return nil
			}))
		})
	}
}

// TestWorkerNoAllocation runs batches in and out of real sockets.
func TestWorkerNoAllocation(t *testing.T) {
	eachSetup(t, func(t *testing.T, o xdp.Options) {
		n := newNetwork(t, 1)
		s, _ := n.open(t, o, rules)
		p, left := s.Ports[0], newWire(t, n.left, "eth0")
		frames, frame := make([]xdp.Frame, 8), udpFrame(t, client, service, []byte("x"))
		moved := 0
		allocs := testing.AllocsPerRun(50, func() {
			left.send(frame)
			check(t, p.Wait(time.Second))
			got := p.Receive(frames)
			moved += p.Transmit(1, frames[:got])
			check(t, p.Flush())
		})
		if allocs != 0 || moved < 50 {
			t.Errorf("%v allocations a batch over %d packets", allocs, moved)
		}
	})
}
