package topology

import (
	"maps"
	"slices"
	"strings"
)

// labels checks the keys and values of labels or of a selector as Kubernetes does (apimachinery's ValidateLabels). The faults
// are of the table as a whole: keys have dots themselves.
func (r *resolver) labels(path string, set map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		r.labelKey(path, key)
		if v := set[key]; v != "" && !isLabelValue(v) {
			r.fault(path, "%s = %q: expected a value of up to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends", key, v)
		}
	}
}

// annotationKeys checks the keys of annotations, in which capitals do not matter; their values may be anything.
func (r *resolver) annotationKeys(path string, set map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(set)) {
		r.labelKey(path, strings.ToLower(key))
	}
}

// labelKey checks a qualified name: a name, which may have the DNS name of whom it belongs to in front.
func (r *resolver) labelKey(path, key string) {
	prefix, name, prefixed := strings.Cut(key, "/")
	if !prefixed {
		name = key
	}
	if !isLabelValue(name) || prefixed && !isSubdomain(prefix) {
		r.fault(path, "%q is not a key: expected one like \"app\" or \"example.org/app\"", key)
	}
}
