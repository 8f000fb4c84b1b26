package nat_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

const (
	anyPod    = "10.64.3.9"
	anyPod6   = "fd64:10::99"
	outside   = "203.0.113.77"
	outside6  = "2001:db8:77::1"
	thisNode  = "198.18.0.10"
	clusterIP = "10.112.3.20"
	vip       = "192.0.2.50"
	external  = "198.51.100.30"
)

// decideTest asks a table compiled from cart, changed by edit, about one packet. backends is what the candidates are,
// separated by blanks.
type decideTest struct {
	name     string
	edit     func(*topology.Topology, *topology.Service)
	proto    uint8
	src, dst string
	port     uint16
	fromNode bool
	verdict  nat.Verdict
	reason   reason.Reason
	backends string
	snat     string
}

func (tt *decideTest) run(t *testing.T) {
	top, svc := gateway(), cart()
	if tt.edit != nil {
		tt.edit(top, &svc)
	}
	top.Services = []topology.Service{svc}
	tu := tuple(tt.proto, tt.src, 40123, tt.dst, tt.port)
	d := compile(t, top, nat.CompileOptions{}).Decide(&tu, nat.Origin{FromNode: tt.fromNode})
	if d.Verdict != tt.verdict || d.Reason != tt.reason {
		t.Errorf("%s (%s), want %s (%s)", d.Verdict, d.Reason, tt.verdict, tt.reason)
	}
	var got []string
	for _, b := range d.Candidates {
		got = append(got, b.AddrPort.String())
	}
	if s := strings.Join(got, " "); s != tt.backends {
		t.Errorf("candidates %q, want %q", s, tt.backends)
	}
	if (d.Backend != nil) != (tt.verdict == nat.Forward) {
		t.Errorf("backend %v with verdict %s", d.Backend, d.Verdict)
	}
	if d.SNAT != (tt.snat != "") || d.SNAT && d.SNATAddr.String() != tt.snat {
		t.Errorf("snat %v %s, want %q", d.SNAT, d.SNATAddr, tt.snat)
	}
}

const (
	both    = "10.64.0.11:9090 10.66.1.12:9090"
	local   = "10.64.0.11:9090"
	remote  = "10.66.1.12:9090"
	only6   = "[fd64:10::11]:9090"
	ourV4   = "198.18.0.10"
	ourV6   = "2001:db8:a::10"
	overTCP = packet.ProtoTCP
	overUDP = packet.ProtoUDP
	unknown = 4444
)

func etpLocal(_ *topology.Topology, s *topology.Service) {
	s.ExternalTrafficPolicy = topology.PolicyLocal
}

func itpLocal(_ *topology.Topology, s *topology.Service) {
	s.InternalTrafficPolicy = topology.PolicyLocal
}

