package conntrack_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"sluice/conntrack"
	"sluice/xdp/packet"
)

// linearKeys is how many tuples the histories use: few, so that nearly every operation meets another.
const linearKeys = 4

// op is an operation of a history: an insert of tuples a and b, a lookup of a, or a removal of flow id.
type op struct {
	kind byte // 'i', 'l', 'r'
	a, b int
	id   uint32
}

// answer is what an operation returned; r and dir do not matter to all kinds.
type answer struct {
	ok  bool
	r   conntrack.Result
	id  uint32
	dir conntrack.Direction
}

// entries is the state of the sequential table: for each tuple, the flow that has it (0: none) and as what.
type entries [linearKeys]struct {
	id  uint32
	dir conntrack.Direction
}

// sequential is the table as one goroutine would see it.
func sequential(e entries, o op) (answer, entries) {
	switch has := e[o.a]; {
	case o.kind == 'l':
		return answer{ok: has.id != 0, id: has.id, dir: has.dir}, e
	case o.kind == 'r':
		found := false
		for i := range e {
			if e[i].id == o.id {
				found = true
				e[i].id, e[i].dir = 0, 0
			}
		}
		return answer{ok: found}, e
	case has.id != 0:
		return answer{r: conntrack.Exists, id: has.id, dir: has.dir}, e
	case o.a == o.b || e[o.b].id != 0:
		return answer{r: conntrack.Clash}, e
	}
	e[o.a].id, e[o.a].dir = o.id, conntrack.Forward
	e[o.b].id, e[o.b].dir = o.id, conntrack.Reply
	return answer{r: conntrack.Inserted, id: o.id}, e
}

// linearModel is sequential in the checker's terms.
func linearModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return entries{} },
		Step: func(state, input, output any) (bool, any) {
			want, next := sequential(state.(entries), input.(op))
			return want == output.(answer), next
		},
		Equal: func(a, b any) bool { return a.(entries) == b.(entries) },
		DescribeOperation: func(input, output any) string {
			return fmt.Sprintf("%+v -> %+v", input, output)
		},
	}
}

// linearTuple returns tuple number n.
func linearTuple(n int) packet.Tuple {
	return packet.Tuple{Src: packet.Addr4(0xc6120001), Dst: packet.Addr4(0xcb007105), SrcPort: uint16(n), DstPort: 80, Proto: packet.ProtoUDP}
}

// recorder runs random operations of one goroutine and records them.
type recorder struct {
	id      int
	h       *conntrack.Handle
	r       *rand.Rand
	clock   func() int64
	last    *conntrack.Flow // of this batch
	history []porcupine.Operation
}

func (c *recorder) run(n int, flow uint32) {
	c.h.Enter(second)
	for i := range n {
		o := op{kind: "iiilllrr"[c.r.IntN(8)], a: c.r.IntN(linearKeys), b: c.r.IntN(linearKeys), id: flow + uint32(i)}
		if o.kind == 'r' && c.last == nil {
			o.kind = 'l'
		}
		if o.kind == 'r' {
			o.id = c.last.Meta().Backend
		}
		call := c.clock()
		out := c.do(o)
		c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: o, Output: out, Call: call, Return: c.clock()})
		if c.r.IntN(16) == 0 {
			c.h.Leave()
			c.last = nil
			c.h.Enter(second)
		}
	}
	c.h.Leave()
	c.last = nil
}

// do performs o on the table.
func (c *recorder) do(o op) answer {
	a, b := linearTuple(o.a), linearTuple(o.b)
	switch o.kind {
	case 'l':
		f, d, ok := c.h.Lookup(&a)
		return c.note(answer{ok: ok, dir: d}, f)
	case 'r':
		return answer{ok: c.h.Remove(c.last)}
	}
	f, d, r := c.h.Insert(&a, &b, conntrack.Meta{Backend: o.id})
	return c.note(answer{r: r, dir: d}, f)
}

