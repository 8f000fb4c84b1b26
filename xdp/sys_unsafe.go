package xdp

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file has the system calls for which x/sys has no typed form; nothing else in the package is unsafe. Each passes the
// kernel a pointer to a Go value for the time of the call only, converted to uintptr in the argument list itself, which
// keeps the value alive and in place (unsafe.Pointer, rule 4). The one address that the kernel keeps is that of the UMEM,
// which is mmapped and so never moved by the collector.

// registerUMEM hands mem, cut into chunks of size bytes, to the kernel as the packet memory of socket fd.
func registerUMEM(fd int, mem []byte, size, headroom int) error {
	reg := unix.XDPUmemReg{
		Addr:     uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))),
		Len:      uint64(len(mem)),
		Size:     uint32(size),
		Headroom: uint32(headroom),
	}
	_, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_UMEM_REG,
		uintptr(unsafe.Pointer(&reg)), unsafe.Sizeof(reg), 0)
	if errno != 0 {
		return fmt.Errorf("registering %d MiB of packet memory: %w", len(mem)>>20, errno)
	}
	return nil
}

// getsockopt reads the SOL_XDP option opt of fd into v.
func getsockopt[T unix.XDPMmapOffsets | unix.XDPStatistics | uint32](fd, opt int, v *T) error {
	size := uint32(unsafe.Sizeof(*v))
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(opt),
		uintptr(unsafe.Pointer(v)), uintptr(unsafe.Pointer(&size)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// kickTx tells the kernel to look at the TX ring of fd.
func kickTx(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// kickRx tells the kernel to look at the fill ring of fd.
func kickRx(fd int) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_RECVFROM, uintptr(fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	return errno
}

// ethtoolChannels is struct ethtool_channels.
type ethtoolChannels struct {
	cmd                                     uint32
	maxRx, maxTx, maxOther, maxCombined     uint32
	rxCount, txCount, otherCount, combinedN uint32
}

// ifreqData is struct ifreq with its pointer member.
type ifreqData struct {
	name [unix.IFNAMSIZ]byte
	data unsafe.Pointer
	_    [16]byte
}

// channels asks the driver of an interface how many queues are in use. The kernel looks the name up in the network
// namespace of the calling thread, unlike /sys/class/net, which shows the one in which sysfs was mounted.
func channels(name string) (ethtoolChannels, error) {
	ch := ethtoolChannels{cmd: unix.ETHTOOL_GCHANNELS}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return ch, fmt.Errorf("socket for ethtool: %w", err)
	}
	defer unix.Close(fd)
	req := ifreqData{data: unsafe.Pointer(&ch)}
	copy(req.name[:unix.IFNAMSIZ-1], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&req)))
	if errno != 0 {
		return ch, errno
	}
	return ch, nil
}
