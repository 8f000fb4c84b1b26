// Package dnstest has what tests of DNS share: a topology, and questions with the replies that it must get, whichever way they come.
package dnstest

import (
	"fmt"
	"testing"

	"sluice/config/topology"
	"sluice/dns/zone"
)

// Serial is that of the zones.
const Serial = 1700000000

// Endpoint describes a ready endpoint.
func Endpoint(addr, hostname string) topology.EndpointInput {
	e := topology.EndpointInput{Address: addr, Hostname: hostname}
	e.SetDefaults()
	return e
}

// unready describes one that is not.
func unready(addr, hostname string) topology.EndpointInput {
	e := Endpoint(addr, hostname)
	e.Ready = new(bool)
	return e
}

// inZone describes one in a topology zone.
func inZone(addr, zone string) topology.EndpointInput {
	e := Endpoint(addr, "")
	e.Zone = zone
	return e
}

// ofPod describes one that is a pod.
func ofPod(addr, hostname, pod string) topology.EndpointInput {
	e := Endpoint(addr, hostname)
	e.Pod = pod
	return e
}

// port describes a port.
func port(name, proto string, number int) topology.PortInput {
	return topology.PortInput{Name: name, Protocol: proto, Port: number}
}

// service describes a service: key is "namespace/name", address its ClusterIPs or "None".
func service(key string, ips []string, ports []topology.PortInput, endpoints ...topology.EndpointInput) topology.ServiceInput {
	var s topology.ServiceInput
	s.SetDefaults()
	for i := range key {
		if key[i] == '/' {
			s.Namespace, s.Name = key[:i], key[i+1:]
		}
	}
	s.ClusterIPs, s.Ports, s.Endpoints = ips, ports, endpoints
	return s
}

// alias describes a service of type ExternalName.
func alias(key, target string) topology.ServiceInput {
	s := service(key, nil, nil)
	s.Type, s.ExternalName = string(topology.ExternalName), target
	return s
}

// SwarmAddress returns the address of the i-th of the 300 endpoints of shop/swarm.
func SwarmAddress(i int) string { return fmt.Sprintf("172.24.%d.%d", 10+(i+1)/256, (i+1)%256) }

