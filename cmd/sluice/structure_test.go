package main

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// goPackage is what "go list -json" says of a package, as far as it is needed here.
type goPackage struct {
	ImportPath string
	Doc        string
	Imports    []string
}

// packages lists the module's own packages.
func packages(t *testing.T) []goPackage {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc,Imports", "sluice/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []goPackage
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p goPackage
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// mayImport says, for each folder, which of the module's packages its packages may import. A pattern that ends in /...
// covers the folder and all below it. The longest matching key counts. docs/architecture.md draws the same.
func mayImport() map[string][]string {
	low := []string{"sluice/config/topology", "sluice/xdp/packet"}
	return map[string][]string{
		"sluice/config/topology": nil,
		"sluice/xdp/packet":      nil,
		"sluice/xdp/ring":        nil,
		"sluice/xdp/lab":         nil,
		"sluice/nat/maglev":      nil,
		"sluice/nat/reason":      nil,
		"sluice/dns/wire":        nil,
		"sluice/config":          {"sluice/config/topology"},
		"sluice/xdp":             {"sluice/xdp/..."},
		"sluice/conntrack":       low,
		"sluice/nat":             append([]string{"sluice/nat/..."}, low...),
		"sluice/dns":             append([]string{"sluice/dns/..."}, low...),
		"sluice/engine/fib":      low,
		"sluice/engine/health":   low,
		"sluice/engine/healthz":  append([]string{"sluice/nat"}, low...),
		"sluice/engine/admin":    append([]string{"sluice/nat/reason", "sluice/xdp"}, low...),
		"sluice/engine/metrics":  append([]string{"sluice/nat/reason", "sluice/conntrack", "sluice/dns/...", "sluice/xdp"}, low...),
		"sluice/engine/punt":     append([]string{"sluice/xdp"}, low...),
		"sluice/engine/control":  append([]string{"sluice/nat/...", "sluice/dns/...", "sluice/xdp", "sluice/engine/health"}, low...),
		"sluice/engine":          append([]string{"sluice/engine/...", "sluice/nat/...", "sluice/conntrack", "sluice/dns/...", "sluice/xdp/..."}, low...),
		"sluice/examples":        nil,
		"sluice/cmd":             {"sluice/cmd/...", "sluice/engine/...", "sluice/config/...", "sluice/dns/...", "sluice/examples", "sluice/xdp/lab"},
		"sluice/bench":           {"sluice/..."},
	}
}

// ruleFor returns the rule with the longest key that covers path.
func ruleFor(path string) (allowed []string, ok bool) {
	best := ""
	for key := range mayImport() {
		if (path == key || strings.HasPrefix(path, key+"/")) && len(key) > len(best) {
			best = key
		}
	}
	return mayImport()[best], best != ""
}

func covers(pattern, path string) bool {
	if folder, ok := strings.CutSuffix(pattern, "/..."); ok {
		return path == folder || strings.HasPrefix(path, folder+"/")
	}
	return path == pattern
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range packages(t) {
		allowed, ok := ruleFor(p.ImportPath)
		if !ok {
			t.Errorf("%s has no rule here: say what it may import", p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			if strings.HasPrefix(i, "sluice/") && !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, i) }) {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
}

// TestLowestPackagesUseTheStandardLibraryOnly holds the packages that everything rests on to the standard library; the
// rings may use x/sys for the constants of the kernel.
func TestLowestPackagesUseTheStandardLibraryOnly(t *testing.T) {
	also := map[string]string{"sluice/xdp/ring": "golang.org/x/sys/unix", "sluice/config": "github.com/BurntSushi/toml"}
	lowest := []string{"sluice/config", "sluice/config/topology", "sluice/xdp/packet", "sluice/xdp/ring", "sluice/nat/maglev",
		"sluice/nat/reason", "sluice/dns/wire"}
	seen := 0
	for _, p := range packages(t) {
		if !slices.Contains(lowest, p.ImportPath) {
			continue
		}
		seen++
		for _, i := range p.Imports {
			first, _, _ := strings.Cut(i, "/")
			if strings.Contains(first, ".") && i != also[p.ImportPath] {
				t.Errorf("%s imports %s", p.ImportPath, i)
			}
		}
	}
	if seen != len(lowest) {
		t.Errorf("%d of %d packages found", seen, len(lowest))
	}
}

func TestEveryPackageHasADoc(t *testing.T) {
	for _, p := range packages(t) {
		if p.Doc == "" {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

// TestGeneratedObjectsAreCurrent fails when a C source has changed since its object was generated. The bytes of an object
// depend on the version of clang, so what is compared is the hash of the sources, which "make generate" records.
func TestGeneratedObjectsAreCurrent(t *testing.T) {
	for _, dir := range []string{"../../xdp/bpf", "../../bench/traffic"} {
		sources, err := filepath.Glob(filepath.Join(dir, "*.[ch]"))
		if err != nil || len(sources) == 0 {
			t.Fatalf("%s: sources %v, %v", dir, sources, err)
		}
		var want strings.Builder
		for _, name := range sources {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(data), filepath.Base(name))
		}
		got, err := os.ReadFile(filepath.Join(dir, "sources.sum"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want.String() {
			t.Errorf("%s: the generated files are stale: run make generate", dir)
		}
	}
}
