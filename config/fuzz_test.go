package config

import (
	"errors"
	"strings"
	"testing"
)

// FuzzLoad holds the loader to three things on any text: it returns, it gives either a topology or faults, and every fault
// has a line that the text has.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		"",
		"[gateway]\nnode = \"a\"\n[[node]]\nname = \"a\"\naddresses = [\"198.18.0.1\"]\n",
		"[[service]]\nnamespace = \"x\"\nname = \"y\"\n[[service.port]]\nport = 80\n[[service.endpoint]]\naddress = \"10.0.0.1\"\n",
		"service = [{ name = \"y\", port = [{ port = -1 }] }, { health_check = 3 }]\n",
		"cluster.service_cidrs = [\"10.0.0.0/28\",\n  # a comment ]\n  \"fd00::/64\"]\ncluster.node_port_range = '''1-2'''\n",
		"a = \"\"\"\n[b]\nc = 1\\\"\"\"\"\n\"d.e\" = {f.g = [1, {h = 2}]}\r\n",
		"[a\nb = ",
		"x = [[[[[[{a={a={a={",
		"[[node]]\nname = \"a\"\ncpu = nan\n[[node]]\ncpu = -inf\ncontrol_plane = true\n",
		"[[service]]\ntype = \"LoadBalancer\"\nexternal_traffic_policy = \"Local\"\nhealth_check_node_port = -9\n[[service.port]]\n" +
			"port = 80\nprotocol = \"SCTP\"\ntarget_port = \"a-1\"\n[[service.endpoint]]\nfor_zones = [\"\"]\n",
		"[[service]]\nsession_affinity = \"ClientIP\"\nsession_affinity_timeout = \"1.5s\"\nload_balancer_source_ranges_scope = \"all\"\n" +
			"external_ips = [\"10.0.0.1\"]\nannotations = { \"service.beta.kubernetes.io/load-balancer-source-ranges\" = \",\" }\n",
		"[gateway]\npod_interfaces = [\"*\"]\nhealthz = \"[::]:0\"\nnodeport_addresses = [[\"all\"]]\n[cluster]\nexternal_ip_cidrs = [\"::/0\"]\n",
		"[[tcp_route]]\ncreated = 2026-01-01\nlisten = [\":1\"]\n[[tcp_route.backend]]\nport = 1.5\n[[pod]]\naddresses = [\"x\"]\nports = { a = 0 }\n",
		"[[namespace]]\nname = \"n\"\nlabels = { \"a.b/c[0]\" = \"d\" }\n\"\" = 1\n",
		"[[tcp_route]]\nnamespace = \"x\"\nname = \"r\"\ncreated = 2026-01-01T00:00:00Z\nlisten = [\"203.0.113.5:443\", \"[::]:0\"]\n" +
			"[[tcp_route.backend]]\nservice = \"x/y\"\nport = 80\nweight = 1000001\n[[udp_route.backend]]\nport = \"a\"\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		l := newLoader()
		l.file("f.toml", text)
		top, _, err := l.resolve(nil)
		if (top == nil) == (err == nil) {
			t.Fatalf("topology %v, error %v", top, err)
		}
		var faults Faults
		if err != nil && !errors.As(err, &faults) {
			t.Fatalf("%T: %v", err, err)
		}
		last := 1 + strings.Count(text, "\n")
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > last || fault.File != "f.toml" {
				t.Errorf("%v: the text has %d lines", fault, last)
			}
		}
		// The loader indexes only what has been parsed; the index must stand any text.
		for path, line := range indexLines(text) {
			if line < 1 || line > last {
				t.Errorf("%q is on line %d of %d", path, line, last)
			}
		}
	})
}
