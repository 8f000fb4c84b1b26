package engine

import (
	"encoding/json"
	"net/netip"
	"os"
	"testing"

	"sluice/config/topology"
	"sluice/conntrack"
	"sluice/nat"
	"sluice/xdp/packet"
)

// ctCase is a case of testdata/conntrack_cases.json: an entry of kube-proxy's conntrack, the service that it may be of,
// and whether kube-proxy's clean-up deletes it.
type ctCase struct {
	ID    string `json:"id"`
	Input struct {
		Service struct {
			ClusterIP  string `json:"cluster_ip"`
			ExternalIP string `json:"external_ip"`
			LBIP       string `json:"lb_ip"`
			Port       uint16 `json:"port"`
			NodePort   uint16 `json:"node_port"`
			Proto      string `json:"proto"`
		} `json:"service"`
		Serving    []string `json:"serving"`
		NonServing []string `json:"non_serving"`
		Entry      struct {
			Proto    string `json:"proto"`
			Dst      string `json:"dst"`
			ReplySrc string `json:"reply_src"`
		} `json:"entry"`
		Steps []string `json:"steps"`
	} `json:"input"`
	Expected struct {
		Deleted         bool `json:"deleted"`
		DeletedExpected bool `json:"deleted_expected"` // by the fix that kube-proxy does not have yet
	} `json:"expected"`
}

// table compiles the case's service, with these endpoints in front of its own.
func (c *ctCase) table(t *testing.T, previous *nat.Table, more ...string) *nat.Table {
	t.Helper()
	in := &c.Input
	svc := topology.Service{Namespace: "kube-system", Name: "dns", Type: topology.LoadBalancer,
		ClusterIPs: addrs(in.Service.ClusterIP), ExternalIPs: addrs(in.Service.ExternalIP), LoadBalancerIPs: addrs(in.Service.LBIP),
		ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{{Name: "dns", Protocol: topology.Protocol(in.Service.Proto), Port: in.Service.Port,
			TargetPort: 5353, NodePort: in.Service.NodePort}}}
	add := func(list []string, serving bool) {
		for _, s := range list {
			a := netip.MustParseAddrPort(s)
			svc.Endpoints = append(svc.Endpoints, topology.Endpoint{Address: a.Addr(), Ports: map[string]uint16{"dns": a.Port()},
				Ready: serving, Serving: serving, Terminating: !serving, Weight: 1})
		}
	}
	add(more, true)
	add(in.Serving, true)
	add(in.NonServing, false)
	node := addrs("198.18.0.10")
	table, err := nat.Compile(&topology.Topology{
		Gateway: topology.Gateway{Node: "gw-a", SNATAddresses: node, NodePortAddresses: node, LocalAddresses: node,
			SNATPorts: topology.PortRange{First: 32768, Last: 60999}},
		Cluster:  topology.Cluster{ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.112.0.0/20")}},
		Services: []topology.Service{svc},
	}, nat.CompileOptions{Previous: previous, TableSize: 251})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// entry returns the case's entry as a flow, which the generation before has opened: to an endpoint that it had. An entry whose
// reply does not come from an endpoint was not translated. One that is addressed to no service port is no service's.
func (c *ctCase) entry(t *testing.T) (packet.Tuple, conntrack.Meta, *nat.Table) {
	e := &c.Input.Entry
	protos := map[string]uint8{"UDP": packet.ProtoUDP, "TCP": packet.ProtoTCP, "SCTP": packet.ProtoSCTP}
	dst, from := netip.MustParseAddrPort(e.Dst), netip.MustParseAddrPort(e.ReplySrc)
	forward := tuple(protos[e.Proto], "10.64.3.9", 40000, dst.Addr().String(), dst.Port())
	if from == dst {
		table := c.table(t, nil)
		return forward, conntrack.Meta{Service: portOf(table, &forward)}, table
	}
	table := c.table(t, nil, e.ReplySrc)
	asService := forward
	asService.Proto = packet.ProtoUDP // a connection is some service's; which one has gone
	m := conntrack.Meta{Service: portOf(table, &asService)}
	for p := range table.Ports() {
		for _, b := range p.Backends() {
			if b.AddrPort == from {
				m.Backend = b.ID
			}
		}
	}
	return forward, m, table
}

// portOf returns the number of the service port that a packet is addressed to, 0 for none.
func portOf(table *nat.Table, tu *packet.Tuple) uint32 {
	for p := range table.Ports() {
		if table.Leads(tu, p.ID) {
			return p.ID
		}
	}
	return 0
}

// better are the cases in which kube-proxy keeps an entry that must go, and what is right.
func better() map[string]string {
	return map[string]string{
		"ct-noep-nodeport-kept": "kube-proxy knows the entries of a NodePort by the port number alone and spares them all when no " +
			"endpoint serves, for fear of somebody else's; here the flow says which service opened it",
		"ct-service-deleted": "kube-proxy 1.37 forgets to look for entries of services that are gone",
	}
}

// TestJudgeLikeKubeProxy runs kube-proxy's cases of stale entries.
func TestJudgeLikeKubeProxy(t *testing.T) {
	text, err := os.ReadFile("testdata/conntrack_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []ctCase }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) {
			want := keep
			if _, ours := better()[c.ID]; c.Expected.Deleted || ours {
				want = purge
			}
			if len(c.Input.Steps) > 0 { // in words: a service with a live one-way flow is deleted
				if !c.Expected.DeletedExpected {
					t.Fatalf("what is right? %+v", c.Expected)
				}
				b := newBed(t, testTopology())
				forward := tuple(udp, client, 40000, webVIP, 53)
				b.run(0, frame(forward))
				topo := testTopology()
				topo.Services = topo.Services[:2]
				b.reload(topo)
				if got := judge(b.snap.NAT, &forward, metaIn(t, b, forward)); got != want {
					t.Errorf("%d, want %d", got, want)
				}
				return
			}
			forward, m, before := c.entry(t)
			if got := judge(c.table(t, before), &forward, m); got != want {
				t.Errorf("%v %+v: %d, want %d", forward, m, got, want)
			}
		})
	}
	if len(file.Cases) != 8 {
		t.Errorf("%d cases", len(file.Cases))
	}
}

