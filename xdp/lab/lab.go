// Package lab builds small networks out of network namespaces on this machine: hosts, veth links between them, bridges,
// addresses and routes. The demo, the end-to-end tests and the benchmarks run in them.
//
// The namespaces have no name and are held only by file descriptors, so they vanish with all that is in them when the
// process ends, however it ends; nothing is left to clean up after a crash. No namespace gets a route out of the lab.
package lab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Lab owns a set of hosts.
type Lab struct {
	hosts []*Host
}

// New returns an empty lab. Building namespaces needs root (CAP_SYS_ADMIN and CAP_NET_ADMIN).
func New() *Lab { return &Lab{} }

// Close gives back every host. Processes that still run in one keep it alive until they end.
func (l *Lab) Close() error {
	var errs []error
	for _, h := range l.hosts {
		h.nl.Close()
		errs = append(errs, h.ns.Close())
	}
	l.hosts = nil
	return errors.Join(errs...)
}

// Host is one network namespace with loopback up.
//
// Concurrency: the methods may be called from any goroutine.
type Host struct {
	Name string
	ns   netns.NsHandle
	nl   *netlink.Handle
}

// Host adds a namespace. name is for messages only.
func (l *Lab) Host(name string) (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("network namespace for %s: %w", name, err)
	}
	nl, err := netlink.NewHandleAt(ns)
	if err != nil {
		ns.Close()
		return nil, fmt.Errorf("netlink in the namespace of %s: %w", name, err)
	}
	h := &Host{Name: name, ns: ns, nl: nl}
	l.hosts = append(l.hosts, h)
	if err := h.Up("lo"); err != nil {
		return nil, err
	}
	// Addresses are set by hand: no router discovery, and duplicate address detection would only delay them.
	return h, h.Sysctl(map[string]string{
		"net/ipv6/conf/all/accept_ra":      "0",
		"net/ipv6/conf/default/accept_ra":  "0",
		"net/ipv6/conf/default/accept_dad": "0",
	})
}

// newNamespace makes a namespace on a thread of its own, so that the caller's thread never leaves where it is.
func newNamespace() (netns.NsHandle, error) {
	type result struct {
		ns  netns.NsHandle
		err error
	}
	done := make(chan result)
	go func() {
		runtime.LockOSThread() // not unlocked: the thread ends with the goroutine, and its namespace with it
		ns, err := netns.New()
		done <- result{ns, err}
	}()
	r := <-done
	return r.ns, r.err
}

// Do calls f on a thread that is in the namespace of h. What f opens (sockets, processes, netlink handles) belongs to that
// namespace; goroutines that f starts do not run in it.
func (h *Host) Do(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // not unlocked, as in newNamespace
		if err := netns.Set(h.ns); err != nil {
			done <- fmt.Errorf("entering the namespace of %s: %w", h.Name, err)
			return
		}
		done <- f()
	}()
	return <-done
}

// Sysctl writes kernel settings, given as paths under /proc/sys, in the namespace of h.
func (h *Host) Sysctl(settings map[string]string) error {
	return h.Do(func() error {
		var errs []error
		for key, value := range settings {
			// thread-self: /proc/sys/net shows the namespace of the thread that opens it.
			errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0o644))
		}
		return errors.Join(errs...)
	})
}

// Netlink returns the handle through which links, addresses and routes of h can be changed further.
func (h *Host) Netlink() *netlink.Handle { return h.nl }

// Up brings an interface up.
func (h *Host) Up(name string) error {
	link, err := h.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: interface %s: %w", h.Name, name, err)
	}
	if err := h.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: interface %s up: %w", h.Name, name, err)
	}
	return nil
}

// Down takes an interface down.
func (h *Host) Down(name string) error {
	link, err := h.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: interface %s: %w", h.Name, name, err)
	}
	return h.nl.LinkSetDown(link)
}

// Addr gives an interface addresses, such as "198.18.0.1/24". IPv6 addresses are usable at once.
func (h *Host) Addr(name string, prefixes ...string) error {
	link, err := h.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("%s: interface %s: %w", h.Name, name, err)
	}
	for _, p := range prefixes {
		addr, err := netlink.ParseAddr(p)
		if err != nil {
			return fmt.Errorf("address %q: %w", p, err)
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := h.nl.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("%s: address %s on %s: %w", h.Name, p, name, err)
		}
	}
	return nil
}

// Route adds a route to prefix by way of a neighbour.
func (h *Host) Route(prefix, via string) error {
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return fmt.Errorf("route %q: %w", prefix, err)
	}
	gw, err := netip.ParseAddr(via)
	if err != nil {
		return fmt.Errorf("next hop %q: %w", via, err)
	}
	if err := h.nl.RouteAdd(&netlink.Route{Dst: ipNet(p), Gw: gw.AsSlice()}); err != nil {
		return fmt.Errorf("%s: route %s via %s: %w", h.Name, prefix, via, err)
	}
	return nil
}
