package topology

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// input returns an input with one node and the given service ranges.
func input(cidrs ...string) *Input {
	in := NewInput()
	in.Gateway.Node = "gw"
	in.Nodes = []NodeInput{{Name: "gw", Addresses: []string{"198.18.0.10", "2001:db8:a::10"}}}
	in.Cluster.ServiceCIDRs = cidrs
	return in
}

// addService adds a service with one port.
func addService(in *Input, name string, change func(*ServiceInput)) {
	s := ServiceInput{Namespace: "t", Name: name}
	s.SetDefaults()
	p := PortInput{Port: 80}
	p.SetDefaults()
	s.Ports = []PortInput{p}
	if change != nil {
		change(&s)
	}
	in.Services = append(in.Services, s)
}

func resolve(t *testing.T, in *Input) *Topology {
	t.Helper()
	top, faults := Resolve(in)
	if len(faults) > 0 {
		t.Fatalf("%v", faults)
	}
	return top
}

func find(t *testing.T, top *Topology, name string) *Service {
	t.Helper()
	i := slices.IndexFunc(top.Services, func(s Service) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no service %s", name)
	}
	return &top.Services[i]
}

// expectFaults resolves an input and compares the faults; an expected one is path: part of the message.
func expectFaults(t *testing.T, in *Input, want ...string) {
	t.Helper()
	_, faults := Resolve(in)
	bad := len(faults) != len(want)
	for i := range want {
		path, message, _ := strings.Cut(want[i], ": ")
		bad = bad || faults[i].Path != path || !strings.Contains(faults[i].Message, message)
	}
	if bad {
		t.Errorf("got %v, want %v", faults, want)
	}
}

func loadBalancer(s *ServiceInput) { s.Type = "LoadBalancer" }

// many returns an input with load balancers a0, a1 and so on.
func many(n int) *Input {
	in := input("10.96.0.0/20", "fd00:96::/112")
	in.Cluster.LoadBalancerPools = []string{"203.0.113.0/24", "2001:db8:f::/112"}
	for i := range n {
		addService(in, fmt.Sprintf("a%d", i), func(s *ServiceInput) { s.Type, s.IPFamilyPolicy = "LoadBalancer", "PreferDualStack" })
	}
	return in
}

func TestAllocationIsStable(t *testing.T) {
	before := resolve(t, many(120))
	if !reflect.DeepEqual(before, resolve(t, many(120))) {
		t.Error("the same input gave another topology")
	}
	after := resolve(t, many(160))
	seen, ports := map[netip.Addr]string{}, map[uint16]string{}
	for i := range after.Services {
		s := &after.Services[i]
		for _, a := range slices.Concat(s.ClusterIPs, s.LoadBalancerIPs) {
			if seen[a] != "" {
				t.Errorf("%v is of %s and %s", a, seen[a], s.Name)
			}
			seen[a] = s.Name
		}
		if n := s.Ports[0].NodePort; ports[n] != "" {
			t.Errorf("%d is of %s and %s", n, ports[n], s.Name)
		}
		ports[s.Ports[0].NodePort] = s.Name
	}
	for i := range before.Services {
		if s := &before.Services[i]; !reflect.DeepEqual(s, find(t, after, s.Name)) {
			t.Errorf("%s has moved", s.Name)
		}
	}
}

// TestRequestsComeFirst asks, in the last service, for what the first one would be given.
func TestRequestsComeFirst(t *testing.T) {
	given := find(t, resolve(t, many(1)), "a0")
	in := many(1)
	addService(in, "z", func(s *ServiceInput) {
		s.Type, s.ClusterIPs = "LoadBalancer", []string{given.ClusterIPs[0].String()}
		s.LoadBalancerIPs = []string{given.LoadBalancerIPs[0].String()}
		s.Ports[0].Port, s.Ports[0].NodePort = 81, int(given.Ports[0].NodePort)
	})
	top := resolve(t, in)
	a, z := find(t, top, "a0"), find(t, top, "z")
	if z.ClusterIPs[0] != given.ClusterIPs[0] || z.LoadBalancerIPs[0] != given.LoadBalancerIPs[0] || z.Ports[0].NodePort != given.Ports[0].NodePort {
		t.Errorf("z has %+v", z)
	}
	if a.ClusterIPs[0] == z.ClusterIPs[0] || a.LoadBalancerIPs[0] == z.LoadBalancerIPs[0] || a.Ports[0].NodePort == z.Ports[0].NodePort {
		t.Errorf("both have the same: %+v", a)
	}
}

func TestDynamicBand(t *testing.T) {
	for _, s := range resolve(t, many(120)).Services {
		if s.ClusterIPs[0].Less(netip.MustParseAddr("10.96.1.1")) || s.ClusterIPs[1].Less(netip.MustParseAddr("fd00:96::101")) ||
			s.Ports[0].NodePort < 30086 {
			t.Errorf("%s is in a static band: %v %d", s.Name, s.ClusterIPs, s.Ports[0].NodePort)
		}
	}
}

