package nat_test

import (
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// TestDecideVerdicts has every row of what becomes of a packet without a backend: nothing usable at all is refused, what
// the policy leaves nothing of is dropped, save for pods and the node under external policy Local.
func TestDecideVerdicts(t *testing.T) {
	none := func(_ *topology.Topology, s *topology.Service) { s.Endpoints = nil }
	remoteOnly := func(_ *topology.Topology, s *topology.Service) { s.Endpoints = s.Endpoints[1:2] }
	noPods := func(top *topology.Topology, _ *topology.Service) { top.Gateway.PodCIDRs = nil }
	type row struct {
		name string
		edit func(*topology.Topology, *topology.Service)
		src  string
		node bool
		dst  string
		port uint16
		want string // verdict reason snat
	}
	rows := []row{
		{"clusterip, itp local, only remote, pod", and(itpLocal, remoteOnly), anyPod, false, clusterIP, 8088, "drop no_local_endpoints"},
		{"clusterip, itp local, only remote, node", and(itpLocal, remoteOnly), thisNode, true, clusterIP, 8088, "drop no_local_endpoints"},
		{"clusterip, itp local, only remote, outside", and(itpLocal, remoteOnly), outside, false, clusterIP, 8088, "drop no_local_endpoints"},
		{"clusterip, itp local, none", and(itpLocal, none), anyPod, false, clusterIP, 8088, "reject no_endpoints"},
		{"clusterip, etp local does not matter", and(etpLocal, remoteOnly), anyPod, false, clusterIP, 8088, "forward clusterip"},
		{"clusterip, unknown port", nil, anyPod, false, clusterIP, unknown, "reject unknown_port"},
		{"unallocated", nil, anyPod, false, "10.112.9.99", 80, "drop unallocated"},
		{"nodeport number on another address", none, outside, false, "198.18.7.10", 31234, "pass not_ours"},
		{"nodeport number in transit", nil, outside, false, "10.66.1.12", 31234, "pass not_ours"},
	}
	for _, s := range []struct {
		src  string
		node bool
	}{{anyPod, false}, {thisNode, true}, {outside, false}} {
		for _, front := range matrixFronts {
			for _, policy := range []topology.Policy{topology.PolicyCluster, topology.PolicyLocal} {
				set := func(_ *topology.Topology, svc *topology.Service) { svc.ExternalTrafficPolicy = policy }
				rows = append(rows, row{front.name + " etp " + string(policy) + ", none, from " + s.src, and(set, none), s.src, s.node,
					front.addr, front.port, "reject no_endpoints"})
			}
		}
	}
	for _, front := range matrixFronts[1:] {
		only := and(etpLocal, remoteOnly)
		kind := map[string]string{"vip": "loadbalancer"}[front.name]
		if kind == "" {
			kind = front.name
		}
		rows = append(rows,
			row{front.name + ", etp local, only remote, outside", only, outside, false, front.addr, front.port, "drop no_local_endpoints"},
			row{front.name + ", etp local, only remote, pod", only, anyPod, false, front.addr, front.port, "forward " + kind},
			row{front.name + ", etp local, only remote, node", only, thisNode, true, front.addr, front.port, "forward " + kind + " snat"},
			row{front.name + ", etp local, only remote, pod that nobody knows", and(only, noPods), anyPod, false, front.addr, front.port,
				"drop no_local_endpoints"},
			row{front.name + ", itp local does not matter", and(itpLocal, remoteOnly), outside, false, front.addr, front.port,
				"forward " + kind + " snat"})
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			if tt.edit != nil {
				tt.edit(top, &svc)
			}
			top.Services = []topology.Service{svc}
			tu := tuple(overTCP, tt.src, 40123, tt.dst, tt.port)
			d := compile(t, top, nat.CompileOptions{}).Decide(&tu, nat.Origin{FromNode: tt.node})
			got := d.Verdict.String() + " " + d.Reason.String()
			if d.SNAT {
				got += " snat"
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestDecideLeftToTheKernel: cluster.unknown_port and cluster.unallocated = "pass".
func TestDecideLeftToTheKernel(t *testing.T) {
	unknownPort := func(top *topology.Topology, _ *topology.Service) { top.Cluster.UnknownPort = "pass" }
	unallocated := func(top *topology.Topology, _ *topology.Service) { top.Cluster.Unallocated = "pass" }
	spelled := func(top *topology.Topology, _ *topology.Service) {
		top.Cluster.UnknownPort, top.Cluster.Unallocated = "reject", "drop"
	}
	none := func(_ *topology.Topology, s *topology.Service) { s.Endpoints = nil }
	for _, tt := range []decideTest{
		{"clusterip, unknown port", unknownPort, overTCP, anyPod, clusterIP, unknown, false, nat.Pass, reason.UnknownPort, "", ""},
		{"vip, port of the other protocol", unknownPort, overUDP, outside, vip, 8088, false, nat.Pass, reason.UnknownPort, "", ""},
		{"v6", unknownPort, overUDP, outside6, "2001:db8:cc::50", 8088, false, nat.Pass, reason.UnknownPort, "", ""},
		{"another protocol", unknownPort, 47, anyPod, clusterIP, 0, false, nat.Pass, reason.UnsupportedProtocol, "", ""},
		{"icmp", unknownPort, packet.ProtoICMP, anyPod, clusterIP, 7, false, nat.Pass, reason.UnsupportedProtocol, "", ""},
		{"a known port is served", unknownPort, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ""},
		{"a known port without endpoints is refused", and(unknownPort, none), overTCP, anyPod, clusterIP, 8088, false,
			nat.Reject, reason.NoEndpoints, "", ""},
		{"unallocated all the same", unknownPort, overTCP, anyPod, "10.112.9.9", 80, false, nat.Drop, reason.Unallocated, "", ""},
		{"unallocated", unallocated, overTCP, anyPod, "10.112.9.9", 80, false, nat.Pass, reason.Unallocated, "", ""},
		{"unallocated v6", unallocated, packet.ProtoICMPv6, anyPod6, "fd64:112::99", 0, false, nat.Pass, reason.Unallocated, "", ""},
		{"unknown port all the same", unallocated, overTCP, anyPod, clusterIP, unknown, false, nat.Reject, reason.UnknownPort, "", ""},
		{"the defaults spelled out, port", spelled, overTCP, anyPod, clusterIP, unknown, false, nat.Reject, reason.UnknownPort, "", ""},
		{"the defaults spelled out, address", spelled, overTCP, anyPod, "10.112.9.9", 80, false, nat.Drop, reason.Unallocated, "", ""},
	} {
		t.Run(tt.name, tt.run)
	}
}

// TestServiceCIDRsLeftToTheKernel: what is passed need not be taken off the wire, while service addresses are.
func TestServiceCIDRsLeftToTheKernel(t *testing.T) {
	top := gateway()
	top.Cluster.Unallocated = "pass"
	top.Services = []topology.Service{cart()}
	table := compile(t, top, nat.CompileOptions{})
	if got := table.ServiceCIDRs(); len(got) != 0 {
		t.Errorf("ranges %v, want none", got)
	}
	if got := table.ServiceAddrs(); len(got) != 6 {
		t.Errorf("addresses %v, want the six of the service", got)
	}
}

// TestDecideSourceRangeOptions: ranges that are refused, and ranges that hold for every way into the service.
func TestDecideSourceRangeOptions(t *testing.T) {
	ranges := func(deny, all bool, list ...string) func(*topology.Topology, *topology.Service) {
		return func(_ *topology.Topology, s *topology.Service) {
			s.SourceRanges, s.SourceRangesDeny, s.SourceRangesAll = cidrs(list), deny, all
		}
	}
	const deny, allow, everywhere, vips = true, false, true, false
	none := func(_ *topology.Topology, s *topology.Service) { s.Endpoints = nil }
	annotated := func(_ *topology.Topology, s *topology.Service) {
		s.Annotations = map[string]string{"service.beta.kubernetes.io/load-balancer-source-ranges": "192.0.2.0/24"}
	}
	type row struct {
		name     string
		edit     func(*topology.Topology, *topology.Service)
		src, dst string
		port     uint16
		want     string
	}
	rows := []row{
		{"deny, inside", ranges(deny, vips, "203.0.113.0/25"), outside, vip, 8088, "drop source_range"},
		{"deny, outside", ranges(deny, vips, "203.0.113.0/25"), "203.0.113.128", vip, 8088, "forward loadbalancer"},
		{"deny, one of two", ranges(deny, vips, "192.0.2.0/24", "203.0.113.64/26"), outside, vip, 8088, "drop source_range"},
		{"deny all", ranges(deny, vips, "0.0.0.0/0"), outside, vip, 8088, "drop source_range"},
		{"deny all of the other family", ranges(deny, vips, "::/0"), outside, vip, 8088, "forward loadbalancer"},
		{"deny all v6", ranges(deny, vips, "::/0"), outside6, "2001:db8:cc::50", 8088, "drop source_range"},
		{"deny nothing", ranges(deny, vips), outside, vip, 8088, "forward loadbalancer"},
		{"deny the node: its vip as well", ranges(deny, vips, "198.18.0.0/24"), vip, vip, 8088, "drop source_range"},
		{"deny, vip of a node that is not denied", ranges(deny, vips, "203.0.113.0/25"), vip, vip, 8088, "forward loadbalancer"},
		{"deny, clusterip", ranges(deny, vips, "10.64.0.0/14"), anyPod, clusterIP, 8088, "forward clusterip"},
		{"deny before the reject", and(ranges(deny, vips, "203.0.113.0/25"), none), outside, vip, 8088, "drop source_range"},
		{"everywhere, own vip of an allowed node", ranges(allow, everywhere, "198.18.0.0/24"), vip, clusterIP, 8088, "forward clusterip"},
		{"everywhere, own vip of another node", ranges(allow, everywhere, "203.0.113.0/25"), vip, clusterIP, 8088, "drop source_range"},
		{"everywhere, port that nobody has", ranges(allow, everywhere, "192.0.2.0/24"), outside, vip, unknown, "reject unknown_port"},
		{"everywhere, policy Local without an endpoint", and(ranges(allow, everywhere, "192.0.2.0/24"), etpLocal,
			func(_ *topology.Topology, s *topology.Service) { s.Endpoints = s.Endpoints[1:2] }), outside, thisNode, 31234, "drop source_range"},
		{"by annotation", annotated, outside, vip, 8088, "forward loadbalancer"},
		{"vip alone, nodeport", ranges(allow, vips, "192.0.2.0/24"), outside, thisNode, 31234, "forward nodeport"},
		{"vip in proxy mode, scope vip", and(ranges(allow, vips, "192.0.2.0/24"),
			func(_ *topology.Topology, s *topology.Service) { s.LoadBalancerProxyMode = true }), outside, external, 8088, "forward externalip"},
	}
	for _, front := range matrixFronts {
		kind := strings.Replace(front.name, "vip", "loadbalancer", 1)
		rows = append(rows,
			row{"everywhere, outside, " + front.name, ranges(allow, everywhere, "203.0.113.0/25"), "203.0.113.200", front.addr, front.port,
				"drop source_range"},
			row{"everywhere, inside, " + front.name, ranges(allow, everywhere, "203.0.113.0/25"), outside, front.addr, front.port,
				"forward " + kind},
			row{"everywhere, before the reject, " + front.name, and(ranges(allow, everywhere, "192.0.2.0/24"), none), outside, front.addr,
				front.port, "drop source_range"},
			row{"everywhere, pod, " + front.name, ranges(allow, everywhere, "203.0.113.0/25"), anyPod, front.addr, front.port,
				"drop source_range"},
			row{"everywhere, denied, " + front.name, ranges(deny, everywhere, "203.0.113.0/25"), outside, front.addr, front.port,
				"drop source_range"})
	}
	for _, tt := range rows {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			tt.edit(top, &svc)
			top.Services = []topology.Service{svc}
			table := compile(t, top, nat.CompileOptions{})
			tu := tuple(overTCP, tt.src, 40123, tt.dst, tt.port)
			d := table.Decide(&tu, nat.Origin{})
			if got := d.Verdict.String() + " " + d.Reason.String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			// A flow that exists is judged by the same ranges.
			if want := d.Reason != reason.SourceRange; d.Port != nil && table.Admits(&tu, d.Port.ID) != want {
				t.Errorf("flow admitted: %v, decided %s", !want, d.Reason)
			}
		})
	}
}

// TestServicesSkipped: what kube-proxy does not serve. The label of headless services is one of EndpointSlices, that the
// slice controller takes off those of a service with a ClusterIP: on such a service it means nothing.
func TestServicesSkipped(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*topology.Service)
		want string
	}{
		{"headless", func(s *topology.Service) { s.Headless, s.ClusterIPs = true, nil }, "drop unallocated"},
		{"without clusterip", func(s *topology.Service) { s.ClusterIPs = nil }, "drop unallocated"},
		{"externalname with a clusterip", func(s *topology.Service) { s.Type = topology.ExternalName }, "drop unallocated"},
		{"of another proxy", func(s *topology.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
		}, "pass not_ours"},
		{"with the label of headless slices", func(s *topology.Service) {
			s.Labels = map[string]string{"service.kubernetes.io/headless": ""}
		}, "forward clusterip"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			tt.edit(&svc)
			top.Services = []topology.Service{svc}
			tu := tuple(overTCP, anyPod, 40123, clusterIP, 8088)
			d := compile(t, top, nat.CompileOptions{}).Decide(&tu, nat.Origin{})
			if got := d.Verdict.String() + " " + d.Reason.String(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
