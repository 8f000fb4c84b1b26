package topology

import "fmt"

// Fault is one thing that is wrong with an Input.
type Fault struct {
	Path    string // of the key at fault, such as "service[3].port[0].node_port"
	Message string // what is wrong, and what was expected
	Hint    string // what to do, "" when the message says it
}

// String formats the fault for messages.
func (f Fault) String() string {
	s := f.Path + ": " + f.Message
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// resolver collects faults on the way from an Input to a Topology.
type resolver struct {
	in     *Input
	out    *Topology
	faults []Fault
	nodes  map[string]*Node // by name
	owners owners
	routes []routeAt

	podsByLabel podIndex
	kept        map[string]ServiceState // what services had before, by key
	state       *State                  // what is to be remembered
	share       sharer
}

func (r *resolver) fault(path, format string, args ...any) {
	r.faults = append(r.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...)})
}

func (r *resolver) hinted(path, hint, format string, args ...any) {
	r.faults = append(r.faults, Fault{Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}
