package topology

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"addresses", "name", "node_port", "port", "zone"}
	for _, c := range []struct{ name, word, want string }{
		{"itself", "name", "name"},
		{"a letter left out", "adresses", "addresses"},
		{"a letter too many", "addressses", "addresses"},
		{"another letter", "nane", "name"},
		{"two swapped", "prot", "port"},
		{"a dash", "node-port", "node_port"},
		{"the nearest of two", "node_por", "node_port"},
		{"two errors in a short word", "pxrx", ""},
		{"another word", "interfaces", ""},
		{"nothing", "", ""},
		{"too long", "addresses" + strings.Repeat("s", 60), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Nearest(c.word, known); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       int
	}{
		{"equal", "cluster", "cluster", 0},
		{"empty", "", "abc", 3},
		{"insertion", "clster", "cluster", 1},
		{"replacement", "clubter", "cluster", 1},
		{"swap", "clutser", "cluster", 1},
		{"swap and insertion", "ca", "abc", 3}, // a part is edited once: 2 would edit the swapped pair again
		{"all", "abc", "xyz", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			if ab, ba := distance(c.a, c.b), distance(c.b, c.a); ab != c.want || ba != c.want {
				t.Errorf("%d and %d, want %d", ab, ba, c.want)
			}
		})
	}
}
