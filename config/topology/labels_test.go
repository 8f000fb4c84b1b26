package topology

import (
	"strings"
	"testing"
)

// TestLabels gives keys and values of labels, selectors and annotations that Kubernetes accepts and refuses.
func TestLabels(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, c := range []struct {
		key, value string
		want       string // of labels and selectors
		annotation string // of annotations
	}{
		{"app", "cart", "", ""},
		{"app", "", "", ""},
		{"App_1.x", "A_b-c.9", "", ""},
		{"app.kubernetes.io/name", "x", "", ""},
		{long[:63], long[:63], "", ""},
		{"", "x", "is not a key", "is not a key"},
		{long, "x", "is not a key", "is not a key"},
		{"-a", "x", "is not a key", "is not a key"},
		{"a/b/c", "x", "is not a key", "is not a key"},
		{"/a", "x", "is not a key", "is not a key"},
		{"Example.org/a", "x", "is not a key", ""},
		{"a_b/c", "x", "is not a key", "is not a key"},
		{"a", long, "expected a value", ""},
		{"a", "x y", "expected a value", ""},
		{"a", "x-", "expected a value", ""},
		{"a", "é", "expected a value", ""},
	} {
		for _, where := range []string{"labels", "selector", "annotations", "namespace"} {
			t.Run(where+" "+c.key+"="+c.value, func(t *testing.T) {
				in, set := input("10.96.0.0/16"), map[string]string{c.key: c.value}
				path, want := "service[0]."+where, c.want
				addService(in, "s", func(s *ServiceInput) {
					switch where {
					case "labels":
						s.Labels = set
					case "selector":
						s.Selector = set
					case "annotations":
						s.Annotations, want = set, c.annotation
					}
				})
				if where == "namespace" {
					path, in.Namespaces = "namespace[0].labels", []NamespaceInput{{Name: "n", Labels: set}}
				}
				if want == "" {
					expectFaults(t, in)
				} else {
					expectFaults(t, in, path+": "+want)
				}
			})
		}
	}
}
