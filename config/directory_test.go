package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
)

// base is a file with all that a topology needs.
const base = "[gateway]\nnode = \"gw\"\n[cluster]\nservice_cidrs = [\"10.96.0.0/16\"]\n[[node]]\nname = \"gw\"\naddresses = [\"198.18.0.10\"]\n"

// service is a service in 5 lines.
func service(name, more string) string {
	return "[[service]]\nnamespace = \"t\"\nname = \"" + name + "\"\n" + more + "[[service.port]]\nport = 80\n"
}

// load writes files, named a.toml, b.toml and so on, and returns the faults with the names of the files alone.
func load(t *testing.T, texts ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, string(rune('a'+i))+".toml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// Hidden, and not TOML: editors leave such files.
	if err := os.WriteFile(filepath.Join(dir, ".#a.toml"), []byte("]"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := config.Load(dir); err != nil {
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	return ""
}

func TestDirectory(t *testing.T) {
	inline := "service = [{ namespace = \"t\", name = \"x\", port = [{ port = 80 }] },\n{ namespace = \"t\", name = \"%\", port = [{ port = 80 }] }]\n"
	for _, c := range []struct {
		name  string
		files []string
		want  []string // starts of the faults, one each; no fault: ok
	}{
		{"parts of one", []string{base, service("x", ""), service("y", "")}, nil},
		{"the second service of the second file", []string{base + service("x", ""), service("y", "") + "\n" + service("z", "type = \"Z\"\n")},
			[]string{`b.toml:10: service[1].type: "Z" is not allowed`}},
		{"an unknown key in both", []string{base + service("x", "foo = 1\n"), service("y", "foo = 1\n")},
			[]string{"a.toml:11: service[0].foo: unknown key", "b.toml:4: service[0].foo: unknown key"}},
		{"a service twice", []string{base + service("x", ""), "\n" + service("x", "")}, []string{"b.toml:4: service[0].name: service t/x is there twice"}},
		{"a node twice", []string{base, "[[node]]\nname = \"gw\"\n"}, []string{`b.toml:2: node[0].name: node "gw" is there twice`}},
		{"a namespace twice", []string{base + "[[namespace]]\nname = \"n\"\n", "[[namespace]]\nname = \"n\"\n"},
			[]string{`b.toml:2: namespace[0].name: namespace "n" is there twice`}},
		{"an address twice", []string{base + service("x", "cluster_ips = [\"10.96.0.9\"]\n"), service("y", "cluster_ips = [\"10.96.0.9\"]\n")},
			[]string{"b.toml:4: service[0].cluster_ips[0]: 10.96.0.9 belongs to service t/x already"}},
		{"gateway twice", []string{base, "\n[gateway]\nnode = \"other\"\n"}, []string{"b.toml:2: gateway: [gateway] is in "}},
		{"a table of the second file", []string{base, "\n[dns]\nttl = -1\n"}, []string{"b.toml:3: dns.ttl: -1 is out of range"}},
		{"an array of the second file", []string{service("x", ""), strings.Replace(base, "10.96.0.0/16", "10.96.0.1/16", 1)},
			[]string{"b.toml:4: cluster.service_cidrs[0]: 10.96.0.1/16 has bits set"}},
		{"not TOML", []string{base + service("x", "foo = 1\n"), "[[node]]\nname = \"gw\"\nzone = [\n"}, []string{"a.toml:11: service[0].foo: unknown key", "b.toml:"}},
		{"inline tables", []string{base + service("w", ""), strings.Replace(inline, "%", "x", 1)}, []string{"b.toml:2: service[1].name: service t/x is there twice"}},
		{"inline tables of the first file", []string{strings.Replace(inline, "%", "y", 1), base + service("x", "")}, []string{"b.toml:10: service[0].name: service t/x is there twice"}},
		{"no gateway", []string{"# nothing\n", "[[node]]\nname = \"gw\"\n"}, []string{`a.toml:1: gateway.node: no [[node]] is named`}},
		{"empty", []string{"", ""}, []string{"a.toml:1: gateway.node: no [[node]] is named"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := load(t, c.files...)
			lines := strings.Split(got, "\n")
			if got == "" {
				lines = nil
			}
			bad := len(lines) != len(c.want)
			for i := range c.want {
				bad = bad || !strings.HasPrefix(lines[i], c.want[i])
			}
			if bad {
				t.Errorf("got:\n%s\nwant:\n%s", got, strings.Join(c.want, "\n"))
			}
		})
	}
}