func TestExhaustion(t *testing.T) {
	in := input("10.96.0.0/30")
	in.Cluster.LoadBalancerPools = []string{"203.0.113.8/30"}
	in.Cluster.NodePortRange = "30000-30001"
	for _, name := range []string{"a", "b", "c"} {
		addService(in, name, loadBalancer)
	}
	expectFaults(t, in,
		"service[2].cluster_ips: no free address left in cluster.service_cidrs",
		"service[2].load_balancer_ips: no free address left in cluster.load_balancer_pools",
		"service[2].port[0].node_port: no free number left in cluster.node_port_range")
}

func TestFamilies(t *testing.T) {
	for _, c := range []struct {
		policy        string
		families, ips []string
		cidrs         string
		want          string // families of the ClusterIPs, or part of a fault
	}{
		{"", nil, nil, "46", "4"},
		{"", nil, nil, "64", "6"},
		{"SingleStack", nil, nil, "46", "4"},
		{"PreferDualStack", nil, nil, "46", "46"},
		{"PreferDualStack", nil, nil, "4", "4"},
		{"RequireDualStack", nil, nil, "64", "64"},
		{"RequireDualStack", nil, nil, "4", "one family only"},
		{"", []string{"IPv6"}, nil, "46", "6"},
		{"", []string{"IPv6", "IPv4"}, nil, "46", "64"},
		{"SingleStack", []string{"IPv6", "IPv4"}, nil, "46", "SingleStack with two families"},
		{"PreferDualStack", []string{"IPv6"}, nil, "46", "64"},
		{"", []string{"IPv6"}, nil, "4", "no IPv6 range"},
		{"", []string{"IPv4", "IPv4"}, nil, "46", "IPv4 is there twice"},
		{"Dual", nil, nil, "46", `"Dual" is not allowed`},
		{"", nil, []string{"fd00:96::9"}, "46", "6"},
		{"SingleStack", nil, []string{"fd00:96::9"}, "46", "6"},
		{"PreferDualStack", nil, []string{"fd00:96::9"}, "46", "64"},
		{"", nil, []string{"fd00:96::9", "10.96.0.9"}, "46", "64"},
		{"SingleStack", nil, []string{"fd00:96::9", "10.96.0.9"}, "46", "SingleStack with two families"},
		{"", []string{"IPv4"}, []string{"fd00:96::9"}, "46", "does not go with ip_families"},
		{"", []string{"IPv4", "IPv6"}, []string{"10.96.0.9"}, "46", "46"},
		{"", []string{"IPv4", "IPv6"}, []string{"fd00:96::9", "10.96.0.9"}, "46", "does not go with ip_families"},
	} {
		t.Run(fmt.Sprintf("%s %v %v %s", c.policy, c.families, c.ips, c.cidrs), func(t *testing.T) {
			cidrs := map[string][]string{"4": {"10.96.0.0/16"}, "46": {"10.96.0.0/16", "fd00:96::/112"}, "64": {"fd00:96::/112", "10.96.0.0/16"}}
			in := input(cidrs[c.cidrs]...)
			addService(in, "s", func(s *ServiceInput) { s.IPFamilyPolicy, s.IPFamilies, s.ClusterIPs = c.policy, c.families, c.ips })
			top, faults := Resolve(in)
			got := ""
			if len(faults) > 0 {
				got = faults[0].Message
			} else {
				for _, a := range top.Services[0].ClusterIPs {
					got += map[bool]string{true: "4", false: "6"}[a.Is4()]
				}
			}
			if got != c.want && (len(faults) != 1 || !strings.Contains(got, c.want)) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSharedNodePorts gives a service ports of one number with several protocols.
func TestSharedNodePorts(t *testing.T) {
	ports := func(list ...PortInput) func(*ServiceInput) {
		return func(s *ServiceInput) { s.Type, s.Ports = "NodePort", list }
	}
	in := input("10.96.0.0/16")
	addService(in, "dns", ports(PortInput{"u", "UDP", 53, nil, 0}, PortInput{"t", "TCP", 53, nil, 0}))
	addService(in, "asked", ports(PortInput{"u", "UDP", 53, nil, 0}, PortInput{"t", "TCP", 53, nil, 30053}))
	addService(in, "clash", ports(PortInput{"a", "TCP", 80, nil, 30080}, PortInput{"b", "UDP", 80, nil, 0}, PortInput{"c", "UDP", 81, nil, 30080}))
	top := resolve(t, in)
	if p := find(t, top, "dns").Ports; p[0].NodePort == 0 || p[0].NodePort != p[1].NodePort {
		t.Errorf("dns has %+v", p)
	}
	if p := find(t, top, "asked").Ports; p[0].NodePort != 30053 || p[1].NodePort != 30053 {
		t.Errorf("asked has %+v", p)
	}
	if p := find(t, top, "clash").Ports; p[1].NodePort == 0 || p[1].NodePort == 30080 {
		t.Errorf("clash has %+v", p)
	}
}

// TestOverlappingRanges asks for the broadcast address of one range that is an ordinary address of another.
func TestOverlappingRanges(t *testing.T) {
	in := input("10.96.1.0/24", "10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) { s.ClusterIPs = []string{"10.96.1.255"} })
	resolve(t, in)
}
