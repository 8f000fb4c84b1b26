package bench

import "sluice/xdp/lab"

// Serving returns a server that serves other names than those that it is asked.
func Serving(s NameServer, other *Names) NameServer {
	start := s.start
	s.start = func(b *Bed, _ *Names) (*lab.Process, func() error, error) { return start(b, other) }
	return s
}

// SetOrder sets the order of the table.
func (r *QueryReport) SetOrder(servers ...string) { r.order = servers }

// ForgetAnswers leaves only the response codes of what is right.
func (n *Names) ForgetAnswers() {
	for i := range n.questions {
		n.questions[i].reply.Answer = nil
	}
}