// metaIn returns what is kept with a flow of the bed.
func metaIn(t *testing.T, b *bed, forward packet.Tuple) conntrack.Meta {
	t.Helper()
	b.p.Flows.Enter(b.now)
	defer b.p.Flows.Leave()
	f, _, ok := b.p.Flows.Lookup(&forward)
	if !ok {
		t.Fatalf("no flow %v", forward)
	}
	return f.Meta()
}

// TestJudgeForeign: what no service has opened is nobody's to end, whatever it is addressed to.
func TestJudgeForeign(t *testing.T) {
	table := snapshot(t, 1, testTopology(), nil).NAT
	for _, proto := range []uint8{udp, tcp, packet.ProtoSCTP} {
		forward := tuple(proto, client, 40000, gateway, webNodePort+1)
		if got := judge(table, &forward, conntrack.Meta{}); got != keep {
			t.Errorf("protocol %d: %d, want keep", proto, got)
		}
	}
}

// TestJudge covers what kube-proxy's cases do not: what becomes of one flow of each kind when something changes.
func TestJudge(t *testing.T) {
	last := func(t *topology.Topology) *topology.Service { return &t.Services[2] }
	for _, tc := range []struct {
		name     string
		change   func(*topology.Topology)
		down     bool
		udp, tcp fate // of a service that drains, and of one that resets
	}{
		{"nothing", func(*topology.Topology) {}, false, keep, keep},
		{"endpoint gone", func(t *topology.Topology) { last(t).Endpoints = nil }, false, purge, reset},
		{"endpoint on another port", func(t *topology.Topology) {
			last(t).Endpoints[0].Ports = map[string]uint16{"web": 8081, "dns": 5354}
		}, false, purge, reset},
		{"endpoint not serving", func(t *topology.Topology) {
			last(t).Endpoints[0].Ready, last(t).Endpoints[0].Serving = false, false
		}, false, purge, keep},
		{"endpoint terminating", func(t *topology.Topology) {
			last(t).Endpoints[0].Ready, last(t).Endpoints[0].Terminating = false, true
		}, false, keep, keep},
		{"endpoint published though not ready", func(t *topology.Topology) { last(t).Endpoints[0].Serving = false }, false, keep, keep},
		{"endpoint down", func(*topology.Topology) {}, true, purge, keep},
		{"endpoint without weight", func(t *topology.Topology) { last(t).Endpoints[0].Weight = 0 }, false, keep, keep},
		{"endpoint on another node under policy Local", func(t *topology.Topology) {
			last(t).ExternalTrafficPolicy = topology.PolicyLocal
		}, false, keep, keep},
		{"source shut out", func(t *topology.Topology) {
			last(t).SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		}, false, purge, keep},
		{"service gone", func(t *topology.Topology) { t.Services = t.Services[:2] }, false, purge, reset},
		{"service under another name", func(t *topology.Topology) { last(t).Name = "other" }, false, purge, reset},
		{"address gone", func(t *topology.Topology) { last(t).LoadBalancerIPs = nil }, false, purge, reset},
		{"ports gone", func(t *topology.Topology) { last(t).Ports[0].Port, last(t).Ports[1].Port = 81, 54 }, false, purge, reset},
		{"protocols exchanged", func(t *topology.Topology) {
			last(t).Ports[0].Protocol, last(t).Ports[1].Protocol = topology.UDP, topology.TCP
		}, false, purge, reset},
		{"a protocol more on the same port", func(t *topology.Topology) {
			last(t).Ports = append(last(t).Ports, topology.Port{Name: "dns-tcp", Protocol: topology.TCP, Port: 53, TargetPort: 5353})
		}, false, keep, keep},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, resets := range []bool{false, true} {
				first, next := testTopology(), testTopology()
				first.Services[2].RemovedReset, next.Services[2].RemovedReset = resets, resets
				tc.change(next)
				b := newBed(t, first)
				datagram, conn := tuple(udp, client, 40000, webVIP, 53), tuple(tcp, client, 40000, webVIP, 80)
				b.run(0, frame(datagram), frame(conn))
				table, err := nat.Compile(next, nat.CompileOptions{Previous: b.snap.NAT, TableSize: 251,
					Down: func(string, string, netip.AddrPort) bool { return tc.down }})
				if err != nil {
					t.Fatal(err)
				}
				if got := judge(table, &datagram, metaIn(t, b, datagram)); got != tc.udp {
					t.Errorf("udp: %d, want %d", got, tc.udp)
				}
				want := keep
				if resets {
					want = tc.tcp
				}
				if got := judge(table, &conn, metaIn(t, b, conn)); got != want {
					t.Errorf("tcp, resets %v: %d, want %d", resets, got, want)
				}
			}
		})
	}
}
