package health

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"syscall"

	"sluice/config/topology"
)

// dialer opens connections whose source port lies in a range, so that the replies to checks do not look like replies to
// translated flows, whose source ports are those of gateway.snat_ports: they would take the way through the fast path, and
// a check could even collide with a flow to the same backend.
//
// The port is bound explicitly: the kernel's IP_LOCAL_PORT_RANGE only narrows ip_local_port_range, which is the SNAT range
// by default.
type dialer struct {
	net.Dialer
	ports topology.PortRange // zero: any port
}

// bindAttempts is how many random ports are tried before giving up: a port may be in use, and with half of the range in use
// one check in a million finds none.
const bindAttempts = 20

// DialContext connects as net.Dialer does.
func (d *dialer) DialContext(ctx context.Context, network, address string) (conn net.Conn, err error) {
	if d.ports == (topology.PortRange{}) {
		return d.Dialer.DialContext(ctx, network, address)
	}
	for range bindAttempts {
		try := d.Dialer
		try.Control = shareSourcePort
		try.LocalAddr = &net.TCPAddr{Port: int(d.ports.First) + rand.IntN(int(d.ports.Last-d.ports.First)+1)}
		conn, err = try.DialContext(ctx, network, address)
		// EADDRNOTAVAIL is the same for a port whose connection to this very address is still in TIME_WAIT.
		if !errors.Is(err, syscall.EADDRINUSE) && !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return conn, err
		}
	}
	return nil, err
}

// shareSourcePort lets connections to different endpoints have one source port: without it a port would be taken for all of
// them for as long as one connection is in use or in TIME_WAIT, and checks of well endpoints would fail for want of ports.
func shareSourcePort(_, _ string, c syscall.RawConn) (err error) {
	if outer := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	}); outer != nil {
		return outer
	}
	return err
}

// Bounds of OutsidePorts: ports below the first are the well-known ones, and a range of fewer than enough would run dry.
const (
	firstUnprivileged = 1024
	enough            = 1024
)

// OutsidePorts returns a range of ports outside the taken ones to send checks from: the highest with at least a thousand, where
// servers are least likely, or else the largest. ok is false when all are taken.
func OutsidePorts(taken ...topology.PortRange) (best topology.PortRange, ok bool) {
	size := 0
	for first := firstUnprivileged; first <= 65535; {
		last, next := gap(first, taken)
		if n := last - first + 1; n >= enough || n > size {
			best, size = topology.PortRange{First: uint16(first), Last: uint16(last)}, n
		}
		first = next
	}
	return best, size > 0
}

// gap returns the last port of the free range that starts at first, first-1 if there is none, and where to look next.
func gap(first int, taken []topology.PortRange) (last, next int) {
	last = 65535
	for _, t := range taken {
		if int(t.First) <= first && first <= int(t.Last) {
			return first - 1, int(t.Last) + 1
		}
		if int(t.First) > first {
			last = min(last, int(t.First)-1)
		}
	}
	return last, last + 1
}
