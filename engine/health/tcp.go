package health

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// tcpChecker is well when a connection can be opened.
type tcpChecker struct{ dialer *dialer }

// Check implements Checker.
func (c tcpChecker) Check(ctx context.Context, t *Target) error {
	conn, err := c.dialer.DialContext(ctx, "tcp", t.Address.String())
	if err != nil {
		return plain(err)
	}
	// Closed with a reset: a connection that was opened for nothing else leaves no TIME_WAIT behind on either side. Where
	// that cannot be asked for, it is closed in the ordinary way.
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return conn.Close()
}

// plain puts the usual failures of a connection in few words; others stay as they are.
func plain(err error) error {
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("connection refused")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("timeout")
	case errors.Is(err, syscall.EHOSTUNREACH):
		return errors.New("no route to host, or it does not answer ARP or neighbour discovery")
	case errors.Is(err, syscall.ECONNRESET):
		return errors.New("connection reset")
	}
	return err
}
