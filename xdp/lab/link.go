package lab

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
)

// End is one end of a veth link: the host it belongs to and its name there.
type End struct {
	Host *Host
	Name string
}

// LinkOptions shapes a veth pair. The zero value gives one queue and an MTU of 1500.
type LinkOptions struct {
	Queues int // receive and transmit queues of both ends; 0 means 1
	MTU    int // 0 means 1500
}

// Link connects a and b by a veth pair and brings both ends up.
func (l *Lab) Link(a, b End, o LinkOptions) error {
	queues, mtu := max(o.Queues, 1), o.MTU
	if mtu == 0 {
		mtu = 1500
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues = a.Name, mtu, queues, queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU = b.Name, uint32(mtu)
	veth.PeerNumRxQueues, veth.PeerNumTxQueues = uint32(queues), uint32(queues)
	veth.PeerNamespace = netlink.NsFd(int(b.Host.ns))
	if err := a.Host.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("veth %s (%s) - %s (%s): %w", a.Name, a.Host.Name, b.Name, b.Host.Name, err)
	}
	if err := a.Host.Up(a.Name); err != nil {
		return err
	}
	return b.Host.Up(b.Name)
}

// Bridge makes an Ethernet switch of h: a bridge with the given interfaces as its ports.
func (h *Host) Bridge(name string, ports ...string) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	if err := h.nl.LinkAdd(bridge); err != nil {
		return fmt.Errorf("%s: bridge %s: %w", h.Name, name, err)
	}
	for _, p := range ports {
		link, err := h.nl.LinkByName(p)
		if err != nil {
			return fmt.Errorf("%s: bridge port %s: %w", h.Name, p, err)
		}
		if err := h.nl.LinkSetMaster(link, bridge); err != nil {
			return fmt.Errorf("%s: bridge port %s: %w", h.Name, p, err)
		}
	}
	return h.Up(name)
}

// ipNet converts a prefix to the form that netlink takes.
func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Masked().Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
