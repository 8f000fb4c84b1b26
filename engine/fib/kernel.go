package fib

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// kernel reads routing state by netlink, in the network namespace in which it was opened.
type kernel struct {
	handle *netlink.Handle
}

// retry repeats a dump that a concurrent change has interrupted, a few times.
func retry[T any](dump func() (T, error)) (out T, err error) {
	for range 5 {
		if out, err = dump(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return out, err
}

// links returns all devices by index.
func (k kernel) links() (map[int]link, error) {
	list, err := retry(k.handle.LinkList)
	if err != nil {
		return nil, fmt.Errorf("reading links: %w", err)
	}
	out := make(map[int]link, len(list))
	for _, l := range list {
		a := l.Attrs()
		n := link{mtu: a.MTU, up: a.Flags&net.FlagUp != 0, parent: a.ParentIndex}
		copy(n.mac[:], a.HardwareAddr)
		if v, ok := l.(*netlink.Vlan); ok && v.VlanProtocol != netlink.VLAN_PROTOCOL_8021AD {
			n.vlan = uint16(v.VlanId)
		}
		out[a.Index] = n
	}
	return out, nil
}

// routes returns the routes of the tables main and local.
func (k kernel) routes() ([]route, error) {
	var out []route
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		all := &netlink.Route{Table: unix.RT_TABLE_UNSPEC}
		list, err := retry(func() ([]netlink.Route, error) {
			return k.handle.RouteListFiltered(family, all, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, fmt.Errorf("reading routes: %w", err)
		}
		for i := range list {
			if r, ok := convertRoute(&list[i]); ok {
				out = append(out, r)
			}
		}
	}
	return out, nil
}

// convertRoute returns a route in plain types; ok is false for one that says nothing about where packets go.
func convertRoute(in *netlink.Route) (out route, ok bool) {
	if in.Table != unix.RT_TABLE_MAIN && in.Table != unix.RT_TABLE_LOCAL || in.Tos != 0 {
		return out, false
	}
	if out.prefix, ok = prefixOf(in); !ok || out.prefix.Addr().IsLinkLocalUnicast() && out.prefix.Bits() < 128 {
		return out, false // link-local networks are on every link; nothing is routed to them
	}
	out.metric, out.mtu = in.Priority, in.MTU
	switch in.Type {
	case unix.RTN_UNICAST:
		out.paths, ok = pathsOf(in)
		if !ok {
			out.kind = unreachable
		}
	case unix.RTN_LOCAL, unix.RTN_BROADCAST, unix.RTN_ANYCAST:
		out.kind = local
	case unix.RTN_BLACKHOLE, unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT:
		out.kind = unreachable
	default:
		return out, false
	}
	return out, true
}

// prefixOf returns the destination of a route.
func prefixOf(in *netlink.Route) (netip.Prefix, bool) {
	if in.Dst == nil {
		if in.Family == netlink.FAMILY_V6 {
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0), true
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0), in.Family == netlink.FAMILY_V4
	}
	a, ok := netip.AddrFromSlice(in.Dst.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	if in.Family == netlink.FAMILY_V4 {
		a = a.Unmap()
	}
	bits, _ := in.Dst.Mask.Size()
	return netip.PrefixFrom(a, bits), true
}

// pathsOf returns the ways of a unicast route; ok is false when one is encapsulated, which we cannot do.
func pathsOf(in *netlink.Route) (out []path, ok bool) {
	if len(in.MultiPath) == 0 {
		if in.Encap != nil {
			return nil, false
		}
		return []path{newPath(in.LinkIndex, in.Gw, in.Via, in.Flags)}, true
	}
	for _, p := range in.MultiPath {
		if p.Encap != nil {
			return nil, false
		}
		out = append(out, newPath(p.LinkIndex, p.Gw, p.Via, p.Flags))
	}
	return out, true
}

func newPath(index int, gw net.IP, via netlink.Destination, flags int) path {
	p := path{link: index, dead: flags&unix.RTNH_F_DEAD != 0, down: flags&unix.RTNH_F_LINKDOWN != 0}
	if v, ok := via.(*netlink.Via); ok {
		gw = v.Addr
	}
	if a, ok := netip.AddrFromSlice(gw); ok {
		p.gateway = a.Unmap()
	}
	return p
}

// neighbours returns all neighbours, IPv4 and IPv6.
func (k kernel) neighbours() (map[neighbourKey]neighbour, error) {
	list, err := retry(func() ([]netlink.Neigh, error) { return k.handle.NeighList(0, 0) })
	if err != nil {
		return nil, fmt.Errorf("reading neighbours: %w", err)
	}
	out := make(map[neighbourKey]neighbour, len(list))
	for i := range list {
		if key, n, ok := convertNeighbour(&list[i]); ok {
			out[key] = n
		}
	}
	return out, nil
}

// usable are the states in which the kernel itself sends to the link-layer address that it has.
const usable = netlink.NUD_REACHABLE | netlink.NUD_STALE | netlink.NUD_DELAY | netlink.NUD_PROBE | fixed

// fixed are the states that are never probed.
const fixed = netlink.NUD_PERMANENT | netlink.NUD_NOARP

// convertNeighbour returns a neighbour in plain types; ok is false for entries of bridges and for multicast.
func convertNeighbour(in *netlink.Neigh) (key neighbourKey, n neighbour, ok bool) {
	a, ok := netip.AddrFromSlice(in.IP)
	if !ok || in.Family != netlink.FAMILY_V4 && in.Family != netlink.FAMILY_V6 || a.IsMulticast() {
		return key, n, false
	}
	n.valid = in.State&usable != 0 && len(in.HardwareAddr) == len(n.mac)
	n.failed = in.State&netlink.NUD_FAILED != 0
	n.fixed = in.State&fixed != 0
	if n.valid {
		copy(n.mac[:], in.HardwareAddr)
	}
	return neighbourKey{in.LinkIndex, a.Unmap()}, n, true
}

// use makes the kernel resolve a neighbour, or verify it unless it has done so lately: what it does for a packet of its own
// (NTF_USE). It returns at once.
func (k kernel) use(key neighbourKey) error {
	return k.handle.NeighSet(&netlink.Neigh{
		LinkIndex: key.link, IP: key.addr.AsSlice(), State: netlink.NUD_NONE, Flags: netlink.NTF_USE,
	})
}
