package nat_test

import (
	"fmt"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/reason"
)

// masqueradeMatrix is who keeps its source, by detector of pods, masquerade_all, and source: for a ClusterIP under
// internal policy Cluster and Local, and for all other addresses under external policy Cluster and Local. A cell names
// the set of endpoints, c(luster) or l(ocal), and with S that the source is rewritten; - is a drop for want of a local
// endpoint. Kubernetes' TestInternalExternalMasquerade has the same, save that it does not masquerade remote hairpins.
const masqueradeMatrix = `
none      no   pod             c   l   cS  l
none      no   node            c   l   cS  cS
none      no   external        c   l   cS  l
none      no   hairpin-local   cS  lS  cS  lS
none      no   hairpin-remote  cS  -   cS  -
none      yes  pod             cS  lS  cS  l
none      yes  node            cS  lS  cS  cS
none      yes  external        cS  lS  cS  l
none      yes  hairpin-local   cS  lS  cS  lS
none      yes  hairpin-remote  cS  -   cS  -
cidr      no   pod             c   l   cS  c
cidr      no   node            cS  lS  cS  cS
cidr      no   external        cS  lS  cS  l
cidr      no   hairpin-local   cS  lS  cS  cS
cidr      no   hairpin-remote  cS  -   cS  cS
cidr      yes  pod             cS  lS  cS  c
cidr      yes  node            cS  lS  cS  cS
cidr      yes  external        cS  lS  cS  l
cidr      yes  hairpin-local   cS  lS  cS  cS
cidr      yes  hairpin-remote  cS  -   cS  cS
interface no   pod             c   l   cS  c
interface no   node            cS  lS  cS  cS
interface no   external        cS  lS  cS  l
interface no   hairpin-local   cS  lS  cS  cS
interface no   hairpin-remote  cS  -   cS  cS
interface yes  pod             cS  lS  cS  c
interface yes  node            cS  lS  cS  cS
interface yes  external        cS  lS  cS  l
interface yes  hairpin-local   cS  lS  cS  cS
interface yes  hairpin-remote  cS  -   cS  cS
`

// matrixFronts are the ways into cart; the first obeys the internal policy, the others the external one.
var matrixFronts = []struct {
	name, addr string
	port       uint16
}{{"clusterip", clusterIP, 8088}, {"nodeport", thisNode, 31234}, {"vip", vip, 8088}, {"externalip", external, 8088}}

func TestMasqueradeMatrix(t *testing.T) {
	cells := 0
	for line := range strings.Lines(strings.TrimSpace(masqueradeMatrix)) {
		row := strings.Fields(line)
		for i, front := range matrixFronts {
			for _, internal := range []topology.Policy{topology.PolicyCluster, topology.PolicyLocal} {
				for _, outer := range []topology.Policy{topology.PolicyCluster, topology.PolicyLocal} {
					column := 3
					if i > 0 {
						column = 5
					}
					if i == 0 && internal == topology.PolicyLocal || i > 0 && outer == topology.PolicyLocal {
						column++
					}
					name := fmt.Sprintf("%s/%s/%s/%s/%s/%s", row[0], row[1], row[2], front.name, internal, outer)
					t.Run(name, func(t *testing.T) {
						top, from, src := matrixRow(row, internal, outer)
						tu := tuple(overTCP, src, 40123, front.addr, front.port)
						d := compile(t, top, nat.CompileOptions{TableSize: 251}).Decide(&tu, from)
						if got := cell(&d, top.Services[0].Endpoints); got != row[column] {
							t.Errorf("%s (%s %s), want %s", got, d.Verdict, d.Reason, row[column])
						}
					})
					cells++
				}
			}
		}
	}
	if want := 30 * 4 * 4; cells != want {
		t.Errorf("%d cells, want %d", cells, want)
	}
}

// matrixRow returns the gateway, the origin and the source of a row. A source that is to be its own backend is the only
// endpoint.
func matrixRow(row []string, internal, outer topology.Policy) (*topology.Topology, nat.Origin, string) {
	top, svc := gateway(), cart()
	svc.InternalTrafficPolicy, svc.ExternalTrafficPolicy = internal, outer
	top.Gateway.MasqueradeAll = row[1] == "yes"
	if row[0] != "cidr" {
		top.Gateway.PodCIDRs = nil
	}
	if row[0] == "interface" {
		top.Gateway.PodInterfaces = []string{"cali*"}
	}
	svc.Endpoints = svc.Endpoints[:2]
	from, src := nat.Origin{PodInterface: row[0] == "interface"}, anyPod
	switch row[2] {
	case "node":
		from, src = nat.Origin{FromNode: true}, thisNode
	case "external":
		from, src = nat.Origin{}, outside
	case "hairpin-local":
		svc.Endpoints, src = svc.Endpoints[:1], "10.64.0.11"
	case "hairpin-remote":
		svc.Endpoints, src = svc.Endpoints[1:], "10.66.1.12"
	}
	top.Services = []topology.Service{svc}
	return top, from, src
}

// cell describes a decision as the matrix does. With one endpoint alone the sets do not differ: a local one is told by
// what an endpoint elsewhere would be, not in it.
func cell(d *nat.Decision, endpoints []topology.Endpoint) string {
	if d.Verdict == nat.Drop && d.Reason == reason.NoLocalEndpoints {
		return "-"
	}
	if d.Verdict != nat.Forward || d.SNAT && d.SNATAddr.String() != ourV4 {
		return "wrong"
	}
	set := "c"
	if nat.FromLocalSet(d) {
		set = "l"
	}
	if want := map[string]int{"c": len(endpoints), "l": 1}[set]; len(d.Candidates) != want {
		return "wrong set"
	}
	if d.SNAT {
		return set + "S"
	}
	return set
}

// TestPodDetectors: with both kinds either recognises a pod, and a pattern may match nothing.
func TestPodDetectors(t *testing.T) {
	top := gateway()
	top.Gateway.PodInterfaces = []string{"azv*", "cni0"}
	top.Services = []topology.Service{cart()}
	table := compile(t, top, nat.CompileOptions{})
	for _, tt := range []struct {
		name string
		src  string
		from nat.Origin
		want nat.Source
		text string
	}{
		{"by address", anyPod, nat.Origin{}, nat.PodByAddress, "pod"},
		{"by interface", outside, nat.Origin{PodInterface: true}, nat.PodByInterface, "pod"},
		{"by both", anyPod, nat.Origin{PodInterface: true}, nat.PodByAddress, "pod"},
		{"by neither", outside, nat.Origin{}, nat.Outside, "outside"},
		{"a process of the gateway comes in on no interface", thisNode, nat.Origin{FromNode: true, PodInterface: true}, nat.Node, "node"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tu := tuple(overTCP, tt.src, 40123, clusterIP, 8088)
			d := table.Decide(&tu, tt.from)
			if d.Source != tt.want || d.Source.String() != tt.text || d.SNAT == (tt.text == "pod") {
				t.Errorf("source %v (%d), snat %v, want %s (%d)", d.Source, d.Source, d.SNAT, tt.text, tt.want)
			}
		})
	}
	for name, want := range map[string]bool{"azv7": true, "azv": true, "xazv7": false, "cni0": true, "cni01": false, "eth0": false, "": false} {
		if got := table.IsPodInterface(name); got != want {
			t.Errorf("pods behind %q: %v, want %v", name, got, want)
		}
	}
	top.Gateway.PodInterfaces = []string{"*"}
	if all := compile(t, top, nat.CompileOptions{}); !all.IsPodInterface("eth0") || !all.IsPodInterface("") {
		t.Error("pattern * must match every interface")
	}
}
