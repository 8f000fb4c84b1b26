package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat/reason"
)

// TestReasonsReference holds docs/reference/reasons.md to the code; "go test ./cmd/sluice -update" writes it anew.
func TestReasonsReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Reasons\n\nWhy a packet met its verdict: the label `reason` of the metrics, `reason` in `sluice trace --json`, and the rows of\n" +
		"`/v1/stats` on the admin socket. Written by `go test ./cmd/sluice -update` from `nat/reason`.\n\n| code | means |\n|---|---|\n")
	for i := 1; i < reason.Count; i++ {
		r := reason.Reason(i)
		fmt.Fprintf(&b, "| `%s` | %s |\n", r, r.Text())
	}
	const path = "../../docs/reference/reasons.md"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the code says: go test ./cmd/sluice -update", path)
	}
}

// TestConfigurationReference holds docs/reference/configuration.md to the keys that there are.
func TestConfigurationReference(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	var walk func(reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Slice || typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct {
			return
		}
		for i := range typ.NumField() {
			f := typ.Field(i)
			key := f.Tag.Get("key")
			count++
			if !strings.Contains(string(text), "`"+key+"`") && !strings.Contains(string(text), key+"]") {
				t.Errorf("the key %s of %s is not in the reference", key, typ.Name())
			}
			walk(f.Type)
		}
	}
	walk(reflect.TypeFor[topology.Input]())
	if count < 70 {
		t.Errorf("only %d keys found", count)
	}
}
