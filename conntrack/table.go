package conntrack

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"sluice/config/topology"
)

// MaxFlowsLimit is the largest size of a table: links have room for this many flows and their two directions.
const MaxFlowsLimit = 1 << 28

// spareFlows is what a table has beyond MaxFlows, plus an eighth: dead flows that wait for their grace period, perhaps
// until the kernel lets a worker run again that it stopped in the middle of a batch, and flows in the handles' caches
// must not make a table look full. Memory for them is reserved, not taken.
const spareFlows = 16384

// Options configures a table.
type Options struct {
	MaxFlows int               // flows that may be live at once, 1 to MaxFlowsLimit
	Timeouts topology.Timeouts // each must be positive
	Liberal  bool              // TCP segments out of their window are let through all the same, see Handle.Segment
	Seed     uint64            // of the hash; 0 takes a random one, so that nobody can craft collisions
}

// Table is the flow table.
//
// Concurrency: every method but Close may be called by any goroutine. Each goroutine works through a Handle of its own.
type Table struct {
	arena
	mask     uint64    // number of buckets - 1
	seed     [4]uint64 // of the hash
	timeout  timeouts
	tick     int64
	max      int64
	liberal  bool
	patience int
	pause    func() // nil but in tests, see step

	due []atomic.Int64 // per block of flows: no flow in it expires before this time

	_     [64]byte
	live  atomic.Int64 // flows live or pending
	_     [56]byte
	epoch atomic.Uint64 // see epoch.go
	_     [56]byte
	spare atomic.Uint64 // stack of unused flows, see freelist.go
	fresh atomic.Uint32 // first flow that was never used
	_     [52]byte
	hand  atomic.Uint32 // next block that Sweep looks at
	rest  atomic.Int64  // Sweep rests until then once the hand has gone round
	_     [48]byte

	handles atomic.Pointer[[]*Handle] // all that were ever registered
	mu      sync.Mutex                // guards registration: the two fields below and the replacement of handles
	idle    []*Handle                 // closed handles, to be given out again
	closed  bool
}

// New returns an empty table. Its memory is reserved, but taken only as it is used.
func New(o Options) (*Table, error) {
	if o.MaxFlows < 1 || o.MaxFlows > MaxFlowsLimit {
		return nil, fmt.Errorf("flow table of %d flows: must be 1 to %d", o.MaxFlows, MaxFlowsLimit)
	}
	to := timeoutsFrom(o.Timeouts)
	for s := range numState {
		if to[s] <= 0 {
			return nil, fmt.Errorf("timeout of state %s is %d ns: must be positive", s, to[s])
		}
	}
	// One bucket per flow, so a chain has two entries when the table is full, and seldom more than one before. More buckets would
	// make for shorter chains and for more memory that is read at random: with four per flow and 64 Ki of a million flows in
	// use, a gateway forwarded 0.70 of what bare AF_XDP does, with one 0.77, in turn in one run.
	a, err := mapArena(slotsFor(o.MaxFlows), 1<<bits.Len(uint(o.MaxFlows-1)))
	if err != nil {
		return nil, err
	}
	return newTable(o, a), nil
}

// slotsFor returns how many flows a table has memory for. Number 0 stands for "none".
func slotsFor(maxFlows int) int { return 1 + maxFlows + maxFlows/8 + spareFlows }

// newTable builds a table on memory that is all zero.
func newTable(o Options, a *arena) *Table {
	t := &Table{
		arena:    *a,
		mask:     uint64(len(a.buckets) - 1),
		timeout:  timeoutsFrom(o.Timeouts),
		max:      int64(o.MaxFlows),
		liberal:  o.Liberal,
		patience: patience,
		due:      make([]atomic.Int64, (len(a.flows)+blockFlows-1)/blockFlows),
	}
	t.tick = t.timeout.tick()
	seed := o.Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range t.seed {
		t.seed[i] = r.Uint64()
	}
	for i := range t.due {
		t.due[i].Store(math.MaxInt64)
	}
	t.fresh.Store(1)
	t.epoch.Store(1)
	t.handles.Store(new([]*Handle))
	return t
}

// Close gives the memory back. Every handle must have left for good, and no Flow may be in use. It is idempotent.
func (t *Table) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	return t.release()
}

// Register returns a handle for the calling goroutine. Give it back with Handle.Close.
func (t *Table) Register() *Handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	if n := len(t.idle); n > 0 {
		h := t.idle[n-1]
		t.idle = t.idle[:n-1]
		return h
	}
	h := &Handle{t: t}
	old := *t.handles.Load()
	all := append(append(make([]*Handle, 0, len(old)+1), old...), h)
	t.handles.Store(&all)
	return h
}

// Stats are counts since the table was opened, but Live.
type Stats struct {
	MaxFlows int
	Live     int    // flows in the table, expired ones that Sweep has not met yet included
	Peak     int    // flows whose memory was ever used at once
	Inserted uint64 // flows added
	Expired  uint64 // flows that ended by silence
	Removed  uint64 // flows that ended by Remove
	Exists   uint64 // inserts that found their forward tuple tracked
	Clashes  uint64 // inserts whose reply tuple belonged to another flow
	Full     uint64 // inserts that found no room
	Aborts   uint64 // half-done inserts that another one pushed aside
}

// Stats returns the counters, each exact, all together not of one instant.
func (t *Table) Stats() Stats {
	s := Stats{MaxFlows: int(t.max), Live: int(t.live.Load()), Peak: int(t.fresh.Load()) - 1}
	for _, h := range *t.handles.Load() {
		s.Inserted += h.count[inserted].Load()
		s.Expired += h.count[expired].Load()
		s.Removed += h.count[removed].Load()
		s.Exists += h.count[exists].Load()
		s.Clashes += h.count[clashes].Load()
		s.Full += h.count[full].Load()
		s.Aborts += h.count[aborts].Load()
	}
	return s
}