// note adds the flow's id to an answer and remembers the flow for a removal.
func (c *recorder) note(out answer, f *conntrack.Flow) answer {
	if f != nil {
		c.last = f
		out.id = f.Meta().Backend
	}
	return out
}

// TestLinearizable records histories of goroutines that insert, look up and remove flows over the same few tuples, and has
// each checked: there is an order of the operations, within their real times, in which a table with one user gives the same answers.
// It runs with and without patience for half-done inserts, so that the aborting path is taken in earnest.
func TestLinearizable(t *testing.T) {
	histories := 3000
	if testing.Short() {
		histories = 300
	}
	for _, tt := range []struct {
		name                          string
		buckets, patience, goroutines int
	}{
		{"one chain", 1, 256, 2}, {"one chain, no patience", 1, 0, 2}, {"four chains", 4, 256, 3}, {"four chains, no patience", 4, 0, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab := conntrack.NewOnHeap(options(100), tt.buckets, tt.patience)
			recorders, begin := make([]*recorder, tt.goroutines), time.Now()
			clock := func() int64 { return int64(time.Since(begin)) }
			for i := range recorders {
				recorders[i] = &recorder{id: i, h: tab.Register(), r: rand.New(rand.NewPCG(uint64(i), 5)), clock: clock}
			}
			overlaps := 0
			// On a busy machine goroutines may run one after the other: go on until enough operations have overlapped.
			for n := 0; n < histories || overlaps < histories/10 && n < 20*histories; n++ {
				history := record(recorders, 20, uint32(n)*1000)
				overlaps += concurrent(history)
				mustBeLinear(t, n, history)
				clear(t, tab, recorders[0].h)
			}
			check(t, tab)
			t.Logf("%d pairs of operations overlapped, %+v", overlaps, tab.Stats())
			if overlaps == 0 {
				t.Error("no operations overlapped: this proves nothing")
			}
		})
	}
}

// mustBeLinear fails the test, and shows the history, if no sequential order explains it.
func mustBeLinear(t *testing.T, n int, history []porcupine.Operation) {
	t.Helper()
	if porcupine.CheckOperations(linearModel(), history) {
		return
	}
	for _, o := range history {
		t.Logf("%d: [%d, %d] %s", o.ClientId, o.Call, o.Return, linearModel().DescribeOperation(o.Input, o.Output))
	}
	t.Fatalf("history %d has no sequential order", n)
}

// record lets all recorders run at once and returns the joint history.
func record(recorders []*recorder, ops int, flow uint32) []porcupine.Operation {
	var start, done sync.WaitGroup
	var ready atomic.Int32
	start.Add(1)
	for i, c := range recorders {
		c.history = c.history[:0]
		done.Go(func() {
			start.Wait()
			meet(&ready, int32(len(recorders)))
			c.run(ops, flow+uint32(i)*100+1)
		})
	}
	start.Done()
	done.Wait()
	var all []porcupine.Operation
	for _, c := range recorders {
		all = append(all, c.history...)
	}
	return all
}

// meet returns when n goroutines have called it, at nearly the same instant; then it may be called again.
func meet(arrived *atomic.Int32, n int32) {
	all := (arrived.Add(1) + n - 1) / n * n
	for spin := 0; arrived.Load() < all; spin++ {
		if spin > 10000 {
			runtime.Gosched()
		}
	}
}

// concurrent counts pairs of operations of different goroutines that overlapped in time.
func concurrent(history []porcupine.Operation) int {
	n := 0
	for i, a := range history {
		for _, b := range history[i+1:] {
			if a.ClientId != b.ClientId && a.Call < b.Return && b.Call < a.Return {
				n++
			}
		}
	}
	return n
}

// clear removes all flows.
func clear(t *testing.T, tab *conntrack.Table, h *conntrack.Handle) {
	t.Helper()
	tab.Walk(h, second, func(f *conntrack.Flow) bool { h.Remove(f); return true })
	if n := tab.Stats().Live; n != 0 {
		t.Fatalf("%d flows live after all were removed", n)
	}
}
