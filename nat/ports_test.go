package nat_test

import (
	"fmt"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/xdp/packet"
)

func TestPortsSearchIsExhaustive(t *testing.T) {
	nodePorts := topology.PortRange{First: 30000, Last: 32767}
	for _, r := range []topology.PortRange{
		{First: 32768, Last: 60999}, {First: 1, Last: 65535}, {First: 61001, Last: 61001}, {First: 1024, Last: 1025},
		{First: 65535, Last: 65535}, {First: 2000, Last: 2028}, {First: 40000, Last: 40029},
	} {
		pool := nat.NewPorts(r)
		for _, hash := range []uint64{0, 1, 1<<64 - 1, 1 << 32, 0x9e3779b97f4a7c15, 28232 << 32, 15<<32 | 7} {
			t.Run(fmt.Sprintf("%d-%d/%x", r.First, r.Last, hash), func(t *testing.T) {
				seen := make(map[uint16]bool, pool.Len())
				s := pool.Search(hash)
				for port, ok := s.Next(); ok; port, ok = s.Next() {
					if seen[port] || !r.Contains(port) {
						t.Fatalf("port %d: visited twice or outside the pool", port)
					}
					if r.First == 32768 && nodePorts.Contains(port) {
						t.Fatalf("port %d: a NodePort", port)
					}
					seen[port] = true
				}
				if want := int(r.Last) - int(r.First) + 1; len(seen) != want || pool.Len() != want {
					t.Errorf("visited %d ports of %d, want %d", len(seen), pool.Len(), want)
				}
				if _, ok := s.Next(); ok {
					t.Error("a port after the last one")
				}
			})
		}
	}
}

func TestPortsEmpty(t *testing.T) {
	for _, pool := range []nat.Ports{{}, nat.NewPorts(topology.PortRange{}), nat.NewPorts(topology.PortRange{First: 9, Last: 8})} {
		s := pool.Search(1)
		if port, ok := s.Next(); ok || pool.Len() != 0 {
			t.Errorf("port %d from an empty pool of %d", port, pool.Len())
		}
	}
	s := nat.NewPorts(topology.PortRange{First: 0, Last: 1}).Search(1 << 63)
	if port, ok := s.Next(); !ok || port != 1 {
		t.Errorf("port %d %v, want 1: port 0 is in no pool", port, ok)
	}
}

// TestPortsSearchStartsAnywhere counts the first ports of many flows by tenths of the pool.
func TestPortsSearchStartsAnywhere(t *testing.T) {
	pool, tenths := nat.NewPorts(topology.PortRange{First: 32768, Last: 60999}), [10]int{}
	for i := range uint16(10000) {
		tu := tuple(packet.ProtoTCP, outside, i, vip, 80)
		s := pool.Search(tu.Hash(42))
		port, _ := s.Next()
		tenths[(int(port)-32768)*10/pool.Len()]++
	}
	for i, n := range tenths {
		if n < 850 || n > 1150 {
			t.Errorf("%d of 10000 searches start in tenth %d of the pool, want about 1000", n, i)
		}
	}
}

func TestExhausted(t *testing.T) {
	var e nat.Exhausted
	a, b := addr("10.64.0.11"), addr("fd64:10::11")
	if e.Has(a, 80, packet.ProtoTCP, 0) || e.Has(packet.Addr{}, 0, 0, 0) {
		t.Error("the zero value remembers something")
	}
	e.Mark(a, 80, packet.ProtoTCP, 1000)
	for _, tt := range []struct {
		name  string
		dst   packet.Addr
		port  uint16
		proto uint8
		now   int64
		want  bool
	}{
		{"in time", a, 80, packet.ProtoTCP, 999, true},
		{"time over", a, 80, packet.ProtoTCP, 1000, false},
		{"other address", b, 80, packet.ProtoTCP, 0, false},
		{"other port", a, 81, packet.ProtoTCP, 0, false},
		{"other protocol", a, 80, packet.ProtoUDP, 0, false},
	} {
		if got := e.Has(tt.dst, tt.port, tt.proto, tt.now); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for port := range uint16(5000) { // many more than it can remember: the last is always there
		e.Mark(b, port, packet.ProtoUDP, 2000)
		if !e.Has(b, port, packet.ProtoUDP, 1500) {
			t.Fatalf("port %d was just marked and is not remembered", port)
		}
		if e.Has(b, port, packet.ProtoTCP, 1500) || e.Has(a, port, packet.ProtoUDP, 1500) {
			t.Fatalf("port %d is remembered of another destination", port)
		}
	}
}

func TestPortsAllocate(t *testing.T) {
	var e nat.Exhausted
	pool, dst, hash := nat.NewPorts(topology.PortRange{First: 32768, Last: 60999}), addr("10.64.0.11"), uint64(0)
	n := testing.AllocsPerRun(100, func() {
		hash += 0x9e3779b97f4a7c15
		s := pool.Search(hash)
		port, _ := s.Next()
		e.Mark(dst, port, packet.ProtoTCP, 10)
		e.Has(dst, port, packet.ProtoTCP, 9)
	})
	if n != 0 {
		t.Errorf("%v allocations, want 0", n)
	}
}

func BenchmarkPortsSearch(b *testing.B) {
	pool, hash := nat.NewPorts(topology.PortRange{First: 32768, Last: 60999}), uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		hash += 0x9e3779b97f4a7c15
		s := pool.Search(hash)
		s.Next()
	}
}
