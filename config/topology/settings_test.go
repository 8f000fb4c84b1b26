package topology

import (
	"encoding/json"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestSettings gives each setting of the gateway, the cluster, the flow table and nodes values that are right and wrong.
func TestSettings(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Input)
		want   []string
	}{
		{"pod interfaces", func(in *Input) { in.Gateway.PodInterfaces = []string{"cni0", "veth*", "fifteen-letters"} }, nil},
		{"every interface", func(in *Input) { in.Gateway.PodInterfaces = []string{"cni0", "*"} },
			[]string{"gateway.pod_interfaces[1]: stands for every interface"}},
		{"star inside", func(in *Input) {
			in.Gateway.PodInterfaces = []string{"ve*th", "v**", "", "sixteen-letters-", "a b", ".."}
		},
			[]string{"gateway.pod_interfaces[0]: not a name", "gateway.pod_interfaces[1]: not a name", "gateway.pod_interfaces[2]: not a name",
				"gateway.pod_interfaces[3]: not a name", "gateway.pod_interfaces[4]: not a name", "gateway.pod_interfaces[5]: not a name"}},
		{"pod interface twice", func(in *Input) { in.Gateway.PodInterfaces = []string{"veth*", "veth*"} },
			[]string{"gateway.pod_interfaces[1]: there twice"}},
		{"colon in an interface", func(in *Input) { in.Gateway.Interfaces = []string{"eth0:1"} }, []string{"gateway.interfaces[0]: not a name"}},
		{"reset", func(in *Input) { in.Gateway.RejectWith = "tcp-reset" }, nil},
		{"another answer", func(in *Input) { in.Gateway.RejectWith = "rst" }, []string{"gateway.reject_with: not allowed"}},
		{"no healthz", func(in *Input) { in.Gateway.Healthz = "" }, nil},
		{"healthz of IPv6", func(in *Input) { in.Gateway.Healthz = "[::]:10256" }, nil},
		{"healthz without address", func(in *Input) { in.Gateway.Healthz = ":10256" }, []string{"gateway.healthz: not an address to listen on"}},
		{"healthz on a node port", func(in *Input) { in.Gateway.Healthz = "0.0.0.0:30000" }, []string{"gateway.healthz: inside cluster.node_port_range"}},
		{"healthz on metrics", func(in *Input) { in.Gateway.Healthz = "0.0.0.0:10249" }, []string{"gateway.healthz: the same port"}},
		{"healthz of the other family", func(in *Input) { in.Gateway.Healthz = "[::]:10249" }, nil},
		{"healthz on another address", func(in *Input) { in.Gateway.Healthz = "198.18.0.10:10249" }, nil},
		{"neither", func(in *Input) { in.Gateway.Healthz, in.Gateway.Metrics = "", "" }, nil},
		{"no state file", func(in *Input) { in.Gateway.StateFile = "" }, nil},
		{"relative state file", func(in *Input) { in.Gateway.StateFile = "state.json" }, []string{"gateway.state_file: from the root on"}},
		{"directory as state file", func(in *Input) { in.Gateway.StateFile = "/var/lib/" }, []string{"gateway.state_file: from the root on"}},
		{"external ranges", func(in *Input) { in.Cluster.ExternalIPCIDRs = []string{"198.51.100.0/24", "198.51.100.1/24"} },
			[]string{"cluster.external_ip_cidrs[1]: bits set"}},
		{"pass", func(in *Input) { in.Cluster.UnknownPort, in.Cluster.Unallocated = "pass", "pass" }, nil},
		{"the other's words", func(in *Input) { in.Cluster.UnknownPort, in.Cluster.Unallocated = "drop", "reject" },
			[]string{"cluster.unknown_port: not allowed", "cluster.unallocated: not allowed"}},
		{"smallest slices", func(in *Input) { in.Cluster.SliceSize = 1 }, nil},
		{"largest slices", func(in *Input) { in.Cluster.SliceSize = 1000 }, nil},
		{"empty slices", func(in *Input) { in.Cluster.SliceSize = 0 }, []string{"cluster.max_endpoints_per_slice: 0 is out of range"}},
		{"too large slices", func(in *Input) { in.Cluster.SliceSize = 1001 }, []string{"cluster.max_endpoints_per_slice: 1001 is out of range"}},
		{"SCTP timeouts", func(in *Input) {
			in.Conntrack.SCTPSetup, in.Conntrack.SCTP, in.Conntrack.SCTPShutdown = "0s", "x", "-1s"
		},
			[]string{"conntrack.sctp_setup: not a duration", "conntrack.sctp: not a duration", "conntrack.sctp_shutdown: not a duration"}},
		{"part of a processor", func(in *Input) { in.Nodes[0].CPU = 0.5 }, nil},
		{"less than none", func(in *Input) { in.Nodes[0].CPU = -0.5 }, []string{"node[0].cpu: not a number of processors"}},
		{"infinitely many", func(in *Input) { in.Nodes[0].CPU = math.Inf(1) }, []string{"node[0].cpu: not a number of processors"}},
		{"not a number", func(in *Input) { in.Nodes[0].CPU = math.NaN() }, []string{"node[0].cpu: not a number of processors"}},
		{"zone", func(in *Input) { in.Nodes[0].Zone = "Rack_1.b" }, nil},
		{"bad zone", func(in *Input) { in.Nodes[0].Zone = "a/b" }, []string{"node[0].zone: not the name of a zone"}},
		{"NodePorts as in kube-proxy", func(in *Input) { in.Gateway.NodePortAddresses = []any{"primary"} }, nil},
		{"keyword beside a prefix", func(in *Input) { in.Gateway.NodePortAddresses = []any{"primary", "198.18.0.0/24"} },
			[]string{"gateway.nodeport_addresses[0]: not a prefix"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			c.change(in)
			expectFaults(t, in, c.want...)
		})
	}
}

