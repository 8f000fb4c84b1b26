package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/config"
	"sluice/engine"
	"sluice/nat/nattest"
)

// refusedCases are those of services that Kubernetes' API server refuses, and the configuration with it, with the faults.
// Kube-proxy knows what to do with them because there may be objects that are older than the validation.
var refusedCases = map[string][]string{
	"externalname": {`service[0].cluster_ips: an ExternalName service has no addresses`,
		`service[0].endpoint: an ExternalName service has no endpoints`},
	"etpl-not-externally-accessible": {
		`service[0].external_traffic_policy: Local on a service that is not reachable from outside`},
}

// TestTraceCases writes every case as the topology that a user would, and runs its packet through "sluice trace --json".
func TestTraceCases(t *testing.T) {
	listed := len(refusedCases)
	for _, load := range []func() ([]nattest.PacketCase, error){nattest.PacketCases, nattest.MoreCases} {
		cases, err := load()
		if err != nil {
			t.Fatal(err)
		}
		for i := range cases {
			if _, refused := refusedCases[cases[i].ID]; refused {
				listed--
			}
			t.Run(cases[i].ID, func(t *testing.T) { traceCase(t, &cases[i]) })
		}
	}
	if listed != 0 {
		t.Error("refusedCases lists what is no case")
	}
}

func traceCase(t *testing.T, c *nattest.PacketCase) {
	path := filepath.Join(t.TempDir(), "case.toml")
	if err := os.WriteFile(path, []byte(caseTOML(c)), 0o600); err != nil {
		t.Fatal(err)
	}
	result, err := traceFile(path, c)
	if want, refused := refusedCases[c.ID]; refused {
		checkRefused(t, err, want)
		return
	}
	var diffs []string
	if err != nil {
		diffs = []string{err.Error()}
	} else {
		diffs = compareTrace(c, result)
	}
	if len(diffs) > 0 {
		t.Errorf("%s\n%s", strings.Join(diffs, "\n"), caseTOML(c))
	}
}

// traceFile runs the command and reads its answer.
func traceFile(path string, c *nattest.PacketCase) (*engine.TraceResult, error) {
	p := &c.Packet
	args := []string{"trace", "-c", path, "--json", "--from", p.From, "--proto", strings.ToLower(p.Proto),
		"--src", end(p.Src, p.Sport), "--dst", end(p.Dst, p.Dport)}
	if p.Interface != "" {
		args = append(args, "--interface", p.Interface)
	}
	var out bytes.Buffer
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(&out)
	if err := root.Execute(); err != nil {
		return nil, err
	}
	var r engine.TraceResult
	return &r, json.Unmarshal(out.Bytes(), &r)
}

// end returns an address and a port as --src and --dst take them.
func end(addr string, port uint16) string {
	return netip.AddrPortFrom(netip.MustParseAddr(addr), port).String()
}

// checkRefused compares the faults of a topology: exactly those that begin so.
func checkRefused(t *testing.T, err error, want []string) {
	var faults config.Faults
	if !errors.As(err, &faults) {
		t.Fatalf("%v, want a refused topology", err)
	}
	if len(faults) != len(want) {
		t.Errorf("%v, want %q", err, want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("%v, want %q", err, w)
		}
	}
}

// compareTrace returns what differs from the expectation.
func compareTrace(c *nattest.PacketCase, r *engine.TraceResult) (diffs []string) {
	want := &c.Expected
	differ := func(format string, args ...any) { diffs = append(diffs, fmt.Sprintf(format, args...)) }
	if r.Verdict != want.Verdict {
		differ("verdict %s (%s), want %s", r.Verdict, r.Reason, want.Verdict)
	}
	if set := slices.Sorted(slices.Values(want.DstAnyOf)); !slices.Equal(r.Candidates, set) {
		differ("candidates %v, want %v", r.Candidates, set)
	}
	if forward := want.Verdict == "forward"; forward != slices.Contains(want.DstAnyOf, r.Backend) ||
		!forward && r.Backend != "" {
		differ("backend %q, want one of %v", r.Backend, want.DstAnyOf)
	}
	source := ""
	if want.SNAT {
		source = c.Primary(netip.MustParseAddr(c.Packet.Src).Is4())
	}
	if r.SNAT != want.SNAT || r.SNATSource != source {
		differ("snat %v %q, want %v %q", r.SNAT, r.SNATSource, want.SNAT, source)
	}
	if r.Service != cmp.Or(want.Service, addressed(c)) {
		differ("service %q, want %q", r.Service, cmp.Or(want.Service, addressed(c)))
	}
	if (r.Reject == "icmp") != (want.Verdict == "reject") {
		differ("reject %q", r.Reject)
	}
	return diffs
}

// addressed returns the service port that the packet of a case is for, as trace prints it; "" when there is none.
func addressed(c *nattest.PacketCase) string {
	p := &c.Packet
	for i := range c.Services {
		s := &c.Services[i]
		if s.Type == "ExternalName" || s.Labels["service.kubernetes.io/service-proxy-name"] != "" {
			continue
		}
		served := slices.Contains(s.ClusterIPs, p.Dst) || slices.Contains(s.ExternalIPs, p.Dst)
		for _, in := range s.LBIngress {
			served = served || in.IP == p.Dst && in.Mode != "Proxy"
		}
		for _, port := range s.Ports {
			byNode := c.Expected.Verdict != "pass" && p.Dport == port.NodePort
			if p.Proto == port.Proto && (served && p.Dport == port.Port || !served && byNode) {
				return strings.TrimSuffix(s.Namespace+"/"+s.Name+":"+port.Name, ":")
			}
		}
	}
	return ""
}