// Input returns the topology that the cases in testdata are about.
func Input() *topology.Input {
	in := topology.NewInput()
	in.Gateway.Node = "gw-a"
	in.Nodes = []topology.NodeInput{{Name: "gw-a", Addresses: []string{"198.18.0.10"}}}
	in.Cluster.Domain = "grid.example"
	in.Cluster.ServiceCIDRs = []string{"10.96.0.0/16", "fd42:96::/112"}
	in.DNS.ReverseZones = []string{"10.96.0.0/16", "172.24.0.0/16", "fd42:172:24::/64"}
	in.Namespaces = []topology.NamespaceInput{{Name: "bare"}}
	in.Pods = []topology.PodInput{
		{Name: "probe-pod", Namespace: "ops", Addresses: []string{"172.24.4.9", "fd42:172:24::9"}, Node: "gw-a", Phase: "Running"},
		{Name: "done", Namespace: "ops", Addresses: []string{"172.24.4.10"}, Node: "gw-a", Phase: "Succeeded"},
		{Name: "crashed", Namespace: "ops", Addresses: []string{"172.24.4.11"}, Node: "gw-a", Phase: "Failed"},
		{Name: "safe", Namespace: "vault", Addresses: []string{"172.24.7.1"}, Node: "gw-a", Phase: "Running"},
	}
	none := []string{"None"}
	http := []topology.PortInput{port("http", "TCP", 8080)}
	db := []topology.PortInput{port("db", "TCP", 5432)}
	quorum := service("shop/quorum", none, db, Endpoint("172.24.2.20", "q-0"), unready("172.24.2.21", "q-1"))
	quorum.PublishNotReady = true
	swarm := service("shop/swarm", none, []topology.PortInput{port("swarm", "TCP", 80)})
	for i := range 300 {
		swarm.Endpoints = append(swarm.Endpoints, Endpoint(SwarmAddress(i), ""))
	}
	cart := service("shop/cart", []string{"10.96.4.10"}, http, Endpoint("172.24.1.11", "cart-a"), Endpoint("172.24.1.11", "cart-a"))
	cart.ExternalIPs = []string{"198.51.100.20"}
	balanced := service("shop/lbhost", []string{"10.96.4.15"}, http)
	balanced.Type, balanced.LoadBalancerHostnames = string(topology.LoadBalancer), []string{"lb7.cloud.example"}
	in.Services = []topology.ServiceInput{
		cart,
		service("shop/idle", []string{"10.96.4.11"}, http, unready("172.24.1.99", "")),
		service("shop/cart6", []string{"fd42:96::1"}, http),
		service("shop/dual", []string{"10.96.4.12", "fd42:96::12"}, http),
		service("shop/multi", []string{"10.96.4.13"}, []topology.PortInput{port("http", "TCP", 80), port("metrics", "TCP", 9100),
			port("dns", "UDP", 53)}),
		service("shop/plain", []string{"10.96.4.14"}, []topology.PortInput{port("", "TCP", 7000)}),
		service("shop/ring", none, []topology.PortInput{port("peer", "TCP", 7001)}, Endpoint("172.24.1.21", ""),
			Endpoint("172.24.1.22", ""), Endpoint("172.24.1.23", "twin"), Endpoint("172.24.1.24", "twin"),
			Endpoint("fd42:172:24::21", ""), Endpoint("fd42:172:24::22", "")),
		service("shop/sts", none, db, Endpoint("172.24.2.10", "db-0"), Endpoint("172.24.2.11", "db-1"), unready("172.24.2.12", "db-2")),
		quorum,
		service("shop/hollow", none, db, unready("172.24.2.30", "h-0")),
		service("shop/noport", none, nil, Endpoint("172.24.1.40", "")),
		service("shop/tail6", none, http, Endpoint("fd42:172:24:5:6:7::", "")),
		service("shop/pair6", none, http, Endpoint("fd42:172:24::2:9ba6", "six-in")),
		swarm, balanced,
		service("shop/racked", none, []topology.PortInput{port("http", "TCP", 80)}, inZone("172.24.6.1", "rack-1"), inZone("172.24.6.2", "rack-2"),
			inZone("172.24.6.3", "rack-2")),
		service("shop/crew", none, nil, ofPod("172.24.8.1", "", "crew-0"), ofPod("172.24.8.2", "", "crew.1"), ofPod("172.24.8.3", "first", "crew-2")),
		service("vault/secret", []string{"10.96.9.9"}, http, Endpoint("172.24.7.1", "")),
		alias("shop/legacy", "old.partner.example"),
		alias("shop/alias", "cart.shop.svc.grid.example"),
		alias("shop/alias2", "Alias.shop.svc.grid.example."),
		alias("shop/loop-a", "loop-b.shop.svc.grid.example"),
		alias("shop/loop-b", "loop-a.shop.svc.grid.example"),
		alias("shop/selfie", "selfie.shop.svc.grid.example"),
		alias("shop/dangling", "nope.shop.svc.grid.example"),
		service("ops/probe", []string{"10.96.5.5"}, http, Endpoint("172.24.4.9", "probe-pod")),
		service("ops/probe2", []string{"10.96.5.6"}, http, Endpoint("172.24.4.9", "probe-pod")),
		service("kube-system/kube-dns", []string{"10.96.0.10"}, []topology.PortInput{port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)}),
	}
	return in
}

// Resolve resolves a topology without faults.
func Resolve(t testing.TB, in *topology.Input) *topology.Topology {
	t.Helper()
	top, faults := topology.Resolve(in)
	for _, f := range faults {
		t.Fatalf("%+v", f)
	}
	return top
}

// Compile returns the zones of a topology.
func Compile(t testing.TB, in *topology.Input) *zone.Zones {
	t.Helper()
	z, err := zone.Compile(Resolve(t, in), Serial)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Zones returns those of Input.
func Zones(t testing.TB) *zone.Zones {
	t.Helper()
	return Compile(t, Input())
}
