package config_test

import (
	"strings"
	"testing"
)

// TestQuotedKeys writes in quotes what looks like the path of a key that is known: it is another.
func TestQuotedKeys(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a path", `"dns.pods" = "disabled"` + "\n" + base, "a.toml:1: dns.pods: unknown key"},
		{"an element", `"dns[0]" = 1` + "\n" + base, "a.toml:1: dns[0]: unknown key"},
		{"an element of a table", base + "\"cpu[0]\" = 0\n", "a.toml:8: node[0].cpu[0]: unknown key"},
		{"a bracket", base + "\"cpu[\" = 0\n", "a.toml:8: node[0].cpu[: unknown key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := load(t, c.text); !strings.HasPrefix(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("got %q, want %q alone", got, c.want)
			}
		})
	}
}
