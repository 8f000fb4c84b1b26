package nat

import (
	"strings"

	"sluice/xdp/packet"
)

// Origin is what is known of where a packet comes from besides its source address. The zero value is a packet that came
// in on an interface of no special meaning.
type Origin struct {
	FromNode     bool // a process of the gateway itself has sent it
	PodInterface bool // it came in on an interface behind which pods are (IsPodInterface)
}

// Source says what the source of a packet counts as in the rules of services.
type Source uint8

// The classes of sources.
const (
	Outside        Source = iota // anything else: clients outside the cluster, other nodes
	PodByAddress                 // in gateway.pod_cidrs
	PodByInterface               // came in on one of gateway.pod_interfaces
	Node                         // an address, or a process, of the gateway itself
)

// isPod reports whether s is a pod, however it was told.
func (s Source) isPod() bool { return s == PodByAddress || s == PodByInterface }

// String returns "outside", "pod" or "node".
func (s Source) String() string {
	switch s {
	case PodByAddress, PodByInterface:
		return "pod"
	case Node:
		return "node"
	}
	return "outside"
}

// sourceOf classifies the source of a packet. Pods come first, as in kube-proxy: an address of the gateway inside
// pod_cidrs (that of a bridge) is reached by pods' replies like a pod. What a process of the gateway sends has come in on
// no interface.
func (t *Table) sourceOf(src packet.Addr, from Origin) Source {
	if t.pods.contains(src) {
		return PodByAddress
	}
	if _, own := t.local[src]; own || from.FromNode {
		return Node
	}
	if from.PodInterface {
		return PodByInterface
	}
	return Outside
}

// tellsPods reports whether there is a way to tell pods of family f from others (kube-proxy's local traffic detector).
func (t *Table) tellsPods(f family) bool {
	return len(t.pods[f]) > 0 || len(t.gateway.PodInterfaces) > 0
}

// IsPodInterface reports whether pods are behind the interface of this name: gateway.pod_interfaces has it, or a pattern
// that ends in * and starts like it. A pattern without an interface is no fault: the interface may come later.
func (t *Table) IsPodInterface(name string) bool {
	for _, pattern := range t.gateway.PodInterfaces {
		if start, any := strings.CutSuffix(pattern, "*"); pattern == name || any && strings.HasPrefix(name, start) {
			return true
		}
	}
	return false
}
