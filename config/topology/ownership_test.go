package topology

import "testing"

// TestForeignAddresses asks for addresses that are another's by nature, as external IPs and as VIPs (CVE-2020-8554).
func TestForeignAddresses(t *testing.T) {
	for _, c := range []struct {
		name, addr, want string
	}{
		{"of this node", "198.18.0.10", `is an address of node "gw"`},
		{"of this node, IPv6", "2001:db8:a::10", `is an address of node "gw"`},
		{"of another node", "198.18.0.20", `is an address of node "wk"`},
		{"in the gateway's pod range", "10.64.3.9", "inside the pod range 10.64.0.0/14"},
		{"in the gateway's pod range, IPv6", "fd64:10::9", "inside the pod range fd64:10::/48"},
		{"in a node's pod range", "198.18.64.9", "inside the pod range 198.18.64.0/24"},
		{"of a pod", "198.18.1.11", "is an address of pod shop/cart-0"},
		{"of a pod behind an endpoint", "198.18.1.12", "is an address of pod t/cart-1"},
		{"of an endpoint that is no pod", "198.18.1.13", ""},
		{"in the service range", "10.96.77.77", "inside the service range 10.96.0.0/16"},
		{"of another service", "10.96.0.80", "inside the service range 10.96.0.0/16"},
		{"of DNS", "10.96.0.10", "inside the service range 10.96.0.0/16"},
		{"in the second service range", "fd00:96::9", "inside the service range fd00:96::/112"},
		{"unspecified", "0.0.0.0", "cannot be a service address"},
		{"loopback", "127.0.0.1", "cannot be a service address"},
		{"link-local", "169.254.169.254", "cannot be a service address"},
		{"multicast", "224.0.0.1", "cannot be a service address"},
		{"broadcast", "255.255.255.255", "cannot be a service address"},
		{"link-local, IPv6", "fe80::1", "cannot be a service address"},
		{"nobody's", "203.0.113.1", ""},
	} {
		for _, key := range []string{"external_ips", "load_balancer_ips"} {
			t.Run(c.name+" "+key, func(t *testing.T) {
				in := input("10.96.0.0/16", "fd00:96::/112")
				in.Gateway.PodCIDRs = []string{"10.64.0.0/14", "fd64:10::/48"}
				in.Nodes = append(in.Nodes, NodeInput{Name: "wk", Addresses: []string{"198.18.0.20"}, PodCIDRs: []string{"198.18.64.0/24"}, Ready: true})
				pod := PodInput{Namespace: "shop", Name: "cart-0", Addresses: []string{"198.18.1.11"}}
				pod.SetDefaults()
				in.Pods = []PodInput{pod}
				addService(in, "kube-dns", func(s *ServiceInput) { s.ClusterIPs = []string{"10.96.0.10"} })
				addService(in, "web", func(s *ServiceInput) {
					s.ClusterIPs = []string{"10.96.0.80"}
					s.Endpoints = []EndpointInput{endpoint("198.18.1.12", nil), endpoint("198.18.1.13", nil)}
					s.Endpoints[0].Pod = "cart-1"
				})
				addService(in, "thief", func(s *ServiceInput) {
					if s.ExternalIPs = []string{c.addr}; key == "load_balancer_ips" {
						s.Type, s.ExternalIPs, s.LoadBalancerIPs = "LoadBalancer", nil, []string{c.addr}
					}
				})
				if c.want == "" {
					expectFaults(t, in)
				} else {
					expectFaults(t, in, "service[2]."+key+"[0]: "+c.want)
				}
			})
		}
	}
}

// TestFirstOwner lets two services ask for one address: it is shared where protocol or port differ, and else the first keeps it.
func TestFirstOwner(t *testing.T) {
	external := func(s *ServiceInput) { s.ExternalIPs = []string{"203.0.113.1"} }
	vip := func(s *ServiceInput) { s.Type, s.LoadBalancerIPs = "LoadBalancer", []string{"203.0.113.1"} }
	for _, c := range []struct {
		name          string
		first, second func(*ServiceInput)
		proto         string
		port          int
		want          string
	}{
		{"same", external, external, "TCP", 80, "service[1].external_ips[0]: 203.0.113.1 TCP/80 belongs to service t/first already"},
		{"VIP of an external IP", external, vip, "TCP", 80, "service[1].load_balancer_ips[0]: 203.0.113.1 TCP/80 belongs to service t/first already"},
		{"external IP of a VIP", vip, external, "TCP", 80, "service[1].external_ips[0]: 203.0.113.1 TCP/80 belongs to service t/first already"},
		{"another port", external, vip, "TCP", 81, ""},
		{"another protocol", vip, external, "UDP", 80, ""},
		{"SCTP", vip, external, "SCTP", 80, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			addService(in, "first", c.first)
			addService(in, "second", func(s *ServiceInput) { c.second(s); s.Ports[0].Protocol, s.Ports[0].Port = c.proto, c.port })
			if c.want == "" {
				expectFaults(t, in)
			} else {
				expectFaults(t, in, c.want)
			}
		})
	}
}

