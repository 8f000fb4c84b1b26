package fib

import "sluice/xdp/packet"

// State says what can be done with a packet for a destination. The zero value is NoRoute.
type State uint8

const (
	// NoRoute means that no route leads there, or a blackhole, unreachable or prohibit route, or one whose links are down.
	NoRoute State = iota
	// Ready means that the packet can be sent with the link-layer addresses of the NextHop.
	Ready
	// Incomplete means that the neighbour's link-layer address is not known (yet): hold the packet and call Resolve.
	Incomplete
	// Local means that the address is this machine's own, or a broadcast address.
	Local
	// NotAttached means that the way out is an interface which is not among the attached ones.
	NotAttached
)

// String returns the state in lower case.
func (s State) String() string {
	switch s {
	case NoRoute:
		return "no route"
	case Ready:
		return "ready"
	case Incomplete:
		return "incomplete"
	case Local:
		return "local"
	case NotAttached:
		return "not attached"
	}
	return "unknown"
}

// NextHop is the way out for a destination. It is comparable.
type NextHop struct {
	State State
	// Failed is set with Incomplete when the kernel asked for the neighbour in vain. Resolve makes it ask again.
	Failed bool
	// VLAN is the 802.1Q tag to send with, 0 for none. It is set when the route leads out of a VLAN device on top of an
	// attached interface.
	VLAN uint16
	// SrcMAC and DstMAC are the addresses of the Ethernet header. DstMAC is valid iff Ready; SrcMAC also when Incomplete.
	SrcMAC, DstMAC [6]byte
	// Iface is the index of the attached interface to send from, in the order given to the Watcher; -1 unless Ready or
	// Incomplete.
	Iface int
	// MTU is the largest size of an IP packet on the way out, in bytes, without the Ethernet header.
	MTU int
	// Gateway is the neighbour that the packet is sent to: a router, or the destination itself. It may be an IPv6 address
	// for an IPv4 destination. Valid iff Ready or Incomplete.
	Gateway packet.Addr
	// Link is the kernel's index of the device that Gateway is a neighbour on; that of the VLAN device, if there is one.
	Link int
}
