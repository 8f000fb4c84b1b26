package xdp

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/rlimit"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/xdp/bpf"
)

// Attachment is the XDP program at work on a set of interfaces. It is not pinned: when the process ends, however it ends,
// the kernel detaches the program and every packet goes to the kernel again.
//
// Concurrency: the methods may be called from any goroutine.
type Attachment struct {
	mu       sync.Mutex // guards rules and closed
	closed   bool
	rules    *ruleMaps
	programs []*program
}

// Attached says how the program is attached to an interface.
type Attached struct {
	Interface string `json:"interface"`
	Mode      Mode   `json:"mode"`               // ModeNative or ModeGeneric
	Fallback  string `json:"fallback,omitempty"` // why native was not to be had
}

// ClassifyStats counts what the program did with the packets of an interface. All values only grow.
type ClassifyStats struct {
	Interface  string `json:"interface"`
	Passed     uint64 `json:"passed"`     // not ours: left to the kernel
	Redirected uint64 `json:"redirected"` // ours: given to a socket, which may still have had no room for it
	NoSocket   uint64 `json:"no_socket"`  // ours, and dropped, since no socket serves the queue it came in on
}

// Attach attaches the program to the interfaces of s, with their sockets and the given rules in place from the first
// packet on. The interfaces are those of the network namespace of the calling thread. The program needs Linux 5.12 or newer
// (pointer arguments of global BPF functions); XDP_SHARED_UMEM over several interfaces, which Open uses, came in 5.10.
func Attach(s *Sockets, r *Rules) (*Attachment, error) {
	if err := rlimit.RemoveMemlock(); err != nil {
		return nil, fmt.Errorf("locked memory limit: %w", err)
	}
	spec, err := bpf.LoadClassify()
	if err != nil {
		return nil, err
	}
	a := &Attachment{}
	if a.rules, err = newRuleMaps(spec, r); err != nil {
		return nil, err
	}
	for i := range s.Interfaces {
		if err := a.add(s, i); err != nil {
			return nil, errors.Join(fmt.Errorf("interface %s: %w", s.Interfaces[i].Name, err), a.Close())
		}
	}
	return a, nil
}

// add loads the program for interface i of s, and attaches it.
func (a *Attachment) add(s *Sockets, i int) error {
	p, err := loadProgram(a.rules, s.Interfaces[i].Queues)
	if err != nil {
		return err
	}
	a.programs = append(a.programs, p)
	p.name = s.Interfaces[i].Name
	mode := s.Mode
	for _, q := range s.queues {
		if q.iface != i {
			continue
		}
		if mode == ModeAuto && zeroCopy(q.fd) {
			mode = ModeNative // generic XDP sees nothing of a queue in zero-copy mode
		}
		if err := p.objects.Sockets.Put(uint32(q.queue), uint32(q.fd)); err != nil {
			return fmt.Errorf("registering the socket of queue %d: %w", q.queue, err)
		}
	}
	return p.attach(s.Interfaces[i].Index, mode)
}

// SetRules replaces the rules. A packet that is ours before and after is ours all the while. On an error the rules are
// those from before.
func (a *Attachment) SetRules(r *Rules) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rules.replace(r)
}

// Interfaces returns how the program is attached to each interface.
func (a *Attachment) Interfaces() []Attached {
	out := make([]Attached, len(a.programs))
	for i, p := range a.programs {
		out[i] = Attached{Interface: p.name, Mode: p.mode, Fallback: p.fallback}
	}
	return out
}

// Stats returns the counters of each interface.
func (a *Attachment) Stats() ([]ClassifyStats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, errors.New("the XDP program is detached")
	}
	out := make([]ClassifyStats, len(a.programs))
	for i, p := range a.programs {
		c, err := p.counts()
		if err != nil {
			return nil, fmt.Errorf("interface %s: %w", p.name, err)
		}
		out[i] = ClassifyStats{p.name, c.Passed, c.Redirected, c.NoSocket}
	}
	return out, nil
}

// Close detaches the program.
func (a *Attachment) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	a.closed = true
	var errs []error
	for _, p := range a.programs {
		errs = append(errs, p.close())
	}
	return errors.Join(append(errs, a.rules.close())...)
}

// program is one loaded copy of sluice_classify: it differs from the others in its sockets and counters.
type program struct {
	name     string // of the interface
	objects  bpf.ClassifyObjects
	link     link.Link // nil until attached
	mode     Mode
	fallback string
}

// loadProgram loads a copy for an interface with this many queues.
func loadProgram(rules *ruleMaps, queues int) (*program, error) {
	spec, err := bpf.LoadClassify()
	if err != nil {
		return nil, err
	}
	spec.Maps[bpf.ClassifyMapSockets].MaxEntries = uint32(queues)
	p := &program{}
	err = spec.LoadAndAssign(&p.objects, &ebpf.CollectionOptions{MapReplacements: rules.byName})
	if err != nil {
		return nil, fmt.Errorf("loading the XDP program: %w", err)
	}
	return p, nil
}

// attach attaches the program in the wanted mode; auto tries native first.
func (p *program) attach(ifindex int, want Mode) error {
	if err := foreign(ifindex); err != nil {
		return err
	}
	var native error
	if want != ModeGeneric {
		if native = p.attachAs(ifindex, ModeNative); native == nil || want == ModeNative {
			return native
		}
		p.fallback = native.Error()
	}
	if err := p.attachAs(ifindex, ModeGeneric); err != nil {
		return errors.Join(native, err)
	}
	return nil
}

func (p *program) attachAs(ifindex int, mode Mode) error {
	flags := link.XDPDriverMode
	if mode == ModeGeneric {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p.objects.SluiceClassify, Interface: ifindex, Flags: flags})
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.EEXIST) {
		err = errors.Join(foreign(ifindex), err)
	}
	if err != nil {
		return fmt.Errorf("attaching in %s mode: %w", mode, err)
	}
	p.link, p.mode = l, mode
	return nil
}

// foreign returns an error that names the XDP program which is attached to the interface already, nil when there is none.
func foreign(ifindex int) error {
	l, err := netlink.LinkByIndex(ifindex)
	if err != nil {
		return err
	}
	attrs := l.Attrs()
	if attrs.Xdp == nil || !attrs.Xdp.Attached {
		return nil
	}
	name := "unnamed"
	if prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(attrs.Xdp.ProgId)); err == nil {
		if info, err := prog.Info(); err == nil && info.Name != "" {
			name = info.Name
		}
		if err := prog.Close(); err != nil {
			return err
		}
	}
	return fmt.Errorf("XDP program %d (%s) is attached already: stop its owner, or remove it with ip link set dev %s xdp off",
		attrs.Xdp.ProgId, name, attrs.Name)
}

// counts adds up the counters of all processors.
func (p *program) counts() (sum bpf.ClassifyCounts, err error) {
	var each []bpf.ClassifyCounts
	if err := p.objects.Counters.Lookup(uint32(0), &each); err != nil {
		return sum, fmt.Errorf("reading counters: %w", err)
	}
	for _, c := range each {
		sum.Passed += c.Passed
		sum.Redirected += c.Redirected
		sum.NoSocket += c.NoSocket
	}
	return sum, nil
}

func (p *program) close() error {
	var errs []error
	if p.link != nil {
		errs = append(errs, p.link.Close())
	}
	return errors.Join(append(errs, p.objects.Close())...)
}
