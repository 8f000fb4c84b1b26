package xdp

import (
	"errors"
	"fmt"

	"github.com/vishvananda/netlink"
)

// lookupInterfaces finds the named interfaces in the network namespace of the calling thread.
func lookupInterfaces(names []string) ([]Interface, error) {
	if len(names) == 0 {
		return nil, errors.New("no interface to attach to")
	}
	out := make([]Interface, 0, len(names))
	for _, name := range names {
		iface, err := lookupInterface(name)
		if err != nil {
			return nil, fmt.Errorf("interface %s: %w", name, err)
		}
		out = append(out, iface)
	}
	return out, nil
}

func lookupInterface(name string) (Interface, error) {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return Interface{}, err
	}
	attrs := link.Attrs()
	if link.Type() == "bond" {
		return Interface{}, errors.New("is a bond, on which AF_XDP receives nothing: name its members instead")
	}
	if len(attrs.HardwareAddr) != 6 {
		return Interface{}, fmt.Errorf("has no Ethernet address (link type %s)", attrs.EncapType)
	}
	return Interface{
		Name: attrs.Name, Index: attrs.Index, MAC: [6]byte(attrs.HardwareAddr), MTU: attrs.MTU, Queues: queueCount(attrs),
	}, nil
}

// queueCount returns how many receive queues an interface uses. Drivers without channels answer EOPNOTSUPP: then every
// queue that was allocated counts.
func queueCount(attrs *netlink.LinkAttrs) int {
	if ch, err := channels(attrs.Name); err == nil {
		if n := int(ch.rxCount + ch.combinedN); n > 0 {
			return n
		}
	}
	return max(attrs.NumRxQueues, 1)
}

// plan says which (interface, queue) pairs each worker owns. There are as many workers as the interface with the fewest
// queues has, and worker w owns the queues q with q modulo workers = w.
func plan(ifaces []Interface) [][]queueID {
	workers := ifaces[0].Queues
	for i := range ifaces {
		workers = min(workers, ifaces[i].Queues)
	}
	out := make([][]queueID, workers)
	for i := range ifaces {
		for q := range ifaces[i].Queues {
			out[q%workers] = append(out[q%workers], queueID{i, q})
		}
	}
	return out
}

// queueID names a receive queue: the index of its interface, and its number there.
type queueID struct{ iface, queue int }

// checkQueues refuses a number of queues that would leave some of an interface without a socket.
func checkQueues(ifaces []Interface, want int) error {
	if want == 0 {
		return nil
	}
	for _, iface := range ifaces {
		if iface.Queues > want {
			return fmt.Errorf("interface %s receives on %d queues and %d are to be served, so that packets on the others "+
				"would be lost: set them with ethtool -L %s combined %d, or queues = 0",
				iface.Name, iface.Queues, want, iface.Name, want)
		}
		if iface.Queues < want {
			return fmt.Errorf("interface %s has %d queues, %d are to be served: lower queues, or raise them with ethtool -L",
				iface.Name, iface.Queues, want)
		}
	}
	return nil
}

// overhead is what an Ethernet header with two VLAN tags adds to the MTU.
const overhead = 14 + 2*4

// chunkSize returns the size of chunk that holds a packet of every interface behind the kernel's headroom and ours. The
// kernel takes 2048 and 4096 (page size).
func chunkSize(ifaces []Interface) (int, error) {
	for _, size := range []int{2048, 4096} {
		if largest := size - kernelHeadroom - Headroom - overhead; fits(ifaces, largest) == nil {
			return size, nil
		}
	}
	const largest = 4096 - kernelHeadroom - Headroom - overhead
	worst := fits(ifaces, largest)
	return 0, fmt.Errorf("interface %s has an MTU of %d: AF_XDP takes up to %d (ip link set dev %s mtu %d)",
		worst.Name, worst.MTU, largest, worst.Name, largest)
}

// fits returns the first interface whose MTU is above largest, nil when there is none.
func fits(ifaces []Interface, largest int) *Interface {
	for i := range ifaces {
		if ifaces[i].MTU > largest {
			return &ifaces[i]
		}
	}
	return nil
}
