package conntrack_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestFlood fills a table with half-open connections around established ones: these go on, new flows are refused and
// counted, and a minute after the flood the table is empty but for the established ones.
func TestFlood(t *testing.T) {
	size, established := 1<<20, 1000
	if testing.Short() {
		size, established = 1<<16, 100
	}
	tab := open(t, size)
	h := tab.Register()
	h.Enter(0)
	for n := range established {
		f := mustInsert(t, h, packet.ProtoTCP, n)
		h.Packet(f, fwd, syn, 60)
		h.Packet(f, rep, syn|ack, 60)
		h.Packet(f, fwd, ack, 60)
	}
	refused := 0
	for n := established; n < size+5000; n++ {
		a, b := pair(packet.ProtoTCP, n)
		f, _, r := h.Insert(&a, &b, conntrack.Meta{})
		switch r {
		case conntrack.Inserted:
			h.Packet(f, fwd, syn, 60)
		case conntrack.Full:
			refused++
		default:
			t.Fatalf("Insert = %v", r)
		}
		if n%64 == 0 {
			h.Leave()
			h.Enter(int64(n) * 1000)
		}
	}
	h.Leave()
	if s := tab.Stats(); s.Live != size || refused != 5000 || s.Full != 5000 {
		t.Errorf("live %d, refused %d, counted %d; want %d, 5000, 5000", s.Live, refused, s.Full, size)
	}
	now := 62 * second
	h.Enter(now)
	for n := range established {
		for d, key := range tuplesOf(packet.ProtoTCP, n) {
			f, got, ok := h.Lookup(&key)
			if !ok || int(got) != d || f.State() != conntrack.Established {
				t.Fatalf("established flow %d: found %v in the flood", n, ok)
			}
		}
	}
	h.Leave()
	sweepAll(tab, h, now)
	if got := tab.Stats().Live; got != established || float64(got) > 0.01*float64(size) {
		t.Errorf("%d flows live a minute after the flood, want the %d established", got, established)
	}
	check(t, tab)
}

func tuplesOf(proto uint8, n int) [2]packet.Tuple {
	a, b := pair(proto, n)
	return [2]packet.Tuple{a, b}
}

// TestFullTableTakesExpired: a full table whose flows have expired takes new ones at once, before any sweep.
func TestFullTableTakesExpired(t *testing.T) {
	tab := open(t, 1000)
	h := tab.Register()
	h.Enter(0)
	for n := range 1000 {
		mustInsert(t, h, packet.ProtoUDP, n)
	}
	a, b := pair(packet.ProtoUDP, 1000)
	if _, _, r := h.Insert(&a, &b, conntrack.Meta{}); r != conntrack.Full {
		t.Fatalf("Insert into a full table = %v", r)
	}
	h.Leave()
	h.Enter(31 * second)
	for n := range 1000 {
		mustInsert(t, h, packet.ProtoUDP, 2000+n)
	}
	h.Leave()
	if s := tab.Stats(); s.Live != 1000 || s.Expired != 1000 || s.Full != 1 {
		t.Errorf("Stats = %+v, want 1000 live, 1000 expired, 1 full", s)
	}
	check(t, tab)
}

// TestFullTableStillAnswers: a full table finds what exists and names clashes.
func TestFullTableStillAnswers(t *testing.T) {
	tab := open(t, 1)
	h := tab.Register()
	h.Enter(0)
	f := mustInsert(t, h, packet.ProtoUDP, 1)
	a, b := pair(packet.ProtoUDP, 1)
	other, _ := pair(packet.ProtoUDP, 2)
	if g, d, r := h.Insert(&a, &b, conntrack.Meta{}); g != f || d != fwd || r != conntrack.Exists {
		t.Errorf("same flow: %p, %v, %v, want %p, forward, exists", g, d, r, f)
	}
	if g, _, r := h.Insert(&other, &b, conntrack.Meta{}); g != nil || r != conntrack.Clash {
		t.Errorf("taken reply: %p, %v, want nil, clash", g, r)
	}
}

