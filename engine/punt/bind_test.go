package punt_test

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// bindToDevice is a net.ListenConfig.Control that ties the socket to an interface.
func bindToDevice(name string) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var inner error
		if err := c.Control(func(fd uintptr) { inner = unix.BindToDevice(int(fd), name) }); err != nil {
			return err
		}
		return inner
	}
}