// TestDefaults holds what is not given to its default.
func TestDefaults(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", nil)
	top := resolve(t, in)
	g, c, s := top.Gateway, top.Cluster, top.Services[0]
	if g.RejectWith != "icmp" || g.Healthz != "0.0.0.0:10256" || g.StateFile != "/var/lib/sluice/allocations.json" || g.PodInterfaces != nil {
		t.Errorf("gateway %+v", g)
	}
	if c.UnknownPort != "reject" || c.Unallocated != "drop" || c.SliceSize != 100 || c.ExternalIPCIDRs != nil {
		t.Errorf("cluster %+v", c)
	}
	if top.Conntrack.Timeouts != DefaultTimeouts() || top.Conntrack.TCPLiberal {
		t.Errorf("flow table %+v", top.Conntrack)
	}
	if s.SessionAffinity || s.AffinityTimeout != 0 || s.AffinityPerService || s.RemovedReset || s.SourceRangesAll || s.SourceRangesDeny ||
		s.HealthCheckNodePort != 0 || s.TrafficDistribution != "" {
		t.Errorf("service %+v", s)
	}
}

// TestGiven holds what is given to arrive.
func TestGiven(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Gateway.PodInterfaces, in.Gateway.RejectWith, in.Gateway.Healthz, in.Gateway.StateFile = []string{"veth*"}, "tcp-reset", "", "/s"
	in.Cluster.ExternalIPCIDRs, in.Cluster.UnknownPort, in.Cluster.Unallocated, in.Cluster.SliceSize = []string{"198.51.100.0/24"}, "pass", "pass", 7
	in.Conntrack.TCPLiberal, in.Conntrack.SCTPSetup, in.Conntrack.SCTP, in.Conntrack.SCTPShutdown = true, "1s", "2s", "4s"
	in.Nodes = append(in.Nodes, NodeInput{Name: "wk", CPU: 7.5, Ready: false, ControlPlane: true})
	addService(in, "s", func(s *ServiceInput) {
		s.Type, s.LoadBalancerHostnames = "LoadBalancer", []string{"LB.example.org."}
		s.SourceRanges, s.SourceRangesPolicy, s.SourceRangesScope = []string{"203.0.113.0/24"}, "deny", "all"
		s.SessionAffinity, s.AffinityTimeout, s.AffinityScope, s.OnEndpointRemoved = "ClientIP", "90s", "service", "reset"
		s.TrafficDistribution = "PreferSameNode"
		e := endpoint("10.64.0.1", nil)
		e.ForZones, e.ForNodes = []string{"az-1"}, []string{"wk"}
		s.Endpoints = []EndpointInput{e}
	})
	addService(in, "z", func(s *ServiceInput) { s.Selector = map[string]string{"app": "x"} })
	top := resolve(t, in)
	g, c, s := top.Gateway, top.Cluster, top.Services[0]
	if g.RejectWith != "tcp-reset" || g.Healthz != "" || g.StateFile != "/s" || !slices.Equal(g.PodInterfaces, []string{"veth*"}) {
		t.Errorf("gateway %+v", g)
	}
	if c.UnknownPort != "pass" || c.Unallocated != "pass" || c.SliceSize != 7 ||
		!slices.Equal(c.ExternalIPCIDRs, []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}) {
		t.Errorf("cluster %+v", c)
	}
	if ct := top.Conntrack; !ct.TCPLiberal || ct.Timeouts.SCTPSetup != time.Second || ct.Timeouts.SCTP != 2*time.Second ||
		ct.Timeouts.SCTPShutdown != 4*time.Second {
		t.Errorf("flow table %+v", ct)
	}
	if n := top.Nodes[1]; n.CPU != 7.5 || n.Ready || !n.ControlPlane {
		t.Errorf("node %+v", n)
	}
	if !s.SessionAffinity || s.AffinityTimeout != 90*time.Second || !s.AffinityPerService || !s.RemovedReset {
		t.Errorf("affinity of %+v", s)
	}
	if !s.SourceRangesDeny || !s.SourceRangesAll || s.TrafficDistribution != "PreferSameNode" ||
		!slices.Equal(s.LoadBalancerHostnames, []string{"lb.example.org"}) {
		t.Errorf("service %+v", s)
	}
	if z := top.Services[1]; z.Selector["app"] != "x" {
		t.Errorf("selector %v", z.Selector)
	}
	if e := s.Endpoints[0]; !slices.Equal(e.ForZones, []string{"az-1"}) || !slices.Equal(e.ForNodes, []string{"wk"}) {
		t.Errorf("endpoint %+v", e)
	}
}