func TestInsertResults(t *testing.T) {
	a, b := pair(packet.ProtoTCP, 1)
	c, d := pair(packet.ProtoTCP, 2)
	tests := []struct {
		name       string
		fwd, reply packet.Tuple
		want       conntrack.Result
		direction  conntrack.Direction
	}{
		{"same", a, b, conntrack.Exists, fwd},
		{"same forward, other reply", a, d, conntrack.Exists, fwd},
		{"mirrored", b, a, conntrack.Exists, rep},
		{"forward is another's reply", b, d, conntrack.Exists, rep},
		{"reply taken as reply", c, b, conntrack.Clash, fwd},
		{"reply taken as forward", c, a, conntrack.Clash, fwd},
		{"its own reverse", c, c, conntrack.Clash, fwd},
		{"its own reverse, tracked", a, a, conntrack.Exists, fwd},
		{"other", c, d, conntrack.Inserted, fwd},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := open(t, 10)
			h := tab.Register()
			h.Enter(0)
			f := mustInsert(t, h, packet.ProtoTCP, 1)
			g, direction, r := h.Insert(&tt.fwd, &tt.reply, conntrack.Meta{})
			if r != tt.want || direction != tt.direction {
				t.Errorf("%v, %v, want %v, %v", r, direction, tt.want, tt.direction)
			}
			if exists := g == f; exists != (r == conntrack.Exists) {
				t.Errorf("%v with flow %p, first flow %p", r, g, f)
			}
			h.Leave()
			check(t, tab)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	noUDP := topology.DefaultTimeouts()
	noUDP.UDP = 0
	tests := []struct {
		name string
		o    conntrack.Options
		want string
	}{
		{"no flows", conntrack.Options{MaxFlows: 0, Timeouts: topology.DefaultTimeouts()}, "flow table of 0 flows"},
		{"too many", conntrack.Options{MaxFlows: conntrack.MaxFlowsLimit + 1, Timeouts: topology.DefaultTimeouts()}, "must be 1 to 268435456"},
		{"timeout of zero", conntrack.Options{MaxFlows: 1, Timeouts: noUDP}, "timeout of state udp"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := conntrack.New(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}

// TestMemoryIsTakenAsUsed: a table for four million flows, 1.2 GB of address space, costs little while it is nearly
// empty. Close may be called twice.
func TestMemoryIsTakenAsUsed(t *testing.T) {
	tab, err := conntrack.New(options(1 << 22))
	if err != nil {
		t.Fatal(err)
	}
	h := tab.Register()
	h.Enter(0)
	for n := range 100 {
		mustInsert(t, h, packet.ProtoUDP, n)
	}
	h.Leave()
	size, resident := mapped(t, tab.Address())
	if size < 1100<<20 || resident < 100*256 || resident > 8<<20 {
		t.Errorf("mapping of %d bytes, %d of them resident", size, resident)
	}
	for range 2 {
		if err := tab.Close(); err != nil {
			t.Error(err)
		}
	}
}

// mapped returns the size and the resident part, in bytes, of the mapping that holds address (proc_pid_smaps(5)).
func mapped(t *testing.T, address uint64) (size, resident int) {
	t.Helper()
	data, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(data)) {
		var from, to uint64
		var kB int
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= address && address < to
		}
		if n, _ := fmt.Sscanf(line, "Size: %d kB", &kB); inside && n == 1 {
			size = kB << 10
		}
		if n, _ := fmt.Sscanf(line, "Rss: %d kB", &kB); inside && n == 1 {
			return size, kB << 10
		}
	}
	t.Fatalf("no mapping holds %#x", address)
	return 0, 0
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	tab := open(t, 10000)
	h := tab.Register()
	h.Enter(0)
	f := mustInsert(t, h, packet.ProtoTCP, 1)
	key, _ := pair(packet.ProtoTCP, 1)
	missing, reply := pair(packet.ProtoTCP, 2)
	now := int64(0)
	tests := []struct {
		name string
		fn   func()
	}{
		{"lookup", func() { h.Lookup(&key) }},
		{"miss", func() { h.Lookup(&missing) }},
		{"packet", func() { h.Packet(f, fwd, ack, 60) }},
		{"insert and remove", func() {
			g, _, _ := h.Insert(&missing, &reply, conntrack.Meta{})
			h.Packet(g, fwd, syn, 60)
			h.Remove(g)
		}},
		{"batch", func() { h.Leave(); now++; h.Enter(now) }},
		{"sweep", func() { now += second; tab.Sweep(h, now, 1000) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if n := testing.AllocsPerRun(1000, tt.fn); n != 0 {
				t.Errorf("%v allocations", n)
			}
		})
	}
}
