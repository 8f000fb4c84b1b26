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

// forwarder is the one worker of the AF_XDP contender.
type forwarder struct {
	port     xdp.Port
	src, dst [6]byte
	stop     chan struct{}
	done     chan error
}

func startAFXDP(b *Bed, mode xdp.Mode) (_ *traffic.Attachment, stop func() error, err error) {
	var sockets *xdp.Sockets
	var attachment *xdp.Attachment
	// In generic mode the kernel takes redirected frames on the front interface only when that polls by NAPI.
	gro := func(string) error { return nil }
	if mode == xdp.ModeGeneric {
		gro = func(on string) error { return b.run("ethtool", "-K", b.Front.Name, "gro", on) }
	}
	if err := gro("on"); err != nil {
		return nil, nil, err
	}
	err = b.Gateway.Do(func() error {
		var err error
		sockets, err = xdp.Open(xdp.Options{Interfaces: []string{b.Front.Name, b.Back.Name}, Mode: mode})
		if err != nil {
			return err
		}
		rules := &xdp.Rules{Ranges: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr(sinkAddr), 32)}}
		attachment, err = xdp.Attach(sockets, rules)
		return err
	})
	if err != nil {
		if sockets != nil {
			err = errors.Join(err, sockets.Close())
		}
		return nil, nil, err
	}
	f := &forwarder{port: sockets.Ports[0], src: b.Back.MAC, dst: b.sinkIf.MAC,
		stop: make(chan struct{}), done: make(chan error, 1)}
	go f.run()
	return nil, func() error {
		close(f.stop)
		f.port.Wake()
		return errors.Join(<-f.done, attachment.Close(), sockets.Close(), gro("off"))
	}, nil
}

// run forwards from interface 0 to interface 1 until stopped, on the first processor.
func (f *forwarder) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var set unix.CPUSet
	set.Set(0)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		f.done <- fmt.Errorf("pinning: %w", err)
		return
	}
	frames := make([]xdp.Frame, 64)
	for idle := 0; ; {
		select {
		case <-f.stop:
			f.done <- nil
			return
		default:
		}
		n := f.port.Receive(frames)
		f.forward(frames[:n])
		if err := f.port.Flush(); err != nil {
			f.done <- err
			return
		}
		if idle++; n > 0 {
			idle = 0
		}
		if idle > 64 {
			if err := f.port.Wait(10 * time.Millisecond); err != nil {
				f.done <- err
				return
			}
		}
	}
}

// forward sends frames out of interface 1; what the ring does not take is dropped.
func (f *forwarder) forward(frames []xdp.Frame) {
	for i := range frames {
		b := frames[i].Bytes()
		copy(b[0:6], f.dst[:])
		copy(b[6:12], f.src[:])
	}
	sent := f.port.Transmit(1, frames)
	f.port.Release(frames[sent:])
}
