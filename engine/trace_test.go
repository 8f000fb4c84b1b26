package engine

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

func traceSpec(from Origin, proto, src, dst string) TraceSpec {
	return TraceSpec{From: from, Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst)}
}

// with returns s changed.
func (s TraceSpec) with(change func(*TraceSpec)) TraceSpec {
	change(&s)
	return s
}

func TestTrace(t *testing.T) {
	established := func(s *TraceSpec) { s.Established = true }
	ack := func(s *TraceSpec) { s.Flags = "ACK, psh" }
	for _, tc := range []struct {
		name   string
		spec   TraceSpec
		want   string   // verdict reason service backend snat_source reject, "-" for none
		stages []string // of the steps
	}{
		{"full nat", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "203.0.113.5:80"),
			"forward loadbalancer shop/web:web 10.64.0.11:8080 198.18.0.10 -",
			[]string{"xdp", "parse", "flow table", "service table", "client", "policy", "choice", "source", "flow table", "send"}},
		{"source kept", traceSpec(FromPod, "udp", "10.64.3.9:40000", "10.96.4.10:53"),
			"forward clusterip shop/web:dns 10.64.0.11:5353 - -", nil},
		{"ipv6", traceSpec(FromExternal, "TCP", "[2001:db8:1::10]:40000", "[fd00:96::10]:80"),
			"forward clusterip shop/web:web [fd64:10::11]:8080 2001:db8:a::10 -", nil},
		{"node port", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "198.18.0.10:30080"),
			"forward nodeport shop/web:web 10.64.0.11:8080 198.18.0.10 -", nil},
		{"a process of the node", traceSpec(FromNode, "tcp", "198.18.0.10:40000", "10.96.4.10:80"),
			"forward clusterip shop/web:web 10.64.0.11:8080 198.18.0.10 -", nil},
		{"hairpin", traceSpec(FromPod, "tcp", "10.64.0.11:40000", "10.96.4.10:80"),
			"forward hairpin shop/web:web 10.64.0.11:8080 198.18.0.10 -", nil},
		{"no endpoints", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "10.96.4.11:80"),
			"reject no_endpoints shop/idle:web - - icmp", nil},
		{"unknown port", traceSpec(FromExternal, "udp", "192.0.2.10:40000", "10.96.4.10:99"),
			"reject unknown_port - - - icmp", nil},
		{"unallocated", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "10.96.9.9:80"), "drop unallocated - - - -", nil},
		{"not ours", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "198.18.0.10:22"), "pass not_ours - - - -", []string{"xdp"}},
		{"redirected but not ours", traceSpec(FromExternal, "tcp", "192.0.2.10:443", "198.18.0.10:40000"), "pass not_ours - - - -", nil},
		{"echo", traceSpec(FromExternal, "icmp", "192.0.2.10:7", "203.0.113.5:0"), "forward echo_reply - - - -", nil},
		{"segment without a flow", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "203.0.113.5:80").with(ack),
			"drop no_flow shop/web:web - - -", nil},
		{"established", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "203.0.113.5:80").with(established),
			"forward established shop/web:web 10.64.0.11:8080 198.18.0.10 -", []string{"xdp", "parse", "flow table", "send"}},
		{"established, udp", traceSpec(FromPod, "udp", "10.64.3.9:40000", "10.96.4.10:53").with(established),
			"forward established shop/web:dns 10.64.0.11:5353 - -", nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, err := Trace(testTopology(), tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			fields := []string{r.Verdict, r.Reason, r.Service, r.Backend, r.SNATSource, r.Reject}
			for i, f := range fields {
				if f == "" {
					fields[i] = "-"
				}
			}
			if got := strings.Join(fields, " "); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if r.SNAT != (r.SNATSource != "") {
				t.Errorf("snat %v with source %q", r.SNAT, r.SNATSource)
			}
			if r.Backend != "" && tc.spec.Established != (len(r.Candidates) == 0) {
				t.Errorf("candidates %v", r.Candidates)
			}
			stages := make([]string, len(r.Steps))
			for i, s := range r.Steps {
				stages[i] = s.Stage
			}
			if tc.stages != nil && !slices.Equal(stages, tc.stages) {
				t.Errorf("stages %v, want %v", stages, tc.stages)
			}
		})
	}
}

// TestTraceJSON pins the form that scripts read.
func TestTraceJSON(t *testing.T) {
	r, err := Trace(testTopology(), traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "198.18.0.10:22"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"verdict":"pass","service":"","backend":"","candidates":[],"snat":false,"snat_source":"","reject":"",` +
		`"reason":"not_ours","steps":[{"stage":"xdp","result":"pass","why":"no rule names this packet: it is the kernel's, untouched"}],` +
		`"skipped":[]}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestTraceRefuses(t *testing.T) {
	good := traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "203.0.113.5:80")
	for _, tc := range []struct {
		name string
		spec TraceSpec
		want string
	}{
		{"gre", good.with(func(s *TraceSpec) { s.Proto = "gre" }), "must be tcp, udp, sctp or icmp"},
		{"protocol", good.with(func(s *TraceSpec) { s.Proto = "gre" }), `"gre"`},
		{"flag", good.with(func(s *TraceSpec) { s.Flags = "syn,urgent" }), `"urgent"`},
		{"origin", good.with(func(s *TraceSpec) { s.From = "moon" }), `"moon"`},
		{"families", traceSpec(FromExternal, "tcp", "192.0.2.10:40000", "[2001:db8::1]:80"), "families"},
		{"interface of the node itself", good.with(func(s *TraceSpec) { s.From, s.Interface = FromNode, "cali1" }), "comes in on none"},
		{"no source", good.with(func(s *TraceSpec) { s.Src = netip.AddrPort{} }), "both are needed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := Trace(testTopology(), tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %s", err, tc.want)
			}
		})
	}
}
