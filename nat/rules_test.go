package nat_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
)

func TestRules(t *testing.T) {
	top := gateway()
	foreign := cart()
	foreign.Name, foreign.Labels = "foreign", map[string]string{"service.kubernetes.io/service-proxy-name": "x"}
	foreign.ClusterIPs = addrs([]string{"10.112.3.99"})
	foreign.LoadBalancerIPs, foreign.ExternalIPs = nil, nil
	top.Services = []topology.Service{cart(), foreign}
	table := compile(t, top, nat.CompileOptions{})
	for _, tt := range []struct{ name, got, want string }{
		{"service addresses", fmt.Sprint(table.ServiceAddrs()),
			"[10.112.3.20 192.0.2.50 198.51.100.30 2001:db8:cc::50 2001:db8:ee::30 fd64:112::20]"},
		{"service ranges", fmt.Sprint(table.ServiceCIDRs()), "[10.112.0.0/20 fd64:112::/112]"},
		{"node port addresses", fmt.Sprint(table.NodePortAddrs()), "[198.18.0.10 2001:db8:a::10]"},
		{"node ports", fmt.Sprint(table.NodePorts()), "[{6 31234} {17 31053}]"},
		{"snat addresses", fmt.Sprint(table.SNATAddrs()), "[198.18.0.10 2001:db8:a::10]"},
		{"snat ports", fmt.Sprint(table.SNATPorts()), "{32768 60999}"},
		{"backends", fmt.Sprint(table.BackendAddrs()), "[10.64.0.11 10.66.1.12 fd64:10::11]"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s %s, want %s", tt.name, tt.got, tt.want)
		}
	}
	if !table.IsServiceAddr(addr(vip)) || table.IsServiceAddr(addr("10.112.3.99")) || table.IsServiceAddr(addr(thisNode)) {
		t.Error("IsServiceAddr: want true for the VIP only")
	}
}

func TestPreservingEndpoints(t *testing.T) {
	const all = "[{10.64.0.11 6 9090} {10.64.0.11 17 5353} {10.66.1.12 6 9090} {10.66.1.12 17 5353} " +
		"{fd64:10::11 6 9090} {fd64:10::11 17 5353}]"
	tests := []struct {
		name string
		edit func(*topology.Topology, *topology.Service)
		want string
	}{
		{"clusterip", func(*topology.Topology, *topology.Service) {}, all},
		{"masquerade all", func(top *topology.Topology, _ *topology.Service) { top.Gateway.MasqueradeAll = true }, "[]"},
		{"masquerade all, etp local", func(top *topology.Topology, s *topology.Service) {
			top.Gateway.MasqueradeAll, s.ExternalTrafficPolicy = true, topology.PolicyLocal
		}, all},
		{"masquerade all, etp local, not external", func(top *topology.Topology, s *topology.Service) {
			top.Gateway.MasqueradeAll, s.ExternalTrafficPolicy = true, topology.PolicyLocal
			s.LoadBalancerIPs, s.ExternalIPs, s.Ports[0].NodePort, s.Ports[1].NodePort = nil, nil, 0, 0
		}, "[]"},
		{"whatever their state", func(_ *topology.Topology, s *topology.Service) {
			s.Endpoints[0].Weight, s.Endpoints[1].Ready, s.Endpoints[2].Ready = 0, false, false
		}, all},
		{"family without clusterip", func(_ *topology.Topology, s *topology.Service) {
			s.ClusterIPs, s.Endpoints = s.ClusterIPs[:1], s.Endpoints[1:]
		}, "[{10.66.1.12 6 9090} {10.66.1.12 17 5353}]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			tt.edit(top, &svc)
			second := svc
			second.Name, second.ClusterIPs = "second", addrs([]string{"10.112.3.21", "fd64:112::21"})[:len(svc.ClusterIPs)]
			second.LoadBalancerIPs, second.ExternalIPs = addrs([]string{"192.0.2.51"}), nil
			if svc.LoadBalancerIPs == nil {
				second.LoadBalancerIPs = nil
			}
			second.Ports = append([]topology.Port(nil), svc.Ports...)
			second.Ports[0].NodePort, second.Ports[1].NodePort = 0, 0
			top.Services = []topology.Service{svc, second}
			table := compile(t, top, nat.CompileOptions{})
			if all := fmt.Sprint(table.BackendAddrs()); strings.Contains(all, "fd64") != (len(svc.ClusterIPs) == 2) {
				t.Errorf("backends %s: want those of the families the service has", all)
			}
			if got := fmt.Sprint(table.PreservingEndpoints()); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
