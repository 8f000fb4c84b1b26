package traffic

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// Attachment is one of the programs attached to an interface in native mode, with its counters.
type Attachment struct {
	objs trafficObjects
	link link.Link
}

// attach loads the programs with the variables set, and attaches the one that pick returns.
func attach(host Host, ifindex int, vars map[string]any, pick func(*trafficObjects) *ebpf.Program) (*Attachment, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, err
	}
	for name, v := range vars {
		if err := spec.Variables[name].Set(v); err != nil {
			return nil, fmt.Errorf("variable %s: %w", name, err)
		}
	}
	a := &Attachment{}
	if err := spec.LoadAndAssign(&a.objs, nil); err != nil {
		return nil, fmt.Errorf("loading: %w", err)
	}
	err = host.Do(func() (err error) {
		a.link, err = link.AttachXDP(link.XDPOptions{Program: pick(&a.objs), Interface: ifindex, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("attaching to interface %d: %w", ifindex, err), a.objs.Close())
	}
	return a, nil
}

// NewSink counts and drops UDP datagrams to port that arrive on an interface.
func NewSink(host Host, ifindex int, port uint16) (*Attachment, error) {
	vars := map[string]any{"sink_port": port<<8 | port>>8}
	return attach(host, ifindex, vars, func(o *trafficObjects) *ebpf.Program { return o.Sink })
}

// NewForwarder sends every IPv4 frame that arrives on an interface out of another, with new link-layer addresses.
func NewForwarder(host Host, ifindex, out int, src, dst [6]byte) (*Attachment, error) {
	vars := map[string]any{"out_ifindex": uint32(out), "own_mac": src, "next_hop": dst}
	return attach(host, ifindex, vars, func(o *trafficObjects) *ebpf.Program { return o.Forward })
}

// Prepare makes the peer of a veth able to take redirected frames, by attaching a program that passes everything.
func Prepare(host Host, ifindex int) (*Attachment, error) {
	return attach(host, ifindex, nil, func(o *trafficObjects) *ebpf.Program { return o.Pass })
}

// NewEcho returns every UDP datagram to port that arrives on an interface to its sender, marked as a DNS reply: the server that does
// nothing. The peer must be able to take redirected frames.
func NewEcho(host Host, ifindex int, port uint16) (*Attachment, error) {
	vars := map[string]any{"sink_port": port<<8 | port>>8}
	return attach(host, ifindex, vars, func(o *trafficObjects) *ebpf.Program { return o.Echo })
}

// NewReplyCounter counts and drops DNS replies from port that arrive on an interface.
func NewReplyCounter(host Host, ifindex int, port uint16) (*Attachment, error) {
	vars := map[string]any{"sink_port": port<<8 | port>>8}
	return attach(host, ifindex, vars, func(o *trafficObjects) *ebpf.Program { return o.Replies })
}

// The counters of an Attachment.
const (
	forwarded = iota // by the forwarder
	received         // by the sink: datagrams to its port
	others           // by the sink: all else
	replies          // by the reply counter: replies with response code 0, followed by those with the others
)

// RCodes is the number of response codes that the header of a DNS message can hold.
const RCodes = 16

// Received returns how many datagrams the sink has counted.
func (a *Attachment) Received() (uint64, error) { return a.total(received) }

// Others returns how many other frames came to the sink.
func (a *Attachment) Others() (uint64, error) { return a.total(others) }

// Replies returns how many replies of each response code the reply counter has counted.
func (a *Attachment) Replies() (n [RCodes]uint64, err error) {
	for rcode := range n {
		if n[rcode], err = a.total(uint32(replies + rcode)); err != nil {
			return n, err
		}
	}
	return n, nil
}

// Forwarded returns how many frames the forwarder has sent on.
func (a *Attachment) Forwarded() (uint64, error) { return a.total(forwarded) }

// total sums a counter over the CPUs.
func (a *Attachment) total(key uint32) (uint64, error) {
	var perCPU []uint64
	if err := a.objs.Counts.Lookup(key, &perCPU); err != nil {
		return 0, fmt.Errorf("reading counter %d: %w", key, err)
	}
	var n uint64
	for _, v := range perCPU {
		n += v
	}
	return n, nil
}

// Close detaches and unloads.
func (a *Attachment) Close() error { return errors.Join(a.link.Close(), a.objs.Close()) }
