package nat

import "sluice/config/topology"

// Ports is the pool of source ports for full NAT. The zero value is an empty pool.
type Ports struct {
	first uint16
	count uint32
}

// NewPorts returns the pool of the ports in r. Port 0 is no port to send from and never in it.
func NewPorts(r topology.PortRange) Ports {
	first := max(r.First, 1)
	if r.Last < first {
		return Ports{}
	}
	return Ports{first: first, count: uint32(r.Last-first) + 1}
}

// Len returns the number of ports in the pool.
func (p Ports) Len() int { return int(p.count) }

// Search returns the order in which a flow tries the ports: it starts where hash says and visits each port once.
//
// Where it starts and how far it strides both come from hash, which should be the hash of the tuple with a secret
// seed: as with kube-proxy's fully random ports, nobody guesses the next one from the last, and two flows that start
// on one port part at once, so that a well-filled pool has no long runs of taken ports to walk along. The client's
// own port has no precedence, inside the pool or not: it would be a port that an outsider picks.
func (p Ports) Search(hash uint64) PortSearch {
	if p.count == 0 {
		return PortSearch{}
	}
	return PortSearch{
		pool:   p,
		at:     uint32(hash) % p.count,
		stride: coprime(uint32(hash>>32)%p.count, p.count),
		left:   p.count,
	}
}

// PortSearch is a walk over a pool. It is a value of the caller's, for one goroutine.
type PortSearch struct {
	pool       Ports
	at, stride uint32 // offsets into the pool
	left       uint32
}

// Next returns the next port to try, false when all have been visited.
func (s *PortSearch) Next() (uint16, bool) {
	if s.left == 0 {
		return 0, false
	}
	s.left--
	port := s.pool.first + uint16(s.at)
	if s.at += s.stride; s.at >= s.pool.count {
		s.at -= s.pool.count
	}
	return port, true
}

// coprime returns the first number from n on, modulo count, that shares no divisor with count, so that steps of it
// reach every offset. 1 is one, so it ends.
func coprime(n, count uint32) uint32 {
	for ; ; n++ {
		if n %= count; gcd(n, count) == 1 {
			return n
		}
	}
}

// gcd returns the greatest common divisor; gcd(0, 1) is 1.
func gcd(a, b uint32) uint32 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
