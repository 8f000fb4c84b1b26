package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"sluice/bench/traffic"
	"sluice/xdp"
)

// AFXDP returns the contender that does the least that a userspace gateway can do: frames from one socket, new link-layer
// addresses, out of another, by the same driver that Sluice uses.
func AFXDP(mode xdp.Mode) Contender {
	return Contender{"afxdp-forward-" + string(mode), sinkAddr, func(b *Bed) (*traffic.Attachment, func() error, error) {
		return startAFXDP(b, mode)
	}}
}

func startAFXDP(b *Bed, mode xdp.Mode) (_ *traffic.Attachment, stop func() error, err error) {
	// In generic mode the kernel takes redirected frames on the front interface only when that polls by NAPI.
	gro := func(string) error { return nil }
	if mode == xdp.ModeGeneric {
		gro = func(on string) error { return b.run("ethtool", "-K", b.Front.Name, "gro", on) }
	}
	if err := gro("on"); err != nil {
		return nil, nil, err
	}
	end, err := b.bare(mode, sinkAddr, func(port xdp.Port) func([]xdp.Frame) {
		return func(frames []xdp.Frame) { forward(port, frames, b.Back.MAC, b.sinkIf.MAC) }
	})
	if err != nil {
		return nil, nil, err
	}
	return nil, func() error { return errors.Join(end(), gro("off")) }, nil
}

// forward sends frames out of interface 1; what the ring does not take is dropped.
func forward(port xdp.Port, frames []xdp.Frame, src, dst [6]byte) {
	for i := range frames {
		b := frames[i].Bytes()
		copy(b[0:6], dst[:])
		copy(b[6:12], src[:])
	}
	sent := port.Transmit(1, frames)
	port.Release(frames[sent:])
}

// bare runs what handle makes of the frames that come to an address, in a worker that does nothing else.
func (b *Bed) bare(mode xdp.Mode, to string, handle func(xdp.Port) func([]xdp.Frame)) (stop func() error, err error) {
	var sockets *xdp.Sockets
	var attachment *xdp.Attachment
	err = b.Gateway.Do(func() error {
		var err error
		sockets, err = xdp.Open(xdp.Options{Interfaces: []string{b.Front.Name, b.Back.Name}, Mode: mode})
		if err != nil {
			return err
		}
		rules := &xdp.Rules{Ranges: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(to), 32)}}
		attachment, err = xdp.Attach(sockets, rules)
		return err
	})
	if err != nil {
		if sockets != nil {
			err = errors.Join(err, sockets.Close())
		}
		return nil, err
	}
	w := &bareWorker{port: sockets.Ports[0], handle: handle(sockets.Ports[0]), stop: make(chan struct{}), done: make(chan error, 1)}
	go w.run()
	return func() error {
		close(w.stop)
		w.port.Wake()
		return errors.Join(<-w.done, attachment.Close(), sockets.Close())
	}, nil
}

// bareWorker is the one worker of an AF_XDP contender.
type bareWorker struct {
	port   xdp.Port
	handle func([]xdp.Frame)
	stop   chan struct{}
	done   chan error
}

// run handles frames until stopped, on the first processor. It waits as Sluice's workers do.
func (w *bareWorker) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set unix.CPUSet
	set.Set(0)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		w.done <- fmt.Errorf("pinning: %w", err)
		return
	}
	frames := make([]xdp.Frame, 64)
	for idle := 0; ; {
		select {
		case <-w.stop:
			w.done <- nil
			return
		default:
		}
		n := w.port.Receive(frames)
		if n > 0 {
			w.handle(frames[:n])
		}
		if err := w.port.Flush(); err != nil {
			w.done <- err
			return
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle > 64 {
			if err := w.port.Wait(10 * time.Millisecond); err != nil {
				w.done <- err
				return
			}
			idle = 0
		}
	}
}