func TestDecideMasquerade(t *testing.T) {
	masqueradeAll := func(top *topology.Topology, _ *topology.Service) { top.Gateway.MasqueradeAll = true }
	noPods := func(top *topology.Topology, s *topology.Service) {
		top.Gateway.PodCIDRs, s.ExternalTrafficPolicy = nil, topology.PolicyLocal
	}
	onlyPods6 := func(top *topology.Topology, _ *topology.Service) { top.Gateway.PodCIDRs = top.Gateway.PodCIDRs[1:] }
	bridge := func(top *topology.Topology, s *topology.Service) {
		top.Gateway.LocalAddresses = append(top.Gateway.LocalAddresses, netip.MustParseAddr("10.64.0.1"))
		s.ExternalTrafficPolicy = topology.PolicyLocal
	}
	tests := []decideTest{
		{"pod to clusterip", nil, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ""},
		{"node to clusterip", nil, overTCP, thisNode, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ourV4},
		{"node by flag to clusterip", nil, overTCP, outside, clusterIP, 8088, true, nat.Forward, reason.ClusterIP, both, ourV4},
		{"outside to clusterip", nil, overTCP, outside, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ourV4},
		{"outside to clusterip v6", nil, overTCP, outside6, "fd64:112::20", 8088, false, nat.Forward, reason.ClusterIP, only6, ourV6},
		{"masquerade all", masqueradeAll, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ourV4},
		{"no pods known, clusterip", noPods, overTCP, outside, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ""},
		{"no pods known, node to clusterip", noPods, overTCP, thisNode, clusterIP, 8088, true, nat.Forward, reason.ClusterIP, both, ""},
		{"no pods known, etp local", noPods, overTCP, anyPod, vip, 8088, false, nat.Forward, reason.LoadBalancer, local, ""},
		{"pods of the other family known", onlyPods6, overTCP, outside, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ""},
		{"pod to vip", nil, overTCP, anyPod, vip, 8088, false, nat.Forward, reason.LoadBalancer, both, ourV4},
		{"outside to vip, udp", nil, overUDP, outside, vip, 53, false, nat.Forward, reason.LoadBalancer,
			"10.64.0.11:5353 10.66.1.12:5353", ourV4},
		{"outside to external ip", nil, overTCP, outside, external, 8088, false, nat.Forward, reason.ExternalIP, both, ourV4},
		{"outside to nodeport", nil, overTCP, outside, thisNode, 31234, false, nat.Forward, reason.NodePort, both, ourV4},
		{"outside to nodeport v6", nil, overTCP, outside6, ourV6, 31234, false, nat.Forward, reason.NodePort, only6, ourV6},
		{"etp local, outside", etpLocal, overTCP, outside, external, 8088, false, nat.Forward, reason.ExternalIP, local, ""},
		{"etp local, pod", etpLocal, overTCP, anyPod, vip, 8088, false, nat.Forward, reason.LoadBalancer, both, ""},
		{"etp local, node", etpLocal, overTCP, thisNode, thisNode, 31234, true, nat.Forward, reason.NodePort, both, ourV4},
		{"etp local, node by flag", etpLocal, overTCP, outside, vip, 8088, true, nat.Forward, reason.LoadBalancer, both, ourV4},
		{"etp local, node inside pod_cidrs", bridge, overTCP, "10.64.0.1", vip, 8088, true, nat.Forward, reason.LoadBalancer, both, ""},
		{"etp local does not touch clusterip", etpLocal, overTCP, outside, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ourV4},
		{"itp local, pod", itpLocal, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, local, ""},
		{"itp local, outside", itpLocal, overTCP, outside, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, local, ourV4},
		{"itp local does not touch vip", itpLocal, overTCP, outside, vip, 8088, false, nat.Forward, reason.LoadBalancer, both, ourV4},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestDecideHairpin(t *testing.T) {
	only := func(addr string, policy topology.Policy) func(*topology.Topology, *topology.Service) {
		return func(_ *topology.Topology, s *topology.Service) {
			s.Endpoints, s.ExternalTrafficPolicy = []topology.Endpoint{endpoint(addr, "wk-7")}, policy
		}
	}
	tests := []decideTest{
		{"remote endpoint to its clusterip", only("10.66.1.12", topology.PolicyCluster), overTCP, "10.66.1.12", clusterIP, 8088, false,
			nat.Forward, reason.Hairpin, remote, ourV4},
		{"endpoint to its vip, etp local", only("10.66.1.12", topology.PolicyLocal), overTCP, "10.66.1.12", vip, 8088, false,
			nat.Forward, reason.Hairpin, remote, ourV4},
		{"v6", nil, overTCP, "fd64:10::11", "fd64:112::20", 8088, false, nat.Forward, reason.Hairpin, only6, ourV6},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestDecideNoBackend(t *testing.T) {
	none := func(_ *topology.Topology, s *topology.Service) { s.Endpoints = nil }
	remoteOnly := func(policy func(*topology.Topology, *topology.Service)) func(*topology.Topology, *topology.Service) {
		return func(top *topology.Topology, s *topology.Service) {
			policy(top, s)
			s.Endpoints = s.Endpoints[1:2]
		}
	}
	noSNAT := func(top *topology.Topology, _ *topology.Service) {
		top.Gateway.SNATAddresses = top.Gateway.SNATAddresses[1:]
	}
	nameless := func(_ *topology.Topology, s *topology.Service) {
		for i := range s.Endpoints {
			s.Endpoints[i].Node = ""
		}
		s.ExternalTrafficPolicy = topology.PolicyLocal
	}
	gatewayToo := func(top *topology.Topology, s *topology.Service) {
		nameless(top, s)
		top.Gateway.Node = ""
	}
	tests := []decideTest{
		{"none, clusterip", none, overTCP, anyPod, clusterIP, 8088, false, nat.Reject, reason.NoEndpoints, "", ""},
		{"none, nodeport", none, overUDP, outside, thisNode, 31053, false, nat.Reject, reason.NoEndpoints, "", ""},
		{"none of the family", func(_ *topology.Topology, s *topology.Service) { s.Endpoints = s.Endpoints[2:] }, overTCP, outside, vip,
			8088, false, nat.Reject, reason.NoEndpoints, "", ""},
		{"itp local, remote only, node", remoteOnly(itpLocal), overTCP, thisNode, clusterIP, 8088, true,
			nat.Drop, reason.NoLocalEndpoints, "", ""},
		{"etp local, remote only", remoteOnly(etpLocal), overTCP, outside, thisNode, 31234, false, nat.Drop, reason.NoLocalEndpoints, "", ""},
		{"etp local, node unknown", nameless, overTCP, outside, vip, 8088, false, nat.Drop, reason.NoLocalEndpoints, "", ""},
		{"etp local, no node named", gatewayToo, overTCP, outside, vip, 8088, false, nat.Drop, reason.NoLocalEndpoints, "", ""},
		{"etp local, remote only, pod", remoteOnly(etpLocal), overTCP, anyPod, thisNode, 31234, false, nat.Forward, reason.NodePort, remote, ""},
		{"no address to masquerade to", noSNAT, overTCP, outside, vip, 8088, false, nat.Drop, reason.NoSNATAddress, both, ""},
		{"no need to masquerade", noSNAT, overTCP, anyPod, clusterIP, 8088, false, nat.Forward, reason.ClusterIP, both, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestDecideUnmatched(t *testing.T) {
	ownVIP := func(_ *topology.Topology, s *topology.Service) { s.ExternalIPs = addrs([]string{"198.18.7.10"}) }
	otherProxy := func(_ *topology.Topology, s *topology.Service) {
		s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": ""}
	}
	proxyMode := func(_ *topology.Topology, s *topology.Service) { s.LoadBalancerProxyMode = true }
	singleStack := func(_ *topology.Topology, s *topology.Service) { s.ClusterIPs = s.ClusterIPs[:1] }
	tests := []decideTest{
		{"clusterip, unknown port", nil, overTCP, anyPod, clusterIP, unknown, false, nat.Reject, reason.UnknownPort, "", ""},
		{"clusterip, port of the other protocol", nil, overUDP, anyPod, clusterIP, 8088, false, nat.Reject, reason.UnknownPort, "", ""},
		{"vip, unknown port", nil, overUDP, outside, vip, unknown, false, nat.Reject, reason.UnknownPort, "", ""},
		{"vip, nodeport number", nil, overTCP, outside, vip, 31234, false, nat.Reject, reason.UnknownPort, "", ""},
		{"sctp", nil, packet.ProtoSCTP, anyPod, clusterIP, 8088, false, nat.Reject, reason.UnknownPort, "", ""},
		{"gre", nil, 47, anyPod, clusterIP, 0, false, nat.Drop, reason.UnsupportedProtocol, "", ""},
		{"icmp", nil, packet.ProtoICMP, anyPod, clusterIP, 7, false, nat.Drop, reason.UnsupportedProtocol, "", ""},
		{"gre", nil, 47, anyPod, clusterIP, 0, false, nat.Drop, reason.UnsupportedProtocol, "", ""},
		{"unallocated", nil, overTCP, anyPod, "10.112.9.9", 80, false, nat.Drop, reason.Unallocated, "", ""},
		{"unallocated v6", nil, packet.ProtoICMPv6, anyPod6, "fd64:112::99", 0, false, nat.Drop, reason.Unallocated, "", ""},
		{"outside the service range", nil, overTCP, anyPod, "10.112.16.0", 80, false, nat.Pass, reason.NotOurs, "", ""},
		{"nodeport of another protocol", nil, overUDP, outside, thisNode, 31234, false, nat.Pass, reason.NotOurs, "", ""},
		{"nodeport on another address of the node", nil, overTCP, outside, "198.18.7.10", 31234, false, nat.Pass, reason.NotOurs, "", ""},
		{"own address as external ip", ownVIP, overTCP, outside, "198.18.7.10", 8088, false, nat.Forward, reason.ExternalIP, both, ourV4},
		{"own address as external ip, ssh", ownVIP, overTCP, outside, "198.18.7.10", 22, false, nat.Pass, reason.NotOurs, "", ""},
		{"served by another proxy", otherProxy, overTCP, anyPod, clusterIP, 8088, false, nat.Pass, reason.NotOurs, "", ""},
		{"nodeport of another proxy", otherProxy, overTCP, outside, thisNode, 31234, false, nat.Pass, reason.NotOurs, "", ""},
		{"vip in proxy mode", proxyMode, overTCP, anyPod, vip, 8088, false, nat.Pass, reason.NotOurs, "", ""},
		{"no clusterip of the family, vip", singleStack, overTCP, outside6, "2001:db8:cc::50", 8088, false, nat.Pass, reason.NotOurs, "", ""},
		{"no clusterip of the family, nodeport", singleStack, overTCP, outside6, ourV6, 31234, false, nat.Pass, reason.NotOurs, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

func TestDecideSourceRanges(t *testing.T) {
	ranges := func(list ...string) func(*topology.Topology, *topology.Service) {
		return func(_ *topology.Topology, s *topology.Service) { s.SourceRanges = cidrs(list) }
	}
	empty := func(_ *topology.Topology, s *topology.Service) {
		s.Endpoints, s.SourceRanges = nil, cidrs([]string{"192.0.2.0/24"})
	}
	alsoExternal := func(_ *topology.Topology, s *topology.Service) {
		s.ExternalIPs, s.SourceRanges = s.LoadBalancerIPs, cidrs([]string{"192.0.2.0/24"})
	}
	ownV4Only := func(top *topology.Topology, s *topology.Service) {
		top.Gateway.LocalAddresses, s.SourceRanges = top.Gateway.LocalAddresses[:2], cidrs([]string{"2001:db8:77::/48"})
	}
	dropped := func(name string, edit func(*topology.Topology, *topology.Service), src, dst string) decideTest {
		return decideTest{name, edit, overTCP, src, dst, 8088, false, nat.Drop, reason.SourceRange, "", ""}
	}
	allowed := func(name string, edit func(*topology.Topology, *topology.Service), src, dst string) decideTest {
		tt := decideTest{name, edit, overTCP, src, dst, 8088, false, nat.Forward, reason.LoadBalancer, both, ourV4}
		if strings.Contains(dst, ":") {
			tt.backends, tt.snat = only6, ourV6
		}
		return tt
	}
	tests := []decideTest{
		allowed("inside", ranges("203.0.113.0/25"), "203.0.113.127", vip),
		dropped("outside", ranges("203.0.113.0/25"), "203.0.113.128", vip),
		dropped("pod", ranges("203.0.113.0/25"), anyPod, vip),
		dropped("node", ranges("203.0.113.0/25"), thisNode, vip),
		dropped("before the reject", empty, outside, vip),
		dropped("the vip is an external ip as well", alsoExternal, outside, vip),
		allowed("zero CIDR", ranges("192.0.2.0/24", "0.0.0.0/0"), outside, vip),
		allowed("zero CIDR v6", ranges("2001:db8:1::/48", "::/0"), outside6, "2001:db8:cc::50"),
		allowed("ranges of the other family", ranges("192.0.2.0/24"), outside6, "2001:db8:cc::50"),
		allowed("v6 inside", ranges("192.0.2.0/24", "2001:db8:77::/48"), outside6, "2001:db8:cc::50"),
		dropped("v6 outside", ranges("192.0.2.0/24", "2001:db8:78::/48"), outside6, "2001:db8:cc::50"),
		allowed("v6 range that ends in the lower word", ranges("2001:db8:77::/127"), outside6, "2001:db8:cc::50"),
		dropped("v6 beyond the lower word", ranges("2001:db8:77::2/127"), outside6, "2001:db8:cc::50"),
		allowed("v6 inside, node without v6", ownV4Only, outside6, "2001:db8:cc::50"),
		allowed("own vip, node in range", ranges("198.18.0.0/24"), vip, vip),
		dropped("own vip, node not in range", ranges("198.18.7.0/24"), vip, vip),
		dropped("another vip, node in range", ranges("198.18.0.0/24"), "192.0.2.51", vip),
		{"clusterip is not filtered", ranges("192.0.2.0/24"), overTCP, anyPod, clusterIP, 8088, false,
			nat.Forward, reason.ClusterIP, both, ""},
		{"external ip is not filtered", ranges("192.0.2.0/24"), overTCP, outside, external, 8088, false,
			nat.Forward, reason.ExternalIP, both, ourV4},
	}
	for _, tt := range tests {
		t.Run(tt.name, tt.run)
	}
}

// TestDecideSpread sends many connections of one client and counts: the source port must be part of the hash
// (kubernetes/kubernetes#115526), and weights must show in the counts.
func TestDecideSpread(t *testing.T) {
	tests := []struct {
		name    string
		weights []int
		want    []int // of 10000
	}{
		{"even", []int{1, 1, 1, 1}, []int{2500, 2500, 2500, 2500}},
		{"2:1:1", []int{2, 1, 1}, []int{5000, 2500, 2500}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			svc.Endpoints = nil
			for i, w := range tt.weights {
				e := endpoint("10.66.1.1", "wk-7")
				e.Address, e.Weight = netip.AddrFrom4([4]byte{10, 66, 1, byte(i)}), w
				svc.Endpoints = append(svc.Endpoints, e)
			}
			top.Services = []topology.Service{svc}
			table := compile(t, top, nat.CompileOptions{TableSize: 65537})
			got := make([]int, len(tt.weights))
			for port := range uint16(10000) {
				tu := tuple(overTCP, outside, 20000+port, vip, 8088)
				got[table.Decide(&tu, nat.Origin{}).Backend.Addr.V4()&0xff]++
			}
			for i := range got {
				if diff := got[i] - tt.want[i]; diff*20 > tt.want[i] || -diff*20 > tt.want[i] {
					t.Errorf("backend %d took %d flows, want %d within 5 %%", i, got[i], tt.want[i])
				}
			}
		})
	}
}

func TestDecisionReply(t *testing.T) {
	top := gateway()
	top.Services = []topology.Service{cart()}
	top.Services[0].Endpoints = top.Services[0].Endpoints[:1]
	table := compile(t, top, nat.CompileOptions{})
	kept, rewritten := tuple(overTCP, anyPod, 40123, clusterIP, 8088), tuple(overTCP, outside, 40123, vip, 8088)
	d := table.Decide(&kept, nat.Origin{})
	if got, want := d.Reply(&kept, 0), tuple(overTCP, "10.64.0.11", 9090, anyPod, 40123); got != want {
		t.Errorf("source kept: replies carry %v, want %v", got, want)
	}
	d = table.Decide(&rewritten, nat.Origin{})
	if got, want := d.Reply(&rewritten, 33333), tuple(overTCP, "10.64.0.11", 9090, thisNode, 33333); got != want {
		t.Errorf("source rewritten: replies carry %v, want %v", got, want)
	}
}

func TestDecideAllocates(t *testing.T) {
	top := gateway()
	top.Services = []topology.Service{cart()}
	top.Services[0].SourceRanges = cidrs([]string{"203.0.113.0/25", "10.64.0.11/32"})
	table := compile(t, top, nat.CompileOptions{})
	tests := map[nat.Verdict][]packet.Tuple{
		nat.Forward: {tuple(overTCP, anyPod, 1, clusterIP, 8088), tuple(overTCP, outside, 1, vip, 8088),
			tuple(overUDP, outside6, 1, ourV6, 31053)},
		nat.Drop:   {tuple(overTCP, "203.0.113.200", 1, vip, 8088), tuple(overTCP, anyPod, 1, "10.112.9.9", 80)},
		nat.Reject: {tuple(overTCP, anyPod, 1, clusterIP, 9)},
		nat.Pass:   {tuple(overTCP, anyPod, 1, outside, 80)},
	}
	for verdict, list := range tests {
		for _, tu := range list {
			var d nat.Decision
			if n := testing.AllocsPerRun(100, func() { d = table.Decide(&tu, nat.Origin{}) }); n != 0 || d.Verdict != verdict {
				t.Errorf("%v: %s with %v allocations, want %s with none", tu, d.Verdict, n, verdict)
			}
		}
	}
}

func TestVerdictString(t *testing.T) {
	var got []string
	for v := range nat.Pass + 2 {
		got = append(got, v.String())
	}
	if want := []string{"drop", "forward", "reject", "pass", "unknown"}; !slices.Equal(got, want) {
		t.Errorf("verdicts %v, want %v", got, want)
	}
}

func BenchmarkDecide(b *testing.B) {
	table := compile(b, many(1000, 3), nat.CompileOptions{})
	for name, tu := range map[string]packet.Tuple{
		"forward":     tuple(overTCP, anyPod, 40123, "10.112.2.7", 80),
		"forwardSNAT": tuple(overTCP, outside, 40123, "10.112.2.7", 80),
		"reject":      tuple(overTCP, outside, 40123, "10.112.2.7", 81),
		"pass":        tuple(overTCP, outside, 40123, anyPod, 80),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tu.SrcPort++
				table.Decide(&tu, nat.Origin{})
			}
		})
	}
}
