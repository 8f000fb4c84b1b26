package health

import (
	"net/netip"

	"sluice/config/topology"
)

// Target is one endpoint of one service that is to be checked.
type Target struct {
	Service string         // "namespace/name"
	Port    string         // name of the checked service port
	Address netip.AddrPort // of the endpoint, on that port
	Check   topology.HealthCheck
}

// key identifies a target over changes of the topology.
type key struct {
	service, port string
	address       netip.AddrPort
}

func (t *Target) key() key { return key{t.Service, t.Port, t.Address} }

// Targets returns what the topology wants checked: the endpoints of LoadBalancer services with a health check that get
// traffic or may soon, each once.
func Targets(t *topology.Topology) (out []Target) {
	for i := range t.Services {
		s := &t.Services[i]
		if s.Type != topology.LoadBalancer || s.HealthCheck == nil {
			continue
		}
		seen := map[netip.AddrPort]bool{}
		for _, e := range s.Endpoints {
			a := netip.AddrPortFrom(e.Address, e.Ports[s.HealthCheck.Port])
			if !e.Ready && !e.Serving || a.Port() == 0 || seen[a] {
				continue
			}
			seen[a] = true
			out = append(out, Target{Service: s.Key(), Port: s.HealthCheck.Port, Address: a, Check: *s.HealthCheck})
		}
	}
	return out
}
