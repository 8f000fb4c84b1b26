package xdp

import (
	"errors"
	"fmt"
)

// Mode says where in the kernel the XDP program runs.
type Mode string

// The modes. Native runs in the driver, before the kernel has made anything of the packet; generic works with every
// interface and is slower; auto takes native where it can be had.
const (
	ModeAuto    Mode = "auto"
	ModeNative  Mode = "native"
	ModeGeneric Mode = "generic"
)

// The drivers.
const (
	DriverAFXDP  = "afxdp"  // our own rings
	DriverAsavie = "asavie" // github.com/asavie/xdp
)

// Options says which sockets to open.
type Options struct {
	Interfaces []string
	Driver     string // DriverAFXDP when empty
	Mode       Mode   // the mode the program will be attached in; ModeAuto when empty
	Queues     int    // the number of receive queues that every interface must have; 0: as many as each has
	Ring       int    // entries of each ring, a power of two; 2048 when 0
}

// Sockets are the opened sockets of all workers.
type Sockets struct {
	Interfaces []Interface
	Ports      []Port // one for each worker
	Mode       Mode   // as asked for in Options
	queues     []queueSocket
}

// queueSocket is the socket that serves a queue.
type queueSocket struct {
	queueID
	fd int
}

// queuePort is a Port that has one socket for each of its queues.
type queuePort interface {
	Port
	queues() []queueSocket
	Audit() (Audit, error)
}

// Open opens a socket on every receive queue of every interface and deals them out to workers. The interfaces are looked up
// in the network namespace of the calling thread. No packet comes before Attach.
func Open(o Options) (*Sockets, error) {
	ifaces, err := lookupInterfaces(o.Interfaces)
	if err != nil {
		return nil, err
	}
	if err := checkQueues(ifaces, o.Queues); err != nil {
		return nil, err
	}
	if o.Ring == 0 {
		o.Ring = defaultRing
	}
	if o.Mode == "" {
		o.Mode = ModeAuto
	}
	s := &Sockets{Interfaces: ifaces, Mode: o.Mode}
	for _, queues := range plan(ifaces) {
		p, err := openPort(ifaces, queues, &o)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.Ports = append(s.Ports, p)
		s.queues = append(s.queues, p.queues()...)
	}
	return s, nil
}

// openPort opens the sockets of one worker.
func openPort(ifaces []Interface, queues []queueID, o *Options) (queuePort, error) {
	switch o.Driver {
	case "", DriverAFXDP:
		return openAFXDP(ifaces, queues, o)
	case DriverAsavie:
		return openAsavie(ifaces, queues, o)
	}
	return nil, fmt.Errorf("driver %q: must be %s or %s", o.Driver, DriverAFXDP, DriverAsavie)
}

// Close closes all Ports. The workers must have stopped.
func (s *Sockets) Close() error {
	var errs []error
	for _, p := range s.Ports {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
