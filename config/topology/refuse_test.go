package topology

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// endpoint returns an endpoint with its defaults.
func endpoint(address string, ports map[string]int) EndpointInput {
	e := EndpointInput{Address: address, Ports: ports}
	e.SetDefaults()
	return e
}

// TestRefused changes one thing of a good topology and compares the faults, by path and part of the message; none: it is good.
func TestRefused(t *testing.T) {
	long := strings.Repeat("a", 64)
	service := func(change func(*ServiceInput)) func(*Input) {
		return func(in *Input) { addService(in, "s", change) }
	}
	health := func(change func(*HealthCheckInput)) func(*Input) {
		return service(func(s *ServiceInput) {
			s.Type, s.HealthCheck = "LoadBalancer", &HealthCheckInput{}
			s.HealthCheck.SetDefaults()
			change(s.HealthCheck)
		})
	}
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"no endpoints", service(nil), nil},
		{"domain in capitals", func(in *Input) { in.Cluster.Domain = "Cluster.LOCAL." }, nil},
		{"no domain", func(in *Input) { in.Cluster.Domain = "" }, []string{"cluster.domain: not a DNS name"}},
		{"long label in the domain", func(in *Input) { in.Cluster.Domain = long + ".local" }, []string{"cluster.domain: not a DNS name"}},
		{"node address in the service range", func(in *Input) { in.Nodes[0].Addresses = []string{"bad", "10.96.0.10"} },
			[]string{"node[0].addresses[0]: not an IP address", "node[0].addresses[1]: inside the service range"}},
		{"node address unspecified", func(in *Input) { in.Nodes[0].Addresses = []string{"0.0.0.0"} }, []string{"node[0].addresses[0]: cannot be an address of a node"}},
		{"node name in capitals", func(in *Input) { in.Nodes = append(in.Nodes, NodeInput{Name: "W"}) }, []string{"node[1].name: not a DNS name"}},
		{"loopback pool", func(in *Input) { in.Cluster.LoadBalancerPools = []string{"127.0.0.0/24"} }, []string{"cluster.load_balancer_pools[0]: overlaps 127.0.0.0/8"}},
		{"all as pool", func(in *Input) { in.Cluster.LoadBalancerPools = []string{"x", "0.0.0.0/0"} },
			[]string{"cluster.load_balancer_pools[0]: not a prefix", "cluster.load_balancer_pools[1]: overlaps 0.0.0.0/32", "cluster.load_balancer_pools[1]: overlaps the service range"}},
		{"bad service range", func(in *Input) { in.Cluster.ServiceCIDRs = []string{""}; addService(in, "s", nil) }, []string{"cluster.service_cidrs[0]: not a prefix"}},
		{"mode of pods", func(in *Input) { in.DNS.Pods = "all" }, []string{`dns.pods: expected "disabled", "insecure" or "verified"`}},
		{"namespace of DNS", func(in *Input) { in.DNS.Namespaces = []string{"shop", "Ops"} }, []string{"dns.namespaces[1]: not a DNS label"}},
		{"zones without endpoints", func(in *Input) { in.DNS.Zonal, in.DNS.NoEndpoints = true, true }, []string{"dns.zonal: dns.no_endpoints"}},
		{"external zone", func(in *Input) { in.DNS.ExternalZone = "a..b" }, []string{"dns.external_zone: not a DNS name"}},
		{"external zone is the domain", func(in *Input) { in.DNS.ExternalZone = "Cluster.local." }, []string{"dns.external_zone: is cluster.domain"}},
		{"external zone below the domain", func(in *Input) { in.DNS.ExternalZone = "out.cluster.local" }, nil},
		{"search domains", func(in *Input) { in.DNS.Search = []string{"corp.example.", "a b"} }, []string{"dns.search[1]: \"a b\" is not a domain"}},
		{"many search domains", func(in *Input) { in.DNS.Search = slices.Repeat([]string{"corp.example"}, 30) }, []string{"dns.search: 30 domains"}},
		{"who may transfer", func(in *Input) { in.DNS.TransferTo = []string{"ns2", "198.18.0.1/24", "::ffff:198.18.0.1"} },
			[]string{"dns.transfer_to[0]: \"ns2\" is not an IP address", "dns.transfer_to[1]: ", "dns.transfer_to[2]: "}},
		{"servers to forward to", func(in *Input) {
			in.DNS.Address = "198.19.0.10"
			in.DNS.Forward = []string{"ns1", "198.18.0.1:0", "::ffff:198.18.0.1", "fe80::1%eth0", "198.18.0.53", "198.18.0.53:53", "0.0.0.0", "198.19.0.10"}
		}, []string{`dns.forward[0]: "ns1" is not a server`, "dns.forward[1]: ", "dns.forward[2]: ", "dns.forward[3]: ", "dns.forward[5]: there twice",
			"dns.forward[6]: 0.0.0.0 cannot be", "dns.forward[7]: in a circle"}},
		{"many servers", func(in *Input) {
			for i := range 16 {
				in.DNS.Forward = append(in.DNS.Forward, fmt.Sprintf("198.18.0.%d", i+1))
			}
		}, []string{"dns.forward: 16 servers: expected 15"}},
		{"stub domains", func(in *Input) {
			server := []string{"198.18.0.53"}
			in.DNS.ExternalZone = "out.example"
			in.DNS.Stub = map[string][]string{"a b": server, "x.cluster.local": server, "Out.example.": server, "corp.example": nil,
				"lab.example": server, "lab.example.": server, ".": server}
		}, []string{`dns.stub..: "." is not a domain`, "dns.stub.Out.example.: answered from this topology", `dns.stub.a b: "a b" is not a domain`,
			"dns.stub.corp.example: no server", `dns.stub.lab.example.: "lab.example" is there twice`, "dns.stub.x.cluster.local: answered from this topology"}},
		{"certificate without key", func(in *Input) { in.DNS.TLSCertificate = "/a.pem" }, []string{"dns.tls_key: missing"}},
		{"key without certificate", func(in *Input) { in.DNS.TLSKey = "/a.pem" }, []string{"dns.tls_certificate: missing"}},
		{"certificate and key", func(in *Input) { in.DNS.TLSCertificate, in.DNS.TLSKey = "/a.pem", "/b.pem" }, nil},
		{"long answer of CHAOS", func(in *Input) { in.DNS.Chaos = strings.Repeat("a", 256) }, []string{"dns.chaos: 256 bytes"}},
		{"longest answer of CHAOS", func(in *Input) { in.DNS.Chaos = strings.Repeat("a", 255) }, nil},
		{"metrics port", func(in *Input) { in.Gateway.Metrics = "127.0.0.1:65536" }, []string{"gateway.metrics: not an address to listen on"}},
		{"bad cluster IP without a range", func(in *Input) {
			in.Cluster.ServiceCIDRs = nil
			addService(in, "s", func(s *ServiceInput) { s.ClusterIPs = []string{"none"} })
		}, []string{"service[0].cluster_ips[0]: not an IP address"}},
		{"endless timeout", func(in *Input) { in.Conntrack.UDP = "2000000h" }, []string{"conntrack.udp: too long"}},
		{"overflowing timeout", func(in *Input) { in.Conntrack.UDP = "9999999999h" }, []string{"conntrack.udp: not a duration"}},
		{"negative timeout", func(in *Input) { in.Conntrack.UDP = "-1s" }, []string{"conntrack.udp: not a duration"}},
		{"no interval", health(func(h *HealthCheckInput) { h.Interval = "" }), []string{"service[0].health_check.interval: not a duration"}},
		{"no timeout", health(func(h *HealthCheckInput) { h.Timeout = "" }), []string{"service[0].health_check.timeout: not a duration"}},
		{"no names", service(func(s *ServiceInput) { s.Name, s.Namespace = "", "" }),
			[]string{"service[0].namespace: missing", "service[0].name: missing"}},
		{"long name", service(func(s *ServiceInput) { s.Name = long }), []string{"service[0].name: not a DNS label"}},
		{"long port name", service(func(s *ServiceInput) { s.Ports[0].Name = long }), []string{"service[0].port[0].name: not a DNS label"}},
		{"port 0", service(func(s *ServiceInput) { s.Ports[0].Port = 0 }), []string{"service[0].port[0].port: 0 or missing"}},
		{"port 65536", service(func(s *ServiceInput) { s.Ports[0].Port = 65536 }), []string{"service[0].port[0].port: port 65536 is out of range"}},
		{"target port -1", service(func(s *ServiceInput) { s.Ports[0].TargetPort = int64(-1) }), []string{"service[0].port[0].target_port: port -1 is out of range"}},
		{"node port beyond 16 bits", service(func(s *ServiceInput) { s.Type, s.Ports[0].NodePort = "NodePort", 1<<16+30000 }),
			[]string{"service[0].port[0].node_port: 95536 is out of range"}},
		{"endpoint port -1", service(func(s *ServiceInput) { s.Endpoints = []EndpointInput{endpoint("10.64.0.1", map[string]int{"": -1})} }),
			[]string{"service[0].endpoint[0].ports.: port -1 is out of range"}},
		{"endpoint twice", service(func(s *ServiceInput) {
			s.Endpoints = []EndpointInput{endpoint("10.64.0.1", nil), endpoint("10.64.0.1", nil)}
		}),
			nil},
		{"two ports of one host", service(func(s *ServiceInput) {
			s.Endpoints = []EndpointInput{endpoint("10.64.0.1", nil), endpoint("10.64.0.1", map[string]int{"": 81})}
		}), nil},
		{"endpoint without address", service(func(s *ServiceInput) { s.Endpoints = []EndpointInput{endpoint("", nil)} }),
			[]string{"service[0].endpoint[0].address: missing"}},
		{"broadcast endpoint", service(func(s *ServiceInput) { s.Endpoints = []EndpointInput{endpoint("255.255.255.255", nil)} }),
			[]string{"service[0].endpoint[0].address: cannot be an endpoint"}},
		{"index of a cluster IP", service(func(s *ServiceInput) { s.ClusterIPs = []string{"x", "10.97.0.1"} }),
			[]string{"service[0].cluster_ips[0]: not an IP address", "service[0].cluster_ips[1]: not in cluster.service_cidrs"}},
		{"index of an external IP", service(func(s *ServiceInput) { s.ExternalIPs = []string{"x", "127.0.0.1"} }),
			[]string{"service[0].external_ips[0]: not an IP address", "service[0].external_ips[1]: cannot be a service address"}},
		{"external IP of a headless service", service(func(s *ServiceInput) { s.ClusterIPs, s.ExternalIPs = []string{"None"}, []string{"203.0.113.1"} }),
			[]string{"service[0].external_ips: headless"}},
		{"addresses of an external name", service(func(s *ServiceInput) {
			s.Type, s.ExternalName, s.ExternalIPs, s.Ports[0].NodePort = "ExternalName", "A.example.", []string{"203.0.113.1"}, 30001
		}), []string{"service[0].external_ips: no addresses", "service[0].port[0].node_port: only for types"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			c.change(in)
			expectFaults(t, in, c.want...)
		})
	}
}

// TestVIPGivenAndAllocated gives one service the only address of the pool; none is left for the other, earlier one.
func TestVIPGivenAndAllocated(t *testing.T) {
	for _, external := range []bool{false, true} {
		in := input("10.96.0.0/16")
		in.Cluster.LoadBalancerPools = []string{"203.0.113.7/32"}
		addService(in, "allocated", loadBalancer)
		addService(in, "given", func(s *ServiceInput) {
			if s.Ports[0].Port = 81; external {
				s.ExternalIPs = []string{"203.0.113.7"}
			} else {
				s.Type, s.LoadBalancerIPs = "LoadBalancer", []string{"203.0.113.7"}
			}
		})
		expectFaults(t, in, "service[0].load_balancer_ips: no free address left")
	}
}