// TestNodePortKeyword gives the word in a list, as kube-proxy has it.
func TestNodePortKeyword(t *testing.T) {
	for word, want := range map[string][]string{"primary": {"198.18.0.10", "2001:db8:a::10"}, "all": {"198.18.0.10", "2001:db8:a::10", "198.18.0.11"}} {
		in := input("10.96.0.0/16")
		in.Nodes[0].Addresses = append(in.Nodes[0].Addresses, "198.18.0.11")
		in.Gateway.NodePortAddresses = []any{word}
		var got []string
		for _, a := range resolve(t, in).Gateway.NodePortAddresses {
			got = append(got, a.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", word, got, want)
		}
	}
}

// TestServiceSettings gives each setting of a service values that are right and wrong.
func TestServiceSettings(t *testing.T) {
	of := func(typ string, change func(*ServiceInput)) func(*ServiceInput) {
		return func(s *ServiceInput) {
			switch s.Type = typ; typ {
			case "headless":
				s.Type, s.ClusterIPs = "ClusterIP", []string{"None"}
			case "ExternalName":
				s.ExternalName, s.Ports = "db.example.org", nil
			}
			change(s)
		}
	}
	affine := func(timeout string) func(*ServiceInput) {
		return func(s *ServiceInput) { s.SessionAffinity, s.AffinityTimeout = "ClientIP", timeout }
	}
	ranges := func(policy, scope string, list ...string) func(*ServiceInput) {
		return func(s *ServiceInput) { s.SourceRanges, s.SourceRangesPolicy, s.SourceRangesScope = list, policy, scope }
	}
	hints := func(zones, nodes []string) func(*ServiceInput) {
		return func(s *ServiceInput) {
			e := endpoint("10.64.0.1", nil)
			e.ForZones, e.ForNodes = zones, nodes
			s.Endpoints = []EndpointInput{e}
		}
	}
	annotated := func(list ...string) func(*ServiceInput) {
		return func(s *ServiceInput) {
			s.Annotations = map[string]string{}
			for i := 0; i < len(list); i += 2 {
				s.Annotations[list[i]] = list[i+1]
			}
		}
	}
	target := func(v any) func(*ServiceInput) { return func(s *ServiceInput) { s.Ports[0].TargetPort = v } }
	const mode, older = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
	const rangesKey = "service.beta.kubernetes.io/load-balancer-source-ranges"
	eight := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for _, c := range []struct {
		name   string
		change func(*ServiceInput)
		want   []string // paths are of the service
	}{
		{"affinity", affine("3h"), nil},
		{"affinity by default", affine(""), nil},
		{"affinity of another kind", func(s *ServiceInput) { s.SessionAffinity = "Cookie" }, []string{"session_affinity: not allowed"}},
		{"least affinity", affine("1s"), nil},
		{"most affinity", affine("24h"), nil},
		{"too little affinity", affine("999ms"), []string{"session_affinity_timeout: out of range"}},
		{"too much affinity", affine("24h0m1s"), []string{"session_affinity_timeout: out of range"}},
		{"part of a second", affine("1500ms"), []string{"session_affinity_timeout: not a whole number of seconds"}},
		{"no time", affine("0s"), []string{"session_affinity_timeout: not a duration"}},
		{"timeout without affinity", func(s *ServiceInput) { s.AffinityTimeout = "1h" }, []string{"session_affinity_timeout: without session_affinity"}},
		{"default timeout without affinity", func(s *ServiceInput) { s.AffinityTimeout = "10800s" }, nil},
		{"scope without affinity", func(s *ServiceInput) { s.AffinityScope = "service" }, []string{"session_affinity_scope: without session_affinity"}},
		{"unknown scope", func(s *ServiceInput) { s.SessionAffinity, s.AffinityScope = "ClientIP", "node" }, []string{"session_affinity_scope: not allowed"}},
		{"affinity of a headless service", of("headless", affine("1h")), nil},
		{"affinity of an external name", of("ExternalName", affine("1h")), nil},
		{"reset", func(s *ServiceInput) { s.OnEndpointRemoved = "reset" }, nil},
		{"unknown end", func(s *ServiceInput) { s.OnEndpointRemoved = "keep" }, []string{"on_endpoint_removed: not allowed"}},
		{"reset of a headless service", of("headless", func(s *ServiceInput) { s.OnEndpointRemoved = "reset" }), []string{"on_endpoint_removed: no flows"}},
		{"reset of an external name", of("ExternalName", func(s *ServiceInput) { s.OnEndpointRemoved = "reset" }), []string{"on_endpoint_removed: no flows"}},

		{"ranges", of("LoadBalancer", ranges("deny", "vip", "203.0.113.0/24")), nil},
		{"ranges with blanks", of("LoadBalancer", ranges("allow", "all", " 203.0.113.0/24 ")), nil},
		{"ranges of a NodePort", of("NodePort", ranges("allow", "vip", "203.0.113.0/24")), []string{"load_balancer_source_ranges: only for type LoadBalancer"}},
		{"ranges of all addresses", of("NodePort", ranges("deny", "all", "203.0.113.0/24")), nil},
		{"ranges of a ClusterIP", ranges("allow", "all", "203.0.113.0/24"), nil},
		{"ranges of a headless service", of("headless", ranges("allow", "all", "203.0.113.0/24")), []string{"load_balancer_source_ranges: receives nothing"}},
		{"ranges of an external name", of("ExternalName", ranges("allow", "all", "203.0.113.0/24")), []string{"load_balancer_source_ranges: receives nothing"}},
		{"policy without ranges", of("LoadBalancer", ranges("deny", "all")),
			[]string{"load_balancer_source_ranges_policy: no ranges", "load_balancer_source_ranges_scope: no ranges"}},
		{"unknown policy and scope", of("LoadBalancer", ranges("refuse", "vips", "203.0.113.0/24")),
			[]string{"load_balancer_source_ranges_policy: not allowed", "load_balancer_source_ranges_scope: not allowed"}},
		{"annotation of ranges", of("LoadBalancer", annotated(rangesKey, "203.0.113.0/24, 198.51.100.0/24")), nil},
		{"empty annotation of ranges", of("LoadBalancer", annotated(rangesKey, " ")), nil},
		{"bad annotation of ranges", of("LoadBalancer", annotated(rangesKey, "203.0.113.0/24,x")), []string{"annotations: not a prefix"}},
		{"annotation of another type", annotated(rangesKey, "203.0.113.0/24"), []string{"annotations: only for type LoadBalancer"}},
		{"annotation beside ranges", of("LoadBalancer", func(s *ServiceInput) {
			s.SourceRanges, s.Annotations = []string{"203.0.113.0/24"}, map[string]string{rangesKey: "x"}
		}), nil},

		{"distribution", func(s *ServiceInput) { s.TrafficDistribution = "PreferClose" }, nil},
		{"unknown distribution", func(s *ServiceInput) { s.TrafficDistribution = "PreferFar" }, []string{"traffic_distribution: not allowed"}},
		{"annotations that agree", annotated(mode, "Auto", older, "Auto"), nil},
		{"annotations that differ", annotated(mode, "Auto", older, "Disabled"), []string{"annotations: expected the same"}},

		{"hostnames", of("LoadBalancer", func(s *ServiceInput) { s.LoadBalancerHostnames = []string{"a.example", "b.example."} }), nil},
		{"hostname twice", of("LoadBalancer", func(s *ServiceInput) { s.LoadBalancerHostnames = []string{"a.example", "A.example."} }),
			[]string{"load_balancer_hostnames[1]: there twice"}},
		{"bad hostnames", of("LoadBalancer", func(s *ServiceInput) { s.LoadBalancerHostnames = []string{"a_b", "203.0.113.1", ""} }),
			[]string{"load_balancer_hostnames[0]: not a DNS name", "load_balancer_hostnames[1]: is an address", "load_balancer_hostnames[2]: not a DNS name"}},
		{"hostnames of another type", func(s *ServiceInput) { s.LoadBalancerHostnames = []string{"a.example"} },
			[]string{"load_balancer_hostnames: only for type LoadBalancer"}},
		{"proxy mode without address", of("LoadBalancer", func(s *ServiceInput) {
			s.LoadBalancerIPMode, s.LoadBalancerHostnames = "Proxy", []string{"a.example"}
		}), []string{"load_balancer_ip_mode: no load-balancer address"}},
		{"proxy mode", of("LoadBalancer", func(s *ServiceInput) {
			s.LoadBalancerIPMode, s.LoadBalancerIPs = "Proxy", []string{"203.0.113.1"}
		}), nil},

		{"eight hints", hints(eight, eight), nil},
		{"nine hints", hints(append([]string{"i"}, eight...), append([]string{"i"}, eight...)),
			[]string{"endpoint[0].for_zones: at most 8", "endpoint[0].for_nodes: at most 8"}},
		{"bad hints", hints([]string{"a", "", "b/c", "a"}, []string{"A", "a", "a"}),
			[]string{"endpoint[0].for_zones[1]: not the name of a zone", "endpoint[0].for_zones[2]: not the name of a zone",
				"endpoint[0].for_zones[3]: there twice", "endpoint[0].for_nodes[0]: not the name of a node", "endpoint[0].for_nodes[2]: there twice"}},

		{"SCTP", func(s *ServiceInput) { s.Ports[0].Protocol = "SCTP" }, nil},
		{"protocol in small letters", func(s *ServiceInput) { s.Ports[0].Protocol = "sctp" }, []string{"port[0].protocol: not allowed"}},
		{"one number with three protocols", func(s *ServiceInput) {
			s.Ports = []PortInput{{"a", "TCP", 80, nil, 0}, {"b", "UDP", 80, nil, 0}, {"c", "SCTP", 80, nil, 0}}
		}, nil},
		{"SCTP twice", func(s *ServiceInput) { s.Ports = []PortInput{{"a", "SCTP", 80, nil, 0}, {"b", "SCTP", 80, nil, 0}} },
			[]string{"port[1].port: 80/SCTP is there twice"}},

		{"named target", target("http"), nil},
		{"target of 15 letters", target("a23456789-12345"), nil},
		{"target of 16 letters", target("a23456789-123456"), []string{"port[0].target_port: not the name of a port"}},
		{"target in capitals", target("Http"), []string{"port[0].target_port: not the name of a port"}},
		{"two hyphens", target("a--b"), []string{"port[0].target_port: not the name of a port"}},
		{"hyphen at the end", target("a-"), []string{"port[0].target_port: not the name of a port"}},
		{"empty target", target(""), []string{"port[0].target_port: not the name of a port"}},
		{"digits and hyphen", target("8-0"), []string{"port[0].target_port: not the name of a port"}},
		{"number in quotes", target("8080"), []string{"port[0].target_port: \"8080\" is a string"}},
		{"number too large", target(int64(65536)), []string{"port[0].target_port: port 65536 is out of range"}},
		{"number that is not TOML's", target(8080), nil},
		{"fraction", target(80.5), []string{"port[0].target_port: expected a whole number"}},
		{"named target without number", func(s *ServiceInput) {
			s.Ports[0].TargetPort, s.Endpoints = "http", []EndpointInput{endpoint("10.64.0.1", nil)}
		}, []string{"endpoint[0].ports: does not say its number"}},
		{"named target with number", func(s *ServiceInput) {
			s.Ports[0].TargetPort, s.Endpoints = "http", []EndpointInput{endpoint("10.64.0.1", map[string]int{"": 8080})}
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := input("10.96.0.0/16")
			addService(in, "s", c.change)
			var want []string
			for _, w := range c.want {
				want = append(want, "service[0]."+w)
			}
			expectFaults(t, in, want...)
		})
	}
}

// TestQuotedNumber says what to write instead.
func TestQuotedNumber(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) { s.Ports[0].TargetPort = "08080" })
	_, faults := Resolve(in)
	if len(faults) != 1 || faults[0].Hint != "write 8080" {
		t.Errorf("%v", faults)
	}
}

