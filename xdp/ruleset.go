package xdp

import (
	"encoding/binary"
	"net/netip"

	"sluice/xdp/bpf"
	"sluice/xdp/packet"
)

// ruleSet is Rules in the form of the maps of the XDP program.
type ruleSet struct {
	addresses map[bpf.ClassifyAddr]bpf.ClassifyKind
	ranges    map[bpf.ClassifyPrefixKey]uint8
	nodePorts map[bpf.ClassifyNodeportKey]uint8
	backends  map[bpf.ClassifyBackendKey]uint8
	snat      map[uint32]bpf.ClassifySnatPorts
}

// compile returns r as maps; nil counts as no rules.
func compile(r *Rules) *ruleSet {
	if r == nil {
		r = &Rules{}
	}
	s := &ruleSet{
		addresses: make(map[bpf.ClassifyAddr]bpf.ClassifyKind, len(r.Services)),
		ranges:    make(map[bpf.ClassifyPrefixKey]uint8, len(r.Ranges)),
		nodePorts: make(map[bpf.ClassifyNodeportKey]uint8, len(r.NodePorts)),
		backends:  make(map[bpf.ClassifyBackendKey]uint8, len(r.Backends)),
		snat:      map[uint32]bpf.ClassifySnatPorts{0: {First: r.SNATPorts.First, Last: r.SNATPorts.Last}},
	}
	s.addAddresses(r.Services, bpf.ClassifyKindSERVICE)
	s.addAddresses(r.NodePortAddrs, bpf.ClassifyKindNODEPORT)
	s.addAddresses(r.SNATAddrs, bpf.ClassifyKindSNAT)
	for _, p := range r.Ranges {
		s.ranges[prefixKey(p)] = 1
	}
	for _, p := range r.NodePorts {
		s.nodePorts[bpf.ClassifyNodeportKey{Port: p.Port, Proto: p.Proto}] = 1
	}
	for _, b := range r.Backends {
		s.backends[bpf.ClassifyBackendKey{Addr: addrKey(b.Addr), Port: b.Port, Proto: b.Proto}] = 1
		s.backends[bpf.ClassifyBackendKey{Addr: addrKey(b.Addr)}] = 1 // for fragments
	}
	return s
}

func (s *ruleSet) addAddresses(addrs []netip.Addr, kind bpf.ClassifyKind) {
	for _, a := range addrs {
		s.addresses[addrKey(a)] |= kind
	}
}

// addrKey returns a in the form that the program gives addresses: 16 bytes as they stand in a header, IPv4 mapped.
func addrKey(a netip.Addr) (k bpf.ClassifyAddr) {
	b := packet.AddrFrom(a).As16()
	for i := range k.Word {
		k.Word[i] = binary.NativeEndian.Uint32(b[4*i:])
	}
	return k
}

// prefixKey returns p as a key of the trie, in which an IPv4 prefix is one of the mapped addresses.
func prefixKey(p netip.Prefix) bpf.ClassifyPrefixKey {
	bits := p.Bits()
	if p.Addr().Is4() {
		bits += 96
	}
	return bpf.ClassifyPrefixKey{Bits: uint32(bits), Addr: addrKey(p.Masked().Addr())}
}
