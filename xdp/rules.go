package xdp

import "net/netip"

// Rules says which packets are ours, as plain data. It is what the maps of the XDP program are filled from; everything that
// no rule names goes to the kernel. A Rules value is not changed once it has been handed on.
//
// A packet is ours when one of these holds:
//   - its destination is in Services (whatever protocol and port, fragments and ICMP included) or inside Ranges;
//   - its destination is in NodePortAddrs and its protocol and destination port are in NodePorts;
//   - its destination is in SNATAddrs, and its destination port (TCP, UDP, SCTP) or its identifier (ICMP echo reply) in SNATPorts;
//   - its source address, protocol and port are in Backends;
//   - it is an ICMP error whose quoted packet the gateway has sent: from a NodePort or an SNAT port of the address that the
//     error is sent to, or towards one of Backends.
//   - it is a fragment, whichever, to one of NodePortAddrs or SNATAddrs, or from the address of one of Backends: only the first
//     fragment of a datagram has ports, and what becomes of the others depends on it.
type Rules struct {
	Services      []netip.Addr   // ClusterIPs, load-balancer VIPs, external IPs
	Ranges        []netip.Prefix // service CIDRs: addresses in them that no service has are ours to drop
	NodePortAddrs []netip.Addr   // the node's own addresses on which NodePorts are served
	NodePorts     []ProtoPort
	SNATAddrs     []netip.Addr // source addresses of full NAT; replies come back to them
	SNATPorts     PortRange    // source ports of full NAT
	Backends      []Backend    // of services that preserve the client's source: their replies must be translated
}

// ProtoPort is a transport protocol (packet.ProtoTCP and so on) and a port.
type ProtoPort struct {
	Proto uint8
	Port  uint16
}

// PortRange is an inclusive range of ports. The zero value contains no usable port.
type PortRange struct{ First, Last uint16 }

// Contains reports whether p lies in the range; port 0 never does.
func (r PortRange) Contains(p uint16) bool { return p != 0 && r.First <= p && p <= r.Last }

// Backend is the transport address of an endpoint.
type Backend struct {
	Addr  netip.Addr
	Proto uint8
	Port  uint16
}
