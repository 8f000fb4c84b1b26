package conntrack_test

import (
	"strconv"
	"testing"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// TestHalfDoneInsert stops an insert after it has linked one or both of its entries, as if its worker had lost the CPU there.
// Nobody finds the flow in either direction; another worker's insert of the same packet's flow, or of its mirror image, pushes
// it aside without waiting; and the stopped one, when it goes on, is not live any more.
func TestHalfDoneInsert(t *testing.T) {
	for _, linked := range []int{1, 2} {
		for _, mirrored := range []bool{false, true} {
			t.Run("linked="+strconv.Itoa(linked)+"/mirrored="+strconv.FormatBool(mirrored), func(t *testing.T) {
				tab := conntrack.NewOnHeap(options(10), 2, 3)
				stopped, other := tab.Register(), tab.Register()
				stopped.Enter(second)
				other.Enter(second)
				a, b := pair(packet.ProtoUDP, 1)
				finish := stopped.HalfInsert(&a, &b, linked)
				absent(t, other, a, b)
				if mirrored {
					a, b = b, a
				}
				f, d, r := other.Insert(&a, &b, conntrack.Meta{})
				if r != conntrack.Inserted || d != fwd {
					t.Fatalf("Insert beside a half-done one = %v, %v", d, r)
				}
				if finish() {
					t.Error("the insert that was pushed aside has come alive")
				}
				if g, d, r := stopped.Insert(&b, &a, conntrack.Meta{}); g != f || d != rep || r != conntrack.Exists {
					t.Errorf("Insert afterwards = %p, %v, %v, want %p, reply, exists", g, d, r, f)
				}
				stopped.Leave()
				other.Leave()
				if s := tab.Stats(); s.Aborts != 1 || s.Live != 1 || s.Inserted != 1 {
					t.Errorf("Stats = %+v, want one aborted, one inserted, one live", s)
				}
				check(t, tab)
			})
		}
	}
}

// TestHalfDoneInsertAppearsWhole: the two directions of a flow are found from the same instant on, and not from the linking
// of their entries on.
func TestHalfDoneInsertAppearsWhole(t *testing.T) {
	tab := conntrack.NewOnHeap(options(10), 1, 3)
	stopped, other := tab.Register(), tab.Register()
	stopped.Enter(second)
	other.Enter(second)
	a, b := pair(packet.ProtoUDP, 1)
	finish := stopped.HalfInsert(&a, &b, 2)
	absent(t, other, a, b)
	if !finish() {
		t.Fatal("an insert that nobody disturbed did not finish")
	}
	for d, key := range []packet.Tuple{a, b} {
		if _, got, ok := other.Lookup(&key); !ok || int(got) != d {
			t.Errorf("Lookup(%v) = %v, %v after the insert has finished", key, got, ok)
		}
	}
	check(t, tab)
}

func absent(t *testing.T, h *conntrack.Handle, keys ...packet.Tuple) {
	t.Helper()
	for _, key := range keys {
		if _, d, ok := h.Lookup(&key); ok {
			t.Errorf("%v of a half-done insert is found as %v", key, d)
		}
	}
}

// TestAskedInVain: two SYNs, half a second apart or more, with nothing from the backend in between. Counters and clock may wrap.
func TestAskedInVain(t *testing.T) {
	tab := open(t, 10)
	h := tab.Register()
	h.Enter(second)
	defer h.Leave()
	for name, start := range map[string]int64{"early": second, "as the clock wraps": 1<<44 - second/2} {
		t.Run(name, func(t *testing.T) {
			tu := tuplesOf(packet.ProtoTCP, 1)
			f, _, _ := h.Insert(&tu[conntrack.Forward], &tu[conntrack.Reply], conntrack.Meta{})
			defer h.Remove(f)
			for i, step := range []struct {
				after   int64
				replies int
				want    bool
			}{
				{0, 0, false}, {0, 0, false}, {second / 4, 0, false}, {second, 0, true}, {0, 1, false}, {second, 1, false},
				{second, 1 << 10, false}, {second / 4, 0, false}, {second, 0, true},
			} {
				start += step.after
				for range step.replies {
					h.Packet(f, conntrack.Reply, ack, 40)
				}
				if got := f.AskedInVain(start); got != step.want {
					t.Errorf("step %d: %v", i, got)
				}
			}
		})
	}
}
