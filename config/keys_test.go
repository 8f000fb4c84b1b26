package config_test

import (
	"strings"
	"testing"
)

// documented are the keys of a topology, as documented: table, key, value that is accepted (the default or the example), and
// whether another value is supported. Those that are not must be refused with any value but the one that asks for nothing.
const documented = `
gateway node "gw" yes
gateway interfaces ["eth0"] yes
gateway driver "afxdp" yes
gateway xdp_mode "auto" yes
gateway queues 0 yes
gateway flow_cache "auto" yes
gateway checksum "auto" yes
gateway pod_cidrs ["10.64.0.0/14","fd64:10::/48"] yes
gateway snat_addresses [] yes
gateway snat_ports "32768-60999" yes
gateway masquerade_all false yes
gateway nodeport_addresses "primary" yes
gateway admin "unix:/run/sluice/admin.sock" yes
gateway metrics "127.0.0.1:10249" yes
gateway healthz "0.0.0.0:10256" yes
gateway reject_with "tcp-reset" yes
gateway pod_interfaces ["azv*"] yes
gateway state_file "" yes
cluster domain "cluster.local" yes
cluster service_cidrs ["10.96.0.0/16"] yes
cluster node_port_range "30000-32767" yes
cluster load_balancer_pools ["203.0.113.0/27"] yes
cluster external_ip_cidrs ["198.51.100.0/24"] yes
cluster unknown_port "pass" yes
cluster unallocated "pass" yes
cluster max_endpoints_per_slice 1000 yes
conntrack max_flows 1048576 yes
conntrack tcp_syn "60s" yes
conntrack tcp_established "2h" yes
conntrack tcp_half_closed "1h" yes
conntrack tcp_time_wait "30s" yes
conntrack tcp_close "10s" yes
conntrack udp "30s" yes
conntrack udp_stream "120s" yes
conntrack icmp "30s" yes
conntrack tcp_liberal true yes
conntrack sctp_setup "10s" yes
conntrack sctp "210s" yes
conntrack sctp_shutdown "3s" yes
dns ttl 5 yes
dns address "" yes
dns pods "disabled" yes
dns reverse_zones [] yes
dns namespaces [] yes
dns ignore_empty_services false yes
dns no_endpoints false yes
dns endpoint_pod_names false yes
dns zonal false yes
dns external_zone "" yes
dns chaos "" yes
dns transfer_to ["198.18.0.53","10.0.0.0/8"] yes
dns forward [] ["192.0.2.1"]
dns stub {} {"corp.example"=["198.18.0.53"]}
dns autopath false true
dns search ["corp.example"] yes
dns tls_certificate "" "x"
dns tls_key "" "x"
dns coredns_compat false yes
dns cookie_secrets ["000102030405060708090a0b0c0d0e0f"] yes
node zone "az-1" yes
node pod_cidrs [] yes
node cpu 8 yes
node ready false yes
node control_plane true yes
namespace labels {team="web"} yes
service type "ClusterIP" yes
service cluster_ips ["10.96.4.10"] yes
service ip_families ["IPv4"] yes
service ip_family_policy "SingleStack" yes
service external_ips [] yes
service load_balancer_ips [] yes
service load_balancer_ip_mode "VIP" yes
lb load_balancer_hostnames ["a.example"] yes
service load_balancer_source_ranges [] yes
lbranges load_balancer_source_ranges_policy "deny" yes
lbranges load_balancer_source_ranges_scope "all" yes
service allocate_load_balancer_node_ports true yes
lblocal health_check_node_port 30099 yes
service external_traffic_policy "Cluster" yes
service internal_traffic_policy "Cluster" yes
service traffic_distribution "PreferClose" yes
service session_affinity "ClientIP" yes
affine session_affinity_timeout "1h" yes
affine session_affinity_scope "service" yes
service on_endpoint_removed "reset" yes
service publish_not_ready_addresses false yes
service external_name "" yes
service selector {} yes
service labels {} yes
service annotations {} yes
port name "web" yes
port protocol "TCP" yes
port target_port 9090 yes
port node_port 0 yes
endpoint ports {""=9090} yes
endpoint hostname "cart-0" yes
endpoint pod "" yes
endpoint node "gw" yes
endpoint zone "az-1" yes
endpoint ready true yes
endpoint serving true yes
endpoint terminating false yes
endpoint weight 1 yes
endpoint for_zones ["az-1"] yes
endpoint for_nodes ["gw"] yes
check type "http" yes
check path "/healthz" yes
check port "" yes
check interval "2s" yes
check timeout "1s" yes
check rise 2 yes
check fall 3 yes
`

