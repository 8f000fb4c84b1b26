package bpf_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/xdp/bpf"
)

// TestGeneratedFresh fails when a C source has changed since the object was generated.
func TestGeneratedFresh(t *testing.T) {
	sources, err := filepath.Glob("*.[ch]")
	if err != nil || len(sources) == 0 {
		t.Fatalf("sources: %v, %v", sources, err)
	}
	var want strings.Builder
	for _, name := range sources {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&want, "%x  %s\n", sha256.Sum256(data), name)
	}
	got, err := os.ReadFile("sources.sum")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Errorf("the generated files are stale: run make generate\nsources.sum:\n%ssources:\n%s", got, want.String())
	}
}

func TestSpec(t *testing.T) {
	spec, err := bpf.LoadClassify()
	if err != nil {
		t.Fatal(err)
	}
	prog := spec.Programs[bpf.ClassifyProgSluiceClassify]
	if prog == nil || prog.License != "Dual BSD/GPL" {
		t.Errorf("program %+v: want sluice_classify under Dual BSD/GPL", prog)
	}
	for name, keySize := range map[string]uint32{
		bpf.ClassifyMapAddresses: 16, bpf.ClassifyMapRanges: 20, bpf.ClassifyMapNodeports: 4, bpf.ClassifyMapBackends: 20,
	} {
		if m := spec.Maps[name]; m == nil || m.KeySize != keySize {
			t.Errorf("map %s: %+v, want a key of %d bytes", name, m, keySize)
		}
	}
}
