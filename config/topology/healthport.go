package topology

import "fmt"

// needsHealthPort reports whether load balancers ask a port of the nodes for the local endpoints of a service (Kubernetes'
// NeedsHealthCheck).
func needsHealthPort(s *Service) bool {
	return s.Type == LoadBalancer && s.ExternalTrafficPolicy == PolicyLocal
}

// requestedHealthPort takes the health check port that a service asks for. It comes out of the same range as node ports, and no
// node port can be the same, not even one of this service.
func (r *resolver) requestedHealthPort(s serviceAt) {
	number, path, np := s.in.HealthCheckNodePort, s.path+".health_check_node_port", r.out.Cluster.NodePortRange
	switch {
	case number == 0:
		return
	case !needsHealthPort(s.out):
		r.hinted(path, "leave it out", "only for type LoadBalancer with external_traffic_policy \"Local\", this is %s with %q",
			s.in.Type, s.in.ExternalTrafficPolicy)
		return
	case number < int(np.First) || number > int(np.Last):
		r.fault(path, "%d is out of range: expected %d to %d (cluster.node_port_range)", number, np.First, np.Last)
		return
	}
	if owner := r.owners.nodePort[uint16(number)]; owner != "" {
		r.fault(path, "%d belongs to service %s already", number, owner)
		return
	}
	s.out.HealthCheckNodePort = uint16(number)
	r.owners.nodePort[uint16(number)] = s.out.Key()
	r.owners.healthPort[uint16(number)] = true
}

// allocateHealthPort gives a service a health check port where the rules need one and it has neither asked for one nor kept one.
func (r *resolver) allocateHealthPort(s serviceAt) {
	if !needsHealthPort(s.out) || s.in.HealthCheckNodePort != 0 || s.out.HealthCheckNodePort != 0 {
		return
	}
	number, ok := r.newNodePort(fmt.Sprintf("%s:health", s.out.Key()))
	if !ok {
		r.fault(s.path+".health_check_node_port", "no free number left in cluster.node_port_range")
		return
	}
	s.out.HealthCheckNodePort = number
	r.owners.nodePort[number] = s.out.Key()
}