// TestBothAddresses has one address as external IP and as VIP of one service, which is no conflict.
func TestBothAddresses(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		s.Type, s.ExternalIPs, s.LoadBalancerIPs = "LoadBalancer", []string{"203.0.113.1"}, []string{"203.0.113.1"}
	})
	resolve(t, in)
}

// TestExternalRanges keeps external IPs to ranges; VIPs are not.
func TestExternalRanges(t *testing.T) {
	for _, c := range []struct {
		name   string
		ranges []string
		addrs  []string
		want   []string
	}{
		{"none given", nil, []string{"203.0.113.1", "2001:db8:1::1"}, nil},
		{"inside", []string{"198.51.100.0/24", "203.0.113.0/28"}, []string{"203.0.113.15", "198.51.100.30"}, nil},
		{"outside", []string{"203.0.113.0/28"}, []string{"203.0.113.15", "203.0.113.16"},
			[]string{"service[0].external_ips[1]: 203.0.113.16 is in none of cluster.external_ip_cidrs"}},
		{"the other family", []string{"203.0.113.0/28"}, []string{"2001:db8:1::1"},
			[]string{"service[0].external_ips[0]: 2001:db8:1::1 is in none of cluster.external_ip_cidrs"}},
		{"inside, and a node's", []string{"0.0.0.0/0"}, []string{"198.18.0.10"}, []string{"service[0].external_ips[0]: is an address of node"}},
		{"range that cannot be read", []string{"203.0.113.0/28", "x"}, []string{"198.51.100.1"}, []string{"cluster.external_ip_cidrs[1]: not a prefix"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			in.Cluster.ExternalIPCIDRs = c.ranges
			addService(in, "s", func(s *ServiceInput) { s.ExternalIPs = c.addrs })
			addService(in, "lb", func(s *ServiceInput) { s.Type, s.LoadBalancerIPs = "LoadBalancer", []string{"198.51.100.99"} })
			expectFaults(t, in, c.want...)
		})
	}
}

// TestRefusedClaim refuses the first claim of an address, so that the second, which is good, has it.
func TestRefusedClaim(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Cluster.ExternalIPCIDRs = []string{"198.51.100.0/24"}
	addService(in, "refused", func(s *ServiceInput) { s.ExternalIPs = []string{"203.0.113.1"} })
	addService(in, "good", func(s *ServiceInput) { s.Type, s.LoadBalancerIPs = "LoadBalancer", []string{"203.0.113.1"} })
	expectFaults(t, in, "service[0].external_ips[0]: is in none of cluster.external_ip_cidrs")
}

// TestPools keeps pools and pods apart, and does not allocate what is a pod's.
func TestPools(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Cluster.LoadBalancerPools = []string{"203.0.113.0/27"}
	in.Gateway.PodCIDRs = []string{"203.0.113.16/28"}
	in.Nodes[0].PodCIDRs = []string{"203.0.0.0/16"}
	expectFaults(t, in, "node[0].pod_cidrs[0]: overlaps the load-balancer pool", "gateway.pod_cidrs[0]: overlaps the load-balancer pool")

	in = input("10.96.0.0/16")
	in.Cluster.LoadBalancerPools = []string{"203.0.113.0/30"} // two addresses
	in.Pods = []PodInput{{Namespace: "t", Name: "p", Addresses: []string{"203.0.113.1"}, Phase: "Running"}}
	addService(in, "s", loadBalancer)
	if got := resolve(t, in).Services[0].LoadBalancerIPs; len(got) != 1 || got[0].String() != "203.0.113.2" {
		t.Errorf("allocated %v", got)
	}
}
