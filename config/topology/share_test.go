package topology

import (
	"maps"
	"reflect"
	"testing"
)

// TestShared holds equal maps to one memory, and maps that differ to several.
func TestShared(t *testing.T) {
	s := newSharer()
	list := []map[string]string{{}, {"a": "b"}, {"a": "b", "c": "d"}, {"a": "b,c=d"}, {"a=b": ""}, {"a": `b" "c"="d`}, {"a": ""}}
	seen := map[uintptr]bool{}
	for _, m := range list {
		first, again := s.sharedLabels(maps.Clone(m)), s.sharedLabels(maps.Clone(m))
		if !maps.Equal(first, m) || reflect.ValueOf(first).Pointer() != reflect.ValueOf(again).Pointer() {
			t.Errorf("%v: %v and %v", m, first, again)
		}
		seen[reflect.ValueOf(first).Pointer()] = true
	}
	if len(seen) != len(list) || s.sharedLabels(nil) != nil {
		t.Errorf("%d maps", len(seen))
	}
	a, b := s.sharedPorts(map[string]uint16{"http": 80}), s.sharedPorts(map[string]uint16{"http": 8080})
	if a["http"] != 80 || b["http"] != 8080 || len(a) != 1 || len(b) != 1 {
		t.Errorf("%v and %v", a, b)
	}
}

// TestPodsShareMaps resolves pods that have equal labels and ports, and the endpoints that they are.
func TestPodsShareMaps(t *testing.T) {
	in := input("10.96.0.0/16")
	for _, name := range []string{"a", "b"} {
		in.Pods = append(in.Pods, PodInput{Namespace: "t", Name: name, Addresses: []string{"10.64.0." + map[string]string{"a": "1", "b": "2"}[name]},
			Labels: map[string]string{"app": "web"}, Ports: map[string]int{"http": 8080}, Ready: true, Phase: "Running"})
	}
	addService(in, "s", func(s *ServiceInput) { s.Selector, s.Ports[0].TargetPort = map[string]string{"app": "web"}, "http" })
	top := resolve(t, in)
	pods, endpoints := top.Pods, find(t, top, "s").Endpoints
	if len(endpoints) != 2 || endpoints[1].Ports[""] != 8080 || pods[1].Labels["app"] != "web" || pods[1].Ports["http"] != 8080 {
		t.Fatalf("%+v %+v", pods, endpoints)
	}
	for _, pair := range [][2]any{{pods[0].Labels, pods[1].Labels}, {pods[0].Ports, pods[1].Ports}, {endpoints[0].Ports, endpoints[1].Ports}} {
		if reflect.ValueOf(pair[0]).Pointer() != reflect.ValueOf(pair[1]).Pointer() {
			t.Errorf("%v is there twice", pair[0])
		}
	}
}
