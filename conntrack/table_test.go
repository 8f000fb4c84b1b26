package conntrack_test

import (
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/xdp/packet"
)

const second = int64(time.Second)

// options returns the options of a small table with the default timeouts.
func options(maxFlows int) conntrack.Options {
	return conntrack.Options{MaxFlows: maxFlows, Timeouts: topology.DefaultTimeouts(), Seed: 1}
}

// open returns a table in mapped memory that is closed with the test.
func open(t testing.TB, maxFlows int) *conntrack.Table {
	t.Helper()
	tab, err := conntrack.New(options(maxFlows))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	})
	return tab
}

// pair returns the two tuples of flow number n: a client to 203.0.113.5:80, translated to 10.64.0.11:8080 without SNAT.
func pair(proto uint8, n int) (fwd, reply packet.Tuple) {
	client := packet.Addr4(0xc6120000 | uint32(n>>16)) // 198.18.0.0/15
	fwd = packet.Tuple{Src: client, Dst: packet.Addr4(0xcb007105), SrcPort: uint16(n), DstPort: 80, Proto: proto}
	reply = packet.Tuple{Src: packet.Addr4(0x0a40000b), Dst: client, SrcPort: 8080, DstPort: uint16(n), Proto: proto}
	return fwd, reply
}

// mustInsert adds flow n.
func mustInsert(t testing.TB, h *conntrack.Handle, proto uint8, n int) *conntrack.Flow {
	t.Helper()
	fwd, reply := pair(proto, n)
	f, d, r := h.Insert(&fwd, &reply, conntrack.Meta{Service: 1, Backend: uint32(n), Flags: 3})
	if r != conntrack.Inserted || d != conntrack.Forward {
		t.Fatalf("Insert(%d) = %v, %v, want inserted, forward", n, r, d)
	}
	return f
}

func TestInsertMakesBothDirectionsVisible(t *testing.T) {
	tab := open(t, 100)
	h := tab.Register()
	h.Enter(second)
	fwd, reply := pair(packet.ProtoUDP, 7)
	f := mustInsert(t, h, packet.ProtoUDP, 7)
	for d, key := range []packet.Tuple{fwd, reply} {
		got, gd, ok := h.Lookup(&key)
		if !ok || got != f || gd != conntrack.Direction(d) {
			t.Errorf("Lookup(%v) = %p, %v, %v, want %p, %v", key, got, gd, ok, f, conntrack.Direction(d))
		}
		if got := f.Tuple(conntrack.Direction(d)); got != key {
			t.Errorf("Tuple(%d) = %v, want %v", d, got, key)
		}
	}
	if want := (conntrack.Meta{Service: 1, Backend: 7, Flags: 3}); f.Meta() != want {
		t.Errorf("Meta = %+v, want %+v", f.Meta(), want)
	}
	if !h.Remove(f) || h.Remove(f) {
		t.Error("Remove did not succeed exactly once")
	}
	for _, key := range []packet.Tuple{fwd, reply} {
		if _, _, ok := h.Lookup(&key); ok {
			t.Errorf("%v is still found after Remove", key)
		}
	}
	h.Leave()
	if s := tab.Stats(); s.Live != 0 || s.Inserted != 1 || s.Removed != 1 {
		t.Errorf("Stats = %+v", s)
	}
}
