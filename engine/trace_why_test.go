package engine

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
)

// web is the third service of the test topology.
func web(t *topology.Topology) *topology.Service { return &t.Services[2] }

// webEndpoint is an endpoint of it.
func webEndpoint(addr, node string, change func(*topology.Endpoint)) topology.Endpoint {
	e := endpoint(addr, node, map[string]uint16{"web": 8080, "dns": 5353})
	if change != nil {
		change(&e)
	}
	return e
}

func terminating(e *topology.Endpoint) { e.Ready, e.Terminating = false, true }
func unready(e *topology.Endpoint)     { e.Ready, e.Serving = false, false }
func weightless(e *topology.Endpoint)  { e.Weight = 0 }

// zone returns a change that hints an endpoint to zones.
func zone(zones ...string) func(*topology.Endpoint) {
	return func(e *topology.Endpoint) { e.ForZones = zones }
}

// TestTraceSteps: each rule that speaks has its step, with the result and the reason.
func TestTraceSteps(t *testing.T) {
	hinted := func(zones ...[]string) func(*topology.Topology) {
		return func(top *topology.Topology) {
			top.Gateway.Zone = "az-1"
			web(top).Endpoints = nil
			for i, z := range zones {
				web(top).Endpoints = append(web(top).Endpoints, webEndpoint(fmt.Sprintf("10.64.0.%d", 11+i), "wk-1", zone(z...)))
			}
		}
	}
	all := func(changes ...func(*topology.Topology)) func(*topology.Topology) {
		return func(top *topology.Topology) {
			for _, change := range changes {
				change(top)
			}
		}
	}
	noZone := func(top *topology.Topology) { top.Gateway.Zone = "" }
	external := traceSpec(FromExternal, "tcp", client+":40000", webVIP+":80")
	inside := traceSpec(FromPod, "tcp", podClient+":40000", webIP+":80")
	on := func(s TraceSpec, iface string) TraceSpec { s.Interface = iface; return s }
	podPorts := func(top *topology.Topology) { top.Gateway.PodInterfaces = []string{"cali*"} }
	etpLocal := func(top *topology.Topology) { web(top).ExternalTrafficPolicy = topology.PolicyLocal }
	for _, tc := range []struct {
		name   string
		change func(*topology.Topology)
		spec   TraceSpec
		want   []string // "stage|result|part of why", in this order among others
	}{
		{"pod by address", nil, inside, []string{"service table|shop/web:web|ClusterIP", "client|pod|gateway.pod_cidrs",
			"policy|1 candidates|internal traffic policy Cluster", "source|kept|keeps the source of pods"}},
		{"pod by interface", podPorts, on(external, "cali7"), []string{"client|pod|pod_interfaces"}},
		{"no pod by interface", podPorts, on(external, "eth0"), []string{"client|outside|neither"}},
		{"interface not attached", func(top *topology.Topology) { top.Gateway.Interfaces = []string{"eth0"} }, on(external, "eth1"),
			[]string{"interface|eth1|gateway.interfaces"}},
		{"node", nil, traceSpec(FromNode, "tcp", gateway+":40000", webIP+":80"), []string{"client|node|gateway itself",
			"source|198.18.0.10|no pod"}},
		{"outside to a vip", nil, external, []string{"service table|shop/web:web|load-balancer VIP", "client|outside|neither",
			"policy|1 candidates|external traffic policy Cluster", "choice|10.64.0.11:8080|from 1 candidates",
			"source|198.18.0.10|external traffic policy Cluster rewrites every source"}},
		{"external policy Local", all(etpLocal, func(top *topology.Topology) { web(top).Endpoints[0].Node = "gw-a" }), external,
			[]string{"policy|1 candidates|external traffic policy Local: endpoints of this node", "source|kept|Local keeps the source"}},
		{"short circuit", etpLocal, traceSpec(FromPod, "tcp", podClient+":40000", webVIP+":80"),
			[]string{"policy|1 candidates|does not bind pods", "source|kept|Local keeps the source"}},
		{"short circuit of the node", etpLocal, traceSpec(FromNode, "tcp", gateway+":40000", webVIP+":80"),
			[]string{"policy|1 candidates|does not bind pods and the gateway", "source|198.18.0.10|gateway itself alone"}},
		{"internal policy Local", func(top *topology.Topology) { web(top).InternalTrafficPolicy = topology.PolicyLocal }, inside,
			[]string{"policy|0 candidates|internal traffic policy Local", "skipped|10.64.0.11:8080|not on this node", "drop|no_local_endpoints|"}},
		{"masquerade all", func(top *topology.Topology) { top.Gateway.MasqueradeAll = true }, inside,
			[]string{"source|198.18.0.10|gateway.masquerade_all"}},
		{"no detector", func(top *topology.Topology) { top.Gateway.PodCIDRs = nil }, inside,
			[]string{"source|kept|without pod_cidrs and pod_interfaces"}},
		{"hairpin", nil, traceSpec(FromPod, "tcp", back1+":40000", webIP+":80"), []string{"service table|shop/web:web|ClusterIP",
			"source|198.18.0.10|answer itself"}},
		{"zone", hinted([]string{"az-1"}, []string{"az-2"}, []string{"az-1"}), inside, []string{"policy|2 candidates|",
			"hints|zone az-1|node mode off: 10.64.0.11:8080 has no hint; every", "skipped|10.64.0.12:8080|hints name other zones"}},
		{"node hints", func(top *topology.Topology) {
			hinted(nil, nil)(top)
			web(top).Endpoints[0].ForNodes, web(top).Endpoints[1].ForNodes = []string{"gw-a"}, []string{"wk-1"}
		}, inside, []string{"hints|node gw-a|", "skipped|10.64.0.12:8080|hints name other nodes"}},
		{"one without a hint", hinted([]string{"az-1"}, nil), inside, []string{"hints|off|zone mode off: 10.64.0.12:8080 has no hint"}},
		{"node without a zone", all(hinted([]string{"az-1"}, []string{"az-2"}), noZone), inside,
			[]string{"hints|off|zone mode off: this node has no zone"}},
		{"no hint for the zone", hinted([]string{"az-2"}, []string{"az-3"}), inside,
			[]string{"hints|off|zone mode off: no endpoint hints for zone az-1"}},
		{"none computed", func(top *topology.Topology) {
			web(top).Hints.Reason = "a node has no zone"
		}, inside, []string{"hints|off|none were computed: a node has no zone"}},
		{"hints and policy Local", all(hinted([]string{"az-2"}), func(top *topology.Topology) {
			web(top).InternalTrafficPolicy, web(top).Endpoints[0].Node = topology.PolicyLocal, "gw-a"
		}), inside, []string{"hints|off|traffic policy Local"}},
		{"hints and no ready endpoint", all(hinted([]string{"az-2"}), func(top *topology.Topology) {
			terminating(&web(top).Endpoints[0])
		}), inside, []string{"hints|off|no endpoint is ready"}},
		{"skipped", func(top *topology.Topology) {
			web(top).Endpoints = append(web(top).Endpoints, webEndpoint("10.64.0.12", "wk-1", terminating),
				webEndpoint("10.64.0.13", "wk-1", unready), webEndpoint("10.64.0.14", "wk-1", weightless),
				webEndpoint("10.64.0.15", "wk-1", func(e *topology.Endpoint) { unready(e); e.Terminating = true }),
				endpoint("10.64.0.16", "wk-1", map[string]uint16{"dns": 5353}), webEndpoint(back1, "wk-1", terminating))
		}, inside, []string{"skipped|10.64.0.12:8080|terminating", "skipped|10.64.0.13:8080|not ready", "skipped|10.64.0.14:8080|weight 0",
			"skipped|10.64.0.15:8080|terminating and not serving", "skipped|10.64.0.16|does not serve this port",
			"skipped|10.64.0.11:8080|another entry has this address"}},
		{"no endpoint usable", func(top *topology.Topology) { unready(&web(top).Endpoints[0]) }, inside,
			[]string{"skipped|10.64.0.11:8080|not ready", "answer|icmp|no usable endpoint"}},
		{"source ranges, refused", func(top *topology.Topology) { web(top).SourceRanges = prefixes("203.0.113.0/24") }, external,
			[]string{"source ranges|refused|in no range that is allowed", "drop|source_range|"}},
		{"source ranges, denied", func(top *topology.Topology) {
			web(top).SourceRanges, web(top).SourceRangesDeny = prefixes("192.0.2.0/24"), true
		}, external, []string{"source ranges|refused|in a range that is denied"}},
		{"source ranges, passed", func(top *topology.Topology) { web(top).SourceRanges = prefixes("192.0.2.0/24") }, external,
			[]string{"source ranges|passed|may use"}},
		{"source ranges, not asked", func(top *topology.Topology) { web(top).SourceRanges = prefixes("192.0.2.0/24") }, inside,
			[]string{"source ranges|passed|VIPs alone"}},
		{"affinity", func(top *topology.Topology) { web(top).SessionAffinity = true }, external,
			[]string{"affinity|new|pinned", "choice|10.64.0.11:8080|the client's address"}},
		{"unknown port to the kernel", func(top *topology.Topology) { top.Cluster.UnknownPort = "pass" },
			traceSpec(FromExternal, "tcp", client+":40000", webVIP+":99"), []string{"service table|pass|cluster.unknown_port", "punt|not_ours|"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			top := testTopology()
			if tc.change != nil {
				tc.change(top)
			}
			r, err := Trace(top, tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			checkSteps(t, r.Steps, tc.want)
			var skipped []string
			for _, s := range r.Steps {
				if s.Stage == "skipped" {
					skipped = append(skipped, s.Result+" "+s.Why)
				}
			}
			var listed []string
			for _, s := range r.Skipped {
				listed = append(listed, s.Endpoint+" "+s.Why)
			}
			if !slices.Equal(listed, skipped) {
				t.Errorf("skipped %v, steps %v", listed, skipped)
			}
		})
	}
}

// checkSteps looks for the wanted steps, in their order.
func checkSteps(t *testing.T, steps []Step, want []string) {
	t.Helper()
	rest := steps
	for _, w := range want {
		part := strings.Split(w, "|")
		i := slices.IndexFunc(rest, func(s Step) bool {
			return s.Stage == part[0] && s.Result == part[1] && strings.Contains(s.Why, part[2])
		})
		if i < 0 {
			t.Fatalf("no step %q, or not in this order, among %q", w, steps)
		}
		rest = rest[i+1:]
	}
}

// TestExplainPinned: a worker's second flow of a client tells that the backend was known.
func TestExplainPinned(t *testing.T) {
	top := testTopology()
	web(top).SessionAffinity = true
	b := newBed(t, top)
	b.p.Affinity = nat.NewAffinity(64, 1)
	b.run(0, frame(tuple(tcp, client, 40000, webVIP, 80)))
	b.p.explain = &explanation{}
	b.run(0, frame(tuple(tcp, client, 40001, webVIP, 80)))
	checkSteps(t, b.p.explain.steps, []string{"affinity|pinned|from before", "choice|10.64.0.11:8080|by session affinity"})
}

// TestExplainDown: health is not known to an offline trace, but to a table.
func TestExplainDown(t *testing.T) {
	top := testTopology()
	table, err := nat.Compile(top, nat.CompileOptions{TableSize: 251, Down: func(service, _ string, _ netip.AddrPort) bool { return service == "shop/web" }})
	if err != nil {
		t.Fatal(err)
	}
	tu := tuple(tcp, client, 40000, webVIP, 80)
	d := table.Decide(&tu, nat.Origin{})
	x := table.Explain(&d, &tu)
	if len(x.Skipped) != 1 || x.Skipped[0].String() != "10.64.0.11:8080: down: health check" {
		t.Errorf("skipped %v", x.Skipped)
	}
}

// prefixes parses CIDRs.
func prefixes(list ...string) (out []netip.Prefix) {
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}
