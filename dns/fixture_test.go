package dns_test

import (
	"fmt"
	"testing"

	"sluice/config/topology"
	"sluice/dns/zone"
)

const serial = 1700000000

func endpoint(addr, hostname string) topology.EndpointInput {
	e := topology.EndpointInput{Address: addr, Hostname: hostname}
	e.SetDefaults()
	return e
}

func unready(addr, hostname string) topology.EndpointInput {
	e := endpoint(addr, hostname)
	e.Ready = new(bool)
	return e
}

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

func alias(key, target string) topology.ServiceInput {
	s := service(key, nil, nil)
	s.Type, s.ExternalName = string(topology.ExternalName), target
	return s
}

// swarmAddress returns the address of the i-th of the 300 endpoints of shop/swarm.
func swarmAddress(i int) string { return fmt.Sprintf("172.24.%d.%d", 10+(i+1)/256, (i+1)%256) }

// gridInput is the topology that the cases in testdata are about.
func gridInput() *topology.Input {
	in := topology.NewInput()
	in.Gateway.Node = "gw-a"
	in.Nodes = []topology.NodeInput{{Name: "gw-a", Addresses: []string{"198.18.0.10"}}}
	in.Cluster.Domain = "grid.example"
	in.Cluster.ServiceCIDRs = []string{"10.96.0.0/16", "fd42:96::/112"}
	in.DNS.ReverseZones = []string{"10.96.0.0/16", "172.24.0.0/16", "fd42:172:24::/64"}
	in.Namespaces = []topology.NamespaceInput{{Name: "bare"}}
	none := []string{"None"}
	http := []topology.PortInput{port("http", "TCP", 8080)}
	db := []topology.PortInput{port("db", "TCP", 5432)}
	quorum := service("shop/quorum", none, db, endpoint("172.24.2.20", "q-0"), unready("172.24.2.21", "q-1"))
	quorum.PublishNotReady = true
	swarm := service("shop/swarm", none, []topology.PortInput{port("swarm", "TCP", 80)})
	for i := range 300 {
		swarm.Endpoints = append(swarm.Endpoints, endpoint(swarmAddress(i), ""))
	}
	in.Services = []topology.ServiceInput{
		service("shop/cart", []string{"10.96.4.10"}, http, endpoint("172.24.1.11", "cart-a"), endpoint("172.24.1.11", "cart-a")),
		service("shop/idle", []string{"10.96.4.11"}, http, unready("172.24.1.99", "")),
		service("shop/cart6", []string{"fd42:96::1"}, http),
		service("shop/dual", []string{"10.96.4.12", "fd42:96::12"}, http),
		service("shop/multi", []string{"10.96.4.13"}, []topology.PortInput{port("http", "TCP", 80), port("metrics", "TCP", 9100),
			port("dns", "UDP", 53)}),
		service("shop/plain", []string{"10.96.4.14"}, []topology.PortInput{port("", "TCP", 7000)}),
		service("shop/ring", none, []topology.PortInput{port("peer", "TCP", 7001)}, endpoint("172.24.1.21", ""),
			endpoint("172.24.1.22", ""), endpoint("172.24.1.23", "twin"), endpoint("172.24.1.24", "twin"),
			endpoint("fd42:172:24::21", ""), endpoint("fd42:172:24::22", "")),
		service("shop/sts", none, db, endpoint("172.24.2.10", "db-0"), endpoint("172.24.2.11", "db-1"), unready("172.24.2.12", "db-2")),
		quorum,
		service("shop/hollow", none, db, unready("172.24.2.30", "h-0")),
		service("shop/noport", none, nil, endpoint("172.24.1.40", "")),
		service("shop/tail6", none, http, endpoint("fd42:172:24:5:6:7::", "")),
		service("shop/pair6", none, http, endpoint("fd42:172:24::2:9ba6", "six-in")),
		swarm,
		alias("shop/legacy", "old.partner.example"),
		alias("shop/alias", "cart.shop.svc.grid.example"),
		alias("shop/alias2", "Alias.shop.svc.grid.example."),
		alias("shop/loop-a", "loop-b.shop.svc.grid.example"),
		alias("shop/loop-b", "loop-a.shop.svc.grid.example"),
		alias("shop/selfie", "selfie.shop.svc.grid.example"),
		alias("shop/dangling", "nope.shop.svc.grid.example"),
		service("ops/probe", []string{"10.96.5.5"}, http, endpoint("172.24.4.9", "probe-pod")),
		service("ops/probe2", []string{"10.96.5.6"}, http, endpoint("172.24.4.9", "probe-pod")),
		service("kube-system/kube-dns", []string{"10.96.0.10"}, []topology.PortInput{port("dns", "UDP", 53), port("dns-tcp", "TCP", 53)}),
	}
	return in
}

func resolve(t testing.TB, in *topology.Input) *topology.Topology {
	t.Helper()
	top, faults := topology.Resolve(in)
	for _, f := range faults {
		t.Fatalf("%+v", f)
	}
	return top
}

func grid(t testing.TB) *zone.Zones {
	t.Helper()
	z, err := zone.Compile(resolve(t, gridInput()), serial)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
