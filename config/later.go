package config

import (
	"reflect"
	"regexp"
	"strings"
)

// laterKeys are the keys whose feature is not there yet, each with the value that asks for nothing and is accepted; with nil
// every value is refused. A feature that comes deletes its rows.
func laterKeys() map[string]any {
	return map[string]any{
		"gateway.healthz":                  "",
		"dns.address":                      "",
		"dns.pods":                         "disabled",
		"dns.namespaces":                   []any{},
		"dns.ignore_empty_services":        false,
		"dns.no_endpoints":                 false,
		"dns.endpoint_pod_names":           false,
		"dns.zonal":                        false,
		"dns.external_zone":                "",
		"dns.chaos":                        "",
		"dns.transfer_to":                  []any{},
		"dns.forward":                      []any{},
		"dns.stub":                         map[string]any{},
		"dns.autopath":                     false,
		"dns.search":                       []any{},
		"dns.tls_certificate":              "",
		"dns.tls_key":                      "",
		"dns.coredns_compat":               false,
		"node.cpu":                         int64(0),
		"node.ready":                       true,
		"node.control_plane":               false,
		"service.health_check_node_port":   int64(0),
		"service.traffic_distribution":     "",
		"service.session_affinity":         "None",
		"service.session_affinity_timeout": "3h",
		"service.load_balancer_hostnames":  []any{},
		"service.selector":                 map[string]any{},
		"service.endpoint.for_zones":       []any{},
		"service.endpoint.for_nodes":       []any{},
		"tcp_route":                        nil,
		"udp_route":                        nil,
		"pod":                              nil,
	}
}

var numbers = regexp.MustCompile(`\[\d+\]`)

// later reports whether a key asks for a feature that is not there yet.
func later(path string, v any) bool {
	key := numbers.ReplaceAllString(path, "")
	if _, named := v.(string); named && key == "service.port.target_port" { // the name of a port of pods
		return true
	}
	nothing, known := laterKeys()[key]
	return known && (nothing == nil || !reflect.DeepEqual(v, nothing))
}

// accepted reports whether a key, not of Input, is known all the same.
func accepted(path string) bool {
	_, known := laterKeys()[numbers.ReplaceAllString(path, "")]
	return known
}

// keysBelow returns the later keys of the table at path.
func keysBelow(path string) (keys []string) {
	below := numbers.ReplaceAllString(path, "")
	for k := range laterKeys() {
		table, key := "", k
		if i := strings.LastIndexByte(k, '.'); i >= 0 {
			table, key = k[:i], k[i+1:]
		}
		if table == below {
			keys = append(keys, key)
		}
	}
	return keys
}
