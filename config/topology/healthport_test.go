package topology

import (
	"fmt"
	"testing"
)

// local makes a service one that needs a health check port.
func local(s *ServiceInput) { s.Type, s.ExternalTrafficPolicy = "LoadBalancer", "Local" }

// TestHealthPortExists gives a health check port to services of every type and policy, asked for and not.
func TestHealthPortExists(t *testing.T) {
	for _, c := range []struct {
		typ, policy string
		external    []string
		has         bool
	}{
		{"LoadBalancer", "Local", nil, true},
		{"LoadBalancer", "Cluster", nil, false},
		{"NodePort", "Local", nil, false},
		{"NodePort", "Cluster", nil, false},
		{"ClusterIP", "Cluster", nil, false},
		{"ClusterIP", "Local", []string{"203.0.113.1"}, false},
	} {
		t.Run(c.typ+c.policy, func(t *testing.T) {
			in := input("10.96.0.0/16")
			addService(in, "s", func(s *ServiceInput) { s.Type, s.ExternalTrafficPolicy, s.ExternalIPs = c.typ, c.policy, c.external })
			s := &resolve(t, in).Services[0]
			if got := s.HealthCheckNodePort; c.has != (got != 0) || c.has && (got < 30086 || got > 32767) {
				t.Errorf("allocated %d", got)
			}
			in.Services[0].HealthCheckNodePort = 30010
			if !c.has {
				expectFaults(t, in, "service[0].health_check_node_port: only for type LoadBalancer")
			} else if got := resolve(t, in).Services[0].HealthCheckNodePort; got != 30010 {
				t.Errorf("asked for 30010, got %d", got)
			}
		})
	}
}

// TestHealthPortWithoutNodePorts allocates one although the service has no NodePorts.
func TestHealthPortWithoutNodePorts(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) { local(s); s.AllocateNodePorts = false })
	if s := resolve(t, in).Services[0]; s.HealthCheckNodePort == 0 || s.Ports[0].NodePort != 0 {
		t.Errorf("health check port %d, node port %d", s.HealthCheckNodePort, s.Ports[0].NodePort)
	}
}

// TestHealthPortRefused asks for numbers that cannot be had.
func TestHealthPortRefused(t *testing.T) {
	for _, c := range []struct {
		name   string
		number int
		change func(*Input)
		want   []string
	}{
		{"first", 30000, nil, nil},
		{"last", 32767, nil, nil},
		{"below", 29999, nil, []string{"service[0].health_check_node_port: 29999 is out of range: expected 30000 to 32767"}},
		{"above", 32768, nil, []string{"service[0].health_check_node_port: 32768 is out of range"}},
		{"negative", -1, nil, []string{"service[0].health_check_node_port: -1 is out of range"}},
		{"beyond 16 bits", 1<<16 + 30000, nil, []string{"service[0].health_check_node_port: 95536 is out of range"}},
		{"its own node port", 30001, func(in *Input) { in.Services[0].Ports[0].NodePort = 30001 },
			[]string{"service[0].health_check_node_port: 30001 belongs to service t/s already"}},
		{"another's node port", 30001, func(in *Input) {
			addService(in, "o", func(s *ServiceInput) { s.Type, s.Ports[0].NodePort = "NodePort", 30001 })
		}, []string{"service[1].port[0].node_port: 30001 belongs to service t/s already"}},
		{"another's health check port", 30001, func(in *Input) {
			addService(in, "o", func(s *ServiceInput) { local(s); s.HealthCheckNodePort = 30001 })
		}, []string{"service[1].health_check_node_port: 30001 belongs to service t/s already"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			addService(in, "s", func(s *ServiceInput) { local(s); s.HealthCheckNodePort = c.number })
			if c.change != nil {
				c.change(in)
			}
			expectFaults(t, in, c.want...)
		})
	}
}

// TestHealthPortPool fills a small range: node ports and health check ports are all different, the same each time, and then
// there is none left.
func TestHealthPortPool(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Cluster.NodePortRange = "30000-30007"
	for i := range 4 {
		addService(in, fmt.Sprintf("s%d", i), local)
	}
	first, again := resolve(t, in), resolve(t, in)
	seen := map[uint16]bool{}
	for i, s := range first.Services {
		for _, n := range []uint16{s.HealthCheckNodePort, s.Ports[0].NodePort} {
			if n < 30000 || n > 30007 || seen[n] {
				t.Errorf("%s has %d", s.Name, n)
			}
			seen[n] = true
		}
		if s.HealthCheckNodePort != again.Services[i].HealthCheckNodePort {
			t.Errorf("%s has %d, then %d", s.Name, s.HealthCheckNodePort, again.Services[i].HealthCheckNodePort)
		}
	}
	addService(in, "s4", func(s *ServiceInput) { local(s); s.AllocateNodePorts = false })
	expectFaults(t, in, "service[4].health_check_node_port: no free number left")
}