// withKey returns a topology in which a table has one more key.
func withKey(table, key, value string) string {
	tables := []struct{ name, header, keys string }{
		{"gateway", "[gateway]", `node = "gw"`},
		{"cluster", "[cluster]", `service_cidrs = ["10.96.0.0/16"]`},
		{"conntrack", "[conntrack]", ""},
		{"dns", "[dns]", ""},
		{"node", "[[node]]", "name = \"gw\"\naddresses = [\"198.18.0.10\"]"},
		{"namespace", "[[namespace]]", `name = "t"`},
		{"service", "[[service]]", "namespace = \"t\"\nname = \"s\""},
		{"port", "[[service.port]]", "port = 80"},
		{"endpoint", "[[service.endpoint]]", `address = "10.64.0.11"`},
		{"affine", "[[service]]", "namespace = \"t\"\nname = \"affine\"\nsession_affinity = \"ClientIP\""},
		{"affineport", "[[service.port]]", "port = 80"},
		{"lbranges", "[[service]]", "namespace = \"t\"\nname = \"lbranges\"\ntype = \"LoadBalancer\"\n" +
			"load_balancer_source_ranges = [\"198.18.0.0/24\"]"},
		{"lbrangesport", "[[service.port]]", "port = 80"},
		{"lblocal", "[[service]]", "namespace = \"t\"\nname = \"lblocal\"\ntype = \"LoadBalancer\"\nexternal_traffic_policy = \"Local\""},
		{"lblocalport", "[[service.port]]", "port = 80"},
		{"lb", "[[service]]", "namespace = \"t\"\nname = \"lb\"\ntype = \"LoadBalancer\""},
		{"lbport", "[[service.port]]", "port = 80"},
		{"check", "[service.health_check]", ""},
	}
	var b strings.Builder
	for _, tab := range tables {
		b.WriteString(tab.header + "\n")
		for line := range strings.Lines(tab.keys + "\n") {
			if tab.name != table || !strings.HasPrefix(line, key+" =") {
				b.WriteString(line)
			}
		}
		if tab.name == table {
			b.WriteString(key + " = " + value + "\n")
		}
	}
	return b.String()
}

// wrong returns values of other types than the given one. Two keys have values of several types.
func wrong(key, value string) (out []string) {
	several := map[string]string{"target_port": `"x"`, "cpu": "1.5"}
	for _, v := range []string{`"x"`, "1", "1.5", "true", "2026-01-01", "[[1]]", "{ x = [] }"} {
		if several[key] != v && v[0] != value[0] && (v != "true" || value != "false") && (v != "1" || value[0] < '0' || value[0] > '9') {
			out = append(out, v)
		}
	}
	return out
}

// TestKeys tries every documented key: with its default, with another value and with values of the wrong type.
func TestKeys(t *testing.T) {
	keys := 0
	for line := range strings.Lines(strings.TrimSpace(documented)) {
		f := strings.Fields(line)
		table, key, value, other := f[0], f[1], f[2], f[3]
		keys++
		t.Run(table+"."+key, func(t *testing.T) {
			if got := load(t, withKey(table, key, value)); got != "" {
				t.Errorf("%s: %s", value, got)
			}
			if other != "yes" {
				if got := load(t, withKey(table, key, other)); !strings.Contains(got, "not supported yet") || strings.Contains(got, "\n") {
					t.Errorf("%s: %s", other, got)
				}
			}
			for _, v := range wrong(key, value) {
				got := load(t, withKey(table, key, v))
				want := "." + key
				if !strings.Contains(got, want) {
					t.Errorf("%s is accepted, or the fault is of another key: %q", v, got)
				}
			}
		})
	}
	if keys != 112 {
		t.Errorf("%d keys", keys)
	}
}
