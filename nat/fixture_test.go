package nat_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
)

// gateway returns a topology without services: node gw-a with addresses of both families, pods in 10.64.0.0/14 and
// fd64:10::/48.
func gateway() *topology.Topology {
	return &topology.Topology{
		Gateway: topology.Gateway{
			Node:              "gw-a",
			PodCIDRs:          cidrs([]string{"10.64.0.0/14", "fd64:10::/48"}),
			SNATAddresses:     addrs([]string{"198.18.0.10", "2001:db8:a::10"}),
			SNATPorts:         topology.PortRange{First: 32768, Last: 60999},
			NodePortAddresses: addrs([]string{"198.18.0.10", "2001:db8:a::10"}),
			LocalAddresses:    addrs([]string{"198.18.0.10", "198.18.7.10", "2001:db8:a::10"}),
		},
		Cluster: topology.Cluster{ServiceCIDRs: cidrs([]string{"10.112.0.0/20", "fd64:112::/112"})},
	}
}

// cart returns a dual-stack LoadBalancer service with TCP port web 8088 and UDP port dns 53, a local and a remote
// endpoint.
func cart() topology.Service {
	return topology.Service{
		Namespace: "shop", Name: "cart", Type: topology.LoadBalancer,
		ClusterIPs:            addrs([]string{"10.112.3.20", "fd64:112::20"}),
		ExternalIPs:           addrs([]string{"198.51.100.30", "2001:db8:ee::30"}),
		LoadBalancerIPs:       addrs([]string{"192.0.2.50", "2001:db8:cc::50"}),
		ExternalTrafficPolicy: topology.PolicyCluster,
		InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{
			{Name: "web", Protocol: topology.TCP, Port: 8088, TargetPort: 9090, NodePort: 31234},
			{Name: "dns", Protocol: topology.UDP, Port: 53, TargetPort: 5353, NodePort: 31053},
		},
		Endpoints: []topology.Endpoint{endpoint("10.64.0.11", "gw-a"), endpoint("10.66.1.12", "wk-7"),
			endpoint("fd64:10::11", "gw-a")},
	}
}

// endpoint returns a ready endpoint of cart.
func endpoint(addr, node string) topology.Endpoint {
	return topology.Endpoint{Address: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true, Weight: 1,
		Ports: map[string]uint16{"web": 9090, "dns": 5353}}
}

// many returns n services with size endpoints each, all of their own.
func many(n, size int) *topology.Topology {
	top := gateway()
	for i := range n {
		svc := topology.Service{Namespace: "load", Name: fmt.Sprintf("s%04d", i), Type: topology.ClusterIP,
			ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{10, 112, byte(i / 250), byte(i%250 + 1)})},
			ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
			Ports: []topology.Port{{Protocol: topology.TCP, Port: 80, TargetPort: 8080}}}
		for j := range size {
			e := endpoint(fmt.Sprintf("10.%d.%d.%d", 64+j/250, i/250, 1), "wk-1")
			e.Address = netip.AddrFrom4([4]byte{10, byte(64 + i/250), byte(i % 250), byte(j + 1)})
			e.Ports = map[string]uint16{"": 8080}
			svc.Endpoints = append(svc.Endpoints, e)
		}
		top.Services = append(top.Services, svc)
	}
	return top
}

// compile builds top with small Maglev tables.
func compile(t testing.TB, top *topology.Topology, opts nat.CompileOptions) *nat.Table {
	t.Helper()
	if opts.TableSize == 0 {
		opts.TableSize = 1021
	}
	table, err := nat.Compile(top, opts)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ports returns the ports of table by their names.
func ports(table *nat.Table) map[string]*nat.Port {
	out := map[string]*nat.Port{}
	for p := range table.Ports() {
		out[p.String()] = p
	}
	return out
}

// down says that the endpoints with these addresses fail their health checks.
func down(list ...string) func(service, port string, addr netip.AddrPort) bool {
	return func(_, _ string, addr netip.AddrPort) bool { return slices.Contains(list, addr.Addr().String()) }
}
