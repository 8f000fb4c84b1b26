package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
)

var update = flag.Bool("update", false, "write the .want files anew")

// TestInvalid loads every file of testdata/invalid and compares the faults with what is expected in the .want file beside it.
func TestInvalid(t *testing.T) {
	files, err := filepath.Glob("testdata/invalid/*.toml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".toml"), func(t *testing.T) {
			top, err := config.Load(f)
			var faults config.Faults
			if top != nil || !errors.As(err, &faults) {
				t.Fatalf("loaded, or another error: %v", err)
			}
			got := err.Error() + "\n"
			want := strings.TrimSuffix(f, ".toml") + ".want"
			if *update {
				if err := os.WriteFile(want, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			expected, err := os.ReadFile(want)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(expected) {
				t.Errorf("got:\n%swant:\n%s", got, expected)
			}
		})
	}
}

func TestDemo(t *testing.T) {
	top, err := config.Load("../examples/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Services) != 6 || top.Services[0].Key() != "kube-system/kube-dns" {
		t.Errorf("%d services, the first is %s", len(top.Services), top.Services[0].Key())
	}
}