// TestTargets holds the port and the name of a target apart.
func TestTargets(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		s.Ports = []PortInput{{"a", "TCP", 80, nil, 0}, {"b", "TCP", 81, int64(8081), 0}, {"c", "SCTP", 82, "http", 0}}
	})
	want := []Port{{"a", TCP, 80, 80, "", 0}, {"b", TCP, 81, 8081, "", 0}, {"c", SCTP, 82, 0, "http", 0}}
	if got := resolve(t, in).Services[0].Ports; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestHeadlessFamilies gives headless services families that the service ranges do not have: without a selector nobody needs
// them to.
func TestHeadlessFamilies(t *testing.T) {
	for _, c := range []struct {
		selector map[string]string
		want     string
	}{{nil, ""}, {map[string]string{"app": "x"}, "no IPv6 range"}} {
		in := input("10.96.0.0/16")
		addService(in, "s", func(s *ServiceInput) {
			s.ClusterIPs, s.IPFamilies, s.IPFamilyPolicy, s.Selector = []string{"None"}, []string{"IPv4", "IPv6"}, "RequireDualStack", c.selector
		})
		_, faults := Resolve(in)
		if got := len(faults); got > 1 || got == 0 != (c.want == "") || got == 1 && !strings.Contains(faults[0].Message, c.want) {
			t.Errorf("%v: %v, want %q", c.selector, faults, c.want)
		}
	}
}

// TestSecretsAreNotShown: a secret is taken in as it is, and no format or encoding of the topology shows it.
func TestSecretsAreNotShown(t *testing.T) {
	secret := Secret{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0xff}
	in := input("10.96.0.0/16")
	in.DNS.CookieSecrets = []string{"000102030405060708090A0b0c0d0eff"}
	top := resolve(t, in)
	if !slices.Equal(top.DNS.CookieSecrets, []Secret{secret}) {
		t.Errorf("%d secrets", len(top.DNS.CookieSecrets))
	}
	encoded, err := json.Marshal(top.DNS.CookieSecrets)
	if err != nil || string(encoded) != `["(secret)"]` {
		t.Errorf("JSON %s, %v", encoded, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%x", "%d", "%s", "%q"} {
		if got := fmt.Sprintf(verb, secret); got != "(secret)" {
			t.Errorf("%s: %s", verb, got)
		}
	}
}
