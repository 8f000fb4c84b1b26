package dns

import (
	"net"
	"net/netip"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// listenConfig returns a ListenConfig that sets the options of each socket before it is bound.
func listenConfig(options func(fd int, network string) error) *net.ListenConfig {
	return &net.ListenConfig{Control: func(network, _ string, c syscall.RawConn) error {
		var err error
		if outer := c.Control(func(fd uintptr) { err = options(int(fd), network) }); outer != nil {
			return outer
		}
		return err
	}}
}

// freeBind lets a socket have an address that no interface has, if that is asked for.
func (o *Options) freeBind(fd int, network string) error {
	switch {
	case !o.FreeBind:
		return nil
	case strings.HasSuffix(network, "4"):
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_FREEBIND, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 1)
}

// dialer sends UDP from an address.
func dialer(source netip.Addr) *net.Dialer {
	return &net.Dialer{LocalAddr: net.UDPAddrFromAddrPort(netip.AddrPortFrom(source, 0))}
}
