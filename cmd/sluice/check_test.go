package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config"
)

// TestCheckJSON compares the keys of every object of the report with those that are promised.
func TestCheckJSON(t *testing.T) {
	top, err := config.Load("../../examples/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	report := config.NewReport(top, nil)
	report.Errors = config.Faults{{File: "f", Line: 1}}
	report.Services[0].Slices = append(report.Services[0].Slices, config.SliceReport{Ports: map[string]uint16{}, Endpoints: []string{}})
	report.Routes = []config.RouteReport{{Listen: []netip.AddrPort{}, Lost: []config.LostListenerReport{{}}, Backends: []config.RouteBackendReport{{}}}}
	var b bytes.Buffer
	if err := report.JSON(&b); err != nil {
		t.Fatal(err)
	}
	var tree any
	if err := json.Unmarshal(b.Bytes(), &tree); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]bool{}
	keysOf(tree, "", got)
	for path, want := range map[string]string{
		"":       "ok services routes errors",
		"errors": "file line key message hint",
		"services": "namespace name type cluster_ips external_ips load_balancer_ips load_balancer_hostnames " +
			"health_check_node_port external_traffic_policy internal_traffic_policy traffic_distribution session_affinity " +
			"session_affinity_timeout ports endpoints slices hints",
		"services.ports":     "name protocol port target_port node_port",
		"services.endpoints": "address port_name port ready serving terminating node zone hostname weight for_zones for_nodes",
		"services.slices":    "name family ports endpoints ready",
		"routes":             "namespace name protocol created listen lost backends",
		"routes.lost":        "listen winner",
		"routes.backends":    "service port weight problem",
		"services.hints":     "mode reason",
	} {
		delete(got, "services.slices.ports") // its keys are the names of ports
		delete(got[path], "external_name")   // of services of that type, besides what is promised
		have, want := slices.Sorted(maps.Keys(got[path])), slices.Sorted(slices.Values(strings.Fields(want)))
		if !slices.Equal(have, want) {
			t.Errorf("%q has %v, want %v", path, have, want)
		}
		delete(got, path)
	}
	if len(got) > 0 || strings.Contains(b.String(), "null") {
		t.Errorf("more objects %v, or null in %s", got, b.String())
	}
}

// keysOf collects the keys of the objects in a JSON value, by the path of the object.
func keysOf(v any, path string, keys map[string]map[string]bool) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			keysOf(e, path, keys)
		}
	case map[string]any:
		if keys[path] == nil {
			keys[path] = map[string]bool{}
		}
		for k, e := range v {
			keys[path][k] = true
			keysOf(e, strings.TrimPrefix(path+"."+k, "."), keys)
		}
	}
}
