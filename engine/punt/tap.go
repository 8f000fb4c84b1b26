package punt

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/xdp"
)

// tap is a TAP device whose frames come in on another interface.
type tap struct {
	fd   int
	name string
}

// queueLen is that of the other way, which nobody uses: whatever the kernel sends there is dropped.
const queueLen = 1

// openTap makes the device for an interface.
func openTap(i xdp.Interface) (*tap, error) {
	t := &tap{name: "slp" + strconv.Itoa(i.Index)}
	var err error
	if t.fd, err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w; load the kernel module tun (modprobe tun)", err)
	}
	if err := t.setUp(i); err != nil {
		return nil, errors.Join(fmt.Errorf("device %s: %w", t.name, err), t.close())
	}
	return t, nil
}

// close removes the device, which lives as long as its file.
func (t *tap) close() error { return unix.Close(t.fd) }

// setUp names and configures the device, brings it up and connects it to interface i.
func (t *tap) setUp(i xdp.Interface) error {
	req, err := unix.NewIfreq(t.name)
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR)
	if err := unix.IoctlIfreq(t.fd, unix.TUNSETIFF, req); err != nil {
		return fmt.Errorf("creating: %w", err)
	}
	// No address, no address resolution: the device must not take part in anything.
	if err := writeSysctl("net/ipv6/conf", t.name, "disable_ipv6", "1"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err // where IPv6 is not built in or off, the file is missing
	}
	link, err := netlink.LinkByName(t.name)
	if err != nil {
		return err
	}
	// The kernel compares the destination with this address to say whether a frame is for this host.
	mac := net.HardwareAddr(i.MAC[:])
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"address", func() error { return netlink.LinkSetHardwareAddr(link, mac) }},
		{"queue", func() error { return netlink.LinkSetTxQLen(link, queueLen) }},
		{"no ARP", func() error { return netlink.LinkSetARPOff(link) }},
		{"no multicast", func() error { return netlink.LinkSetMulticastOff(link) }},
		{"redirection", func() error { return redirect(link, i.Index) }},
		{"up", func() error { return netlink.LinkSetUp(link) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// writeSysctl writes a setting of a device, in the network namespace of the calling thread.
func writeSysctl(dir, device, key, value string) error {
	return os.WriteFile(filepath.Join("/proc/sys", dir, device, key), []byte(value), 0o644)
}

// redirect makes all that comes in on a device come in on the interface with the given index instead. The filter is u32
// with a match on nothing, which every kernel has; matchall is newer.
func redirect(from netlink.Link, to int) error {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: from.Attrs().Index, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(qdisc); err != nil {
		return fmt.Errorf("clsact: %w; load the kernel module sch_ingress (modprobe sch_ingress)", err)
	}
	action := netlink.NewMirredAction(to)
	action.MirredAction = netlink.TCA_INGRESS_REDIR
	filter := &netlink.U32{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: from.Attrs().Index, Parent: netlink.HANDLE_MIN_INGRESS, Priority: 1, Protocol: unix.ETH_P_ALL,
		},
		Actions: []netlink.Action{action},
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("filter: %w; load the kernel modules cls_u32 and act_mirred (modprobe -a cls_u32 act_mirred)", err)
	}
	return nil
}
