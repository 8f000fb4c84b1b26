package engine

import (
	"time"

	"sluice/conntrack"
	"sluice/dns"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// The way of a frame through a Pipeline:
//
//	1. parse       offsets and tuple                                             (pipeline.go)
//	2. track       known flow: on to 4; known and over, or stale: as unknown     (flow.go)
//	3. decide      service table; a new flow and its source port                 (flow.go)
//	4. next hop    cached with the flow, or looked up                            (flow.go)
//	5. rewrite     addresses, ports, TTL, checksums                              (send.go)
//	6. send        link-layer addresses, one batch per interface                 (send.go)
//
// ICMP leaves it after 1 (icmp.go), DNS queries before 2 (dns.go), connections that are reset after 2 (reset.go), what is nobody's after 3 (punt), what waits
// for a neighbour after 5 (pending.go).
// Every frame ends in exactly one of: sent, held, released; and with at least one reason counted.

// NextHops is where the pipeline learns the way out; fib.Watcher is one.
type NextHops interface {
	// Current returns the newest snapshot.
	Current() *fib.Snapshot
	// Resolve asks for the link-layer address of a next hop. It must not block.
	Resolve(fib.NextHop) bool
}

// Punter hands a frame that is nobody's to the kernel. It must not block, and not keep the frame; false means that the
// frame is lost, since there was no room.
type Punter interface {
	Punt(iface int, frame []byte) bool
}

// PipelineConfig is what a Pipeline works with.
type PipelineConfig struct {
	Port      xdp.Port
	Flows     *conntrack.Handle
	NextHops  NextHops
	Punter    Punter
	Affinity  *nat.Affinity // pins of clients to backends, shared by all pipelines; nil: none are kept
	Checksum  nat.ChecksumMode
	Counters  *Counters
	Fragments *Fragments    // shared by all workers; nil: the pipeline has its own
	PortSeed  uint64        // secret seed of the search for source ports
	Stale     *Stale        // shared by all pipelines over one flow table; nil: one of its own
	DNS       dns.Responder // with cookies that the server's sockets share
}

// batchSize is how many frames the pipeline sends at once to one interface.
const batchSize = 64

// Pipeline is the packet path of one worker.
//
// Concurrency: one goroutine.
type Pipeline struct {
	PipelineConfig
	snap      *control.Snapshot
	hops      *fib.Snapshot
	epoch     uint64 // generations of snap and hops, as they are kept with flows
	now       int64
	batch     [batchSize]parsed
	places    [batchSize]conntrack.Place
	hints     [batchSize]conntrack.Hint
	touched   byte           // keeps the compiler from leaving out reads that only warm the caches
	in        *packet.Info   // of the frame at hand
	quote     packet.Info    // scratch: what an ICMP error quotes
	segment   packet.Segment // scratch
	chunk     packet.Chunk   // scratch
	hop       fib.NextHop    // scratch: a next hop that is in no snapshot
	fromNode  bool           // the frame comes from a process of the gateway: for trace only
	macs      []uint64       // link-layer addresses by interface
	out       []outQueue     // by interface
	done      []xdp.Frame    // to be released
	tally     tally
	pending   pending
	held      held                  // fragments that wait
	head      packet.FragmentHeader // of the first fragment at hand
	outcome   fragmentOutcome       // of the first fragment at hand
	pieces    [maxPieces]xdp.Frame  // scratch: what a packet is cut into,
	pieceEnds [maxPieces]int        // where these end behind their start, without padding,
	piece     packet.Info           // and one of them
	exhausted nat.Exhausted
	rejects   bucket // ICMP errors and RSTs that we send
	echoes    bucket // echo replies
	names     *dns.Worker
	explain   *explanation
	pods      []bool // by interface: pods are behind it
}

// outQueue collects the frames of a batch for one interface.
type outQueue struct {
	frames [batchSize]xdp.Frame
	n      int
}

// NewPipeline returns a pipeline. The handle in c must have left.
func NewPipeline(c PipelineConfig) *Pipeline {
	n := len(c.Port.Interfaces())
	p := &Pipeline{PipelineConfig: c, out: make([]outQueue, n), pods: make([]bool, n), done: make([]xdp.Frame, 0, 2*batchSize),
		names: dns.NewWorker(c.DNS)}
	for _, i := range c.Port.Interfaces() {
		p.macs = append(p.macs, macOf(i.MAC[:]))
	}
	if p.Stale == nil {
		p.Stale = NewStale()
	}
	if p.Fragments == nil {
		p.Fragments = NewFragments(c.PortSeed)
	}
	p.rejects, p.echoes = newBucket(repliesPerSecond), newBucket(repliesPerSecond)
	return p
}

// Process takes frames, up to a few hundred at once, through the pipeline under one snapshot. now is in nanoseconds
// of a monotonic clock. The frames belong to the pipeline from here on. The caller flushes the Port afterwards.
func (p *Pipeline) Process(snap *control.Snapshot, now int64, frames []xdp.Frame) {
	p.begin(snap, now)
	for len(frames) > batchSize {
		p.run(frames[:batchSize])
		frames = frames[batchSize:]
	}
	p.run(frames)
	p.end()
}

// parsed is a frame of the batch at hand after its first stage.
type parsed struct {
	info   packet.Info
	status packet.Status
}

// run takes at most a batch through the pipeline. What it will read of memory it reads first for all frames, in short loops
// without branches that depend on what is read, so that the processor waits for many reads at once: the frames, which
// another processor has just written, then the buckets of the flow table, then the flows. Only then it deals with one
// frame after the other.
func (p *Pipeline) run(frames []xdp.Frame) {
	var first byte
	for i := range frames {
		first ^= frames[i].Buf[frames[i].Start]
	}
	p.touched = first
	for i := range frames {
		b := &p.batch[i]
		b.status = packet.Parse(frames[i].Bytes(), &b.info)
	}
	for i := range frames {
		// A frame without a tuple costs a read in vain.
		p.places[i] = p.Flows.Place(&p.batch[i].info.Tuple)
	}
	for i := range frames {
		p.hints[i] = p.Flows.Warm(p.places[i])
	}
	for i := range frames {
		p.Flows.WarmFlow(p.hints[i], p.batch[i].info.Proto == packet.ProtoTCP)
	}
	for i := range frames {
		p.in = &p.batch[i].info
		p.one(&frames[i], p.batch[i].status)
	}
}

// Tick does what time asks for, without frames: it sends or gives up frames that wait for a neighbour or a first fragment, and looks
// at the clock on the wall, which cookies of DNS go by.
func (p *Pipeline) Tick(snap *control.Snapshot, now int64) {
	p.names.SetTime(time.Now())
	if p.Pending() == 0 {
		return
	}
	p.begin(snap, now)
	p.end()
}

// Pending returns how many frames wait for a neighbour or a first fragment. While there are any, Tick is due every few
// milliseconds.
func (p *Pipeline) Pending() int { return p.pending.n + p.held.n }

func (p *Pipeline) begin(snap *control.Snapshot, now int64) {
	hops := p.NextHops.Current()
	if snap != p.snap {
		for i, iface := range p.Port.Interfaces() {
			p.pods[i] = snap.NAT.IsPodInterface(iface.Name)
		}
	}
	if snap != p.snap || hops != p.hops {
		p.snap, p.hops = snap, hops
		p.epoch = epochOf(snap.Generation, hops.Generation())
	}
	p.now = now
	p.Flows.Enter(now)
	if p.pending.n > 0 {
		p.retryPending()
	}
	if p.held.n > 0 && now >= p.held.retry {
		p.held.retry = now + retryHeld
		p.retryFragments()
	}
}

func (p *Pipeline) end() {
	p.Flows.Leave()
	for i := range p.out {
		p.flushOut(i)
	}
	p.release()
	p.tally.publish(p.Counters)
}

// one takes a parsed frame through the pipeline.
func (p *Pipeline) one(f *xdp.Frame, status packet.Status) {
	switch status {
	case packet.NotIP:
		p.punt(f)
		return
	case packet.Malformed:
		p.drop(f, reason.Malformed)
		return
	}
	if p.explain != nil {
		p.explain.parsed(p.in)
	}
	switch {
	case !p.isForUs(f):
		p.punt(f)
	case p.in.Options && p.isOdd(f):
		// It has been dealt with.
	case p.in.Fragment != packet.NotFragment:
		p.fragment(f)
	case p.in.IsICMP():
		p.icmp(f)
	case p.in.HasPorts:
		p.transport(f)
	default:
		p.unmatched(f)
	}
}

// isOdd refuses packets whose options or extension headers keep them from being translated, and reports whether it has. All other
// options stay as they are.
func (p *Pipeline) isOdd(f *xdp.Frame) bool {
	routed, ok := packet.SourceRouted(f.Bytes(), p.in)
	switch {
	case !ok:
		p.untranslatable(f, reason.Malformed)
	case routed:
		p.untranslatable(f, reason.SourceRouted)
	case p.in.TooManyHeaders():
		p.untranslatable(f, reason.TooManyHeaders)
	default:
		return false
	}
	return true
}

// unmatched deals with a packet that no flow can have: neither TCP, UDP nor ICMP.
func (p *Pipeline) unmatched(f *xdp.Frame) {
	if d := p.decide(f); d.Verdict != nat.Pass {
		p.drop(f, d.Reason)
		return
	}
	p.punt(f)
}
