package dns

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has the system calls for which x/sys has no typed form; nothing else in the package is unsafe. Each passes the kernel a pointer
// to Go values for the time of the call only, converted to uintptr in the argument list itself, which keeps them alive (unsafe.Pointer, rule
// 4). The pointers in them are typed, and lead into the same batch.

// sockaddr returns a socket address as bytes for a message.
func sockaddr(a *unix.RawSockaddrInet6) *byte { return (*byte)(unsafe.Pointer(a)) }

// recvmmsg takes messages that have come, and does not wait.
func recvmmsg(fd uintptr, m []message) (n int, err error) {
	r, _, errno := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}

// sendmmsg sends messages, as many as the socket has room for. It fails if it takes none.
func sendmmsg(fd uintptr, m []message) (n int, err error) {
	r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(unsafe.SliceData(m))), uintptr(len(m)), unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(r), nil
}
