package engine

import (
	"net/netip"
	"slices"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/dns"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
)

// TraceResult says what happened to a packet, and why. Its JSON form is stable.
type TraceResult struct {
	Verdict    string    `json:"verdict"`    // forward, drop, reject or pass
	Service    string    `json:"service"`    // "namespace/name:port", "" for none
	Backend    string    `json:"backend"`    // "address:port", "" for none
	Candidates []string  `json:"candidates"` // what the backend was chosen from, sorted
	SNAT       bool      `json:"snat"`
	SNATSource string    `json:"snat_source"` // the address that replaced the packet's source
	Reject     string    `json:"reject"`      // the answer to a rejected packet: "icmp" or "tcp-reset"
	Reason     string    `json:"reason"`      // code of package reason
	Steps      []Step    `json:"steps"`
	Skipped    []Skipped `json:"skipped"` // the endpoints of the service that were no candidates
}

// Skipped is an endpoint that was no candidate, and why.
type Skipped struct {
	Endpoint string `json:"endpoint"` // "address:port", or the address of one that does not serve the port
	Why      string `json:"why"`
}

// traceTime is the time of a traced packet on the pipeline's clock; any will do.
const traceTime = 1e9

// Trace runs one packet through the engine that t compiles to, offline: through the twin of the XDP program and the
// very Pipeline of a worker. The one interface is in memory, with the name of the spec, all endpoints pass their health checks, and every
// destination that is not the gateway itself has a next hop there.
func Trace(t *topology.Topology, spec TraceSpec) (*TraceResult, error) {
	if len(t.DNS.Addresses) > 0 {
		query, err := dns.Query(t.Cluster.Domain, "SOA") // a DNS server is sent a query, and not just any bytes
		if err != nil {
			return nil, err
		}
		spec.payload = query
	}
	frame, err := spec.frame()
	if err != nil {
		return nil, err
	}
	snap, err := control.Build(t, nil, nil)
	if err != nil {
		return nil, err
	}
	b, err := newTraceBench(t, spec.Interface)
	if err != nil {
		return nil, err
	}
	defer b.flows.Close()
	b.pipeline.fromNode = spec.From == FromNode
	if spec.Established {
		if err := b.open(snap, spec); err != nil {
			return nil, err
		}
	}
	e := &explanation{}
	e.arrived(&t.Gateway, spec.Interface)
	if !e.redirected(snap.Rules, spec.From, frame) {
		return e.result(snap.NAT), nil
	}
	b.pipeline.explain = e
	if err := b.run(snap, frame); err != nil {
		return nil, err
	}
	return e.result(snap.NAT), nil
}

// arrived notes an interface that is named and that XDP does not watch: what follows is what would happen if it did.
func (e *explanation) arrived(g *topology.Gateway, iface string) {
	if iface != "" && len(g.Interfaces) > 0 && !slices.Contains(g.Interfaces, iface) {
		e.step("interface", iface, "not in gateway.interfaces: packets that come in there are the kernel's; what follows would be if it were")
	}
}

// redirected reports whether the XDP program would hand the packet to a worker.
func (e *explanation) redirected(rules *xdp.Rules, from Origin, frame []byte) bool {
	switch {
	case from == FromNode:
		e.step("xdp", "skipped", "packets of the gateway's own processes do not pass XDP; a running gateway does not "+
			"translate them yet")
	case !rules.Match(frame):
		e.step("xdp", "pass", "no rule names this packet: it is the kernel's, untouched")
		e.verdict, e.reason = nat.Pass, reason.NotOurs
		return false
	default:
		e.step("xdp", "redirect", "a rule names this packet")
	}
	return true
}

// traceBench is a pipeline without a network.
type traceBench struct {
	port     *xdp.Memory
	flows    *conntrack.Table
	pipeline *Pipeline
}

// offline is where a traced packet goes next: out of the one interface.
type offline struct{ hops *fib.Snapshot }

func (o offline) Current() *fib.Snapshot   { return o.hops }
func (o offline) Resolve(fib.NextHop) bool { return true }

// noKernel takes punted packets of a trace.
type noKernel struct{}

func (noKernel) Punt(int, []byte) bool { return true }

func newTraceBench(t *topology.Topology, iface string) (*traceBench, error) {
	flows, err := conntrack.New(conntrack.Options{MaxFlows: 64, Timeouts: t.Conntrack.Timeouts})
	if err != nil {
		return nil, err
	}
	port := xdp.NewMemory(xdp.MemoryOptions{Interfaces: []xdp.Interface{{Name: iface, MTU: 1500}}, Frames: 64})
	hop := fib.NextHop{State: fib.Ready, MTU: 1500, DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1}}
	routes := []fib.Route{
		{Prefix: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Hop: hop},
		{Prefix: netip.PrefixFrom(netip.IPv6Unspecified(), 0), Hop: hop},
	}
	local := fib.NextHop{State: fib.Local, Iface: -1}
	for _, a := range t.Gateway.LocalAddresses {
		routes = append(routes, fib.Route{Prefix: netip.PrefixFrom(a, a.BitLen()), Hop: local})
	}
	p := NewPipeline(PipelineConfig{Port: port, Flows: flows.Register(), NextHops: offline{fib.Static(1, routes...)},
		Punter: noKernel{}, Counters: &Counters{}, Affinity: nat.NewAffinity(1, 0)})
	return &traceBench{port, flows, p}, nil
}

// open sends the packet that opens the flow which the traced one belongs to.
func (b *traceBench) open(snap *control.Snapshot, spec TraceSpec) error {
	spec.Flags, spec.Established = "", false
	first, err := spec.frame()
	if err != nil {
		return err
	}
	return b.run(snap, first)
}

// run takes one packet through the pipeline.
func (b *traceBench) run(snap *control.Snapshot, frame []byte) error {
	if err := b.port.Deliver(0, frame); err != nil {
		return err
	}
	var frames [1]xdp.Frame
	n := b.port.Receive(frames[:])
	b.pipeline.Process(snap, traceTime, frames[:n])
	return b.port.Flush()
}

// result turns what was seen into the answer.
func (e *explanation) result(t *nat.Table) *TraceResult {
	r := &TraceResult{Verdict: e.verdict.String(), Reason: e.reason.String(), Steps: e.steps, Candidates: []string{},
		Skipped: []Skipped{}}
	for _, s := range e.skipped {
		r.Skipped = append(r.Skipped, Skipped(s))
	}
	if e.verdict == nat.Reject {
		r.Reject = e.answer
	}
	if port := e.port(t); port != nil {
		r.Service = port.String()
	}
	if d := e.decision; d != nil {
		for _, c := range d.Candidates {
			r.Candidates = append(r.Candidates, c.AddrPort.String())
		}
		slices.Sort(r.Candidates)
	}
	if e.verdict == nat.Forward && e.backend.IsValid() {
		r.Backend = e.backend.String()
		if r.SNAT = e.source.IsValid(); r.SNAT {
			r.SNATSource = e.source.String()
		}
	}
	return r
}

// port returns the service port of the packet or of its flow, nil for none.
func (e *explanation) port(t *nat.Table) *nat.Port {
	if e.decision != nil {
		return e.decision.Port
	}
	return t.PortByID(e.service)
}
