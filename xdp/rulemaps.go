package xdp

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"sluice/xdp/bpf"
)

// ruleMaps are the kernel's maps that hold the rules. The programs of all interfaces share them.
type ruleMaps struct {
	byName  map[string]*ebpf.Map
	current *ruleSet
}

// ruleMapNames are the maps of the program that hold rules; the others belong to one interface each.
func ruleMapNames() []string {
	return []string{bpf.ClassifyMapAddresses, bpf.ClassifyMapRanges, bpf.ClassifyMapNodeports, bpf.ClassifyMapBackends,
		bpf.ClassifyMapSnat}
}

// newRuleMaps makes the maps and fills them from r.
func newRuleMaps(spec *ebpf.CollectionSpec, r *Rules) (*ruleMaps, error) {
	m := &ruleMaps{byName: map[string]*ebpf.Map{}, current: compile(nil)}
	for _, name := range ruleMapNames() {
		created, err := ebpf.NewMap(spec.Maps[name])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("BPF map %s: %w", name, err), m.close())
		}
		m.byName[name] = created
	}
	if err := m.replace(r); err != nil {
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// replace makes the maps hold the rules r instead of the current ones. What is new is added before what is obsolete goes, so
// that a packet that is ours before and after is ours throughout. When a map is full the current rules stay.
func (m *ruleMaps) replace(r *Rules) error {
	next := compile(r)
	both := union(m.current, next)
	if err := m.write(m.current, both); err != nil {
		// Take out what was added. Only deletions and updates in place are left to do, and these need no room.
		return errors.Join(err, m.write(both, m.current))
	}
	m.current = both
	if err := m.write(both, next); err != nil {
		return err
	}
	m.current = next
	return nil
}

// union returns a set in which every packet is ours that is ours in a or in b, but for the SNAT ports: those are a's.
func union(a, b *ruleSet) *ruleSet {
	u := &ruleSet{addresses: maps.Clone(a.addresses), ranges: maps.Clone(a.ranges), nodePorts: maps.Clone(a.nodePorts),
		backends: maps.Clone(a.backends), snat: a.snat}
	for k, kind := range b.addresses {
		u.addresses[k] |= kind
	}
	maps.Copy(u.ranges, b.ranges)
	maps.Copy(u.nodePorts, b.nodePorts)
	maps.Copy(u.backends, b.backends)
	return u
}

// write changes the kernel's maps, which hold from, to hold to.
func (m *ruleMaps) write(from, to *ruleSet) error {
	return errors.Join(
		writeMap(m.byName[bpf.ClassifyMapAddresses], from.addresses, to.addresses),
		writeMap(m.byName[bpf.ClassifyMapRanges], from.ranges, to.ranges),
		writeMap(m.byName[bpf.ClassifyMapNodeports], from.nodePorts, to.nodePorts),
		writeMap(m.byName[bpf.ClassifyMapBackends], from.backends, to.backends),
		writeMap(m.byName[bpf.ClassifyMapSnat], from.snat, to.snat),
	)
}

// writeMap puts and deletes the entries in which from and to differ. A missing entry is no error in a deletion: after a
// failed write not everything is there that should be.
func writeMap[K, V comparable](m *ebpf.Map, from, to map[K]V) error {
	for k, v := range to {
		if old, ok := from[k]; ok && old == v {
			continue
		}
		if err := m.Put(k, v); errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("BPF map %s is full: the topology needs %d entries, it holds %d", m, len(to), m.MaxEntries())
		} else if err != nil {
			return fmt.Errorf("BPF map %s: %w", m, err)
		}
	}
	for k := range from {
		if _, ok := to[k]; ok {
			continue
		}
		if err := m.Delete(k); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("BPF map %s: %w", m, err)
		}
	}
	return nil
}

func (m *ruleMaps) close() error {
	var errs []error
	for _, mp := range m.byName {
		errs = append(errs, mp.Close())
	}
	return errors.Join(errs...)
}
