package xdp

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// poller sleeps until one of a worker's sockets is readable or somebody wakes it.
type poller struct {
	fds  []unix.PollFd // the sockets, and last the eventfd
	mu   sync.Mutex    // guards event against Wake after Close: the number could be somebody else's by then
	open bool
}

// newPoller watches the given sockets.
func newPoller(sockets []int) (*poller, error) {
	event, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	p := &poller{open: true}
	for _, fd := range sockets {
		p.fds = append(p.fds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	p.fds = append(p.fds, unix.PollFd{Fd: int32(event), Events: unix.POLLIN})
	return p, nil
}

// wait sleeps for at most d.
func (p *poller) wait(d time.Duration) error {
	ts := unix.NsecToTimespec(max(d, 0).Nanoseconds())
	n, err := unix.Ppoll(p.fds, &ts, nil)
	if err == unix.EINTR || err == unix.EAGAIN || n == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("poll: %w", err)
	}
	event := &p.fds[len(p.fds)-1]
	if event.Revents&unix.POLLIN != 0 {
		var buf [8]byte
		if _, err := unix.Read(int(event.Fd), buf[:]); err != nil && err != unix.EAGAIN && err != unix.EINTR {
			return fmt.Errorf("eventfd: %w", err)
		}
	}
	p.dropDead()
	return nil
}

// dropDead stops watching sockets whose interface is gone: they would end every wait at once.
func (p *poller) dropDead() {
	for i := range p.fds[:len(p.fds)-1] {
		if fd := &p.fds[i]; fd.Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 && fd.Revents&unix.POLLIN == 0 {
			fd.Fd = -1 // poll skips negative descriptors
		}
	}
}

// wake ends a wait, or the next one.
func (p *poller) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return
	}
	one := [8]byte{1} // a number in the machine's order; any but zero and the largest will do
	// The only error is EAGAIN: the counter is at its largest, and so the wait ends anyway.
	_, _ = unix.Write(int(p.fds[len(p.fds)-1].Fd), one[:])
}

// close gives back the eventfd.
func (p *poller) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.open {
		return nil
	}
	p.open = false
	return unix.Close(int(p.fds[len(p.fds)-1].Fd))
}
