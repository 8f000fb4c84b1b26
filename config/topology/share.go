package topology

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
)

// sharer gives equal maps one memory. Pods and endpoints have few different ones, and a map takes more memory than all else of a pod
// does. That is safe since a topology does not change once it is resolved.
type sharer struct {
	labels map[string]map[string]string
	ports  map[string]map[string]uint16
}

func newSharer() sharer {
	return sharer{map[string]map[string]string{}, map[string]map[string]uint16{}}
}

// sharedLabels returns a map that equals m.
func (s *sharer) sharedLabels(m map[string]string) map[string]string {
	return shared(s.labels, m, strconv.AppendQuote)
}

// sharedPorts returns a map that equals m.
func (s *sharer) sharedPorts(m map[string]uint16) map[string]uint16 {
	return shared(s.ports, m, func(b []byte, n uint16) []byte { return strconv.AppendUint(b, uint64(n), 10) })
}

// together moves the addresses of pods into one block. They are little each, and would keep the pages in memory that they were read into.
func together(pods []Pod) {
	n := 0
	for i := range pods {
		n += len(pods[i].Addresses)
	}
	block := make([]netip.Addr, 0, n)
	for i := range pods {
		if p := &pods[i]; len(p.Addresses) > 0 {
			start := len(block)
			block = append(block, p.Addresses...)
			p.Addresses = block[start:len(block):len(block)]
		}
	}
}

// shared returns what known has that equals m, which it takes up if there is nothing. No map is known under nil.
func shared[V any](known map[string]map[string]V, m map[string]V, text func([]byte, V) []byte) map[string]V {
	if m == nil {
		return nil
	}
	var buf [128]byte
	key := buf[:0]
	for _, k := range slices.Sorted(maps.Keys(m)) {
		key = append(strconv.AppendQuote(key, k), '=')
		key = append(text(key, m[k]), ' ')
	}
	if same, ok := known[string(key)]; ok {
		return same
	}
	m = maps.Clone(m) // beside the others: one here and there keeps the page from the system that it was read into
	known[string(key)] = m
	return m
}
