package main

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

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

// section returns the text under the heading of a table of the configuration, such as "gateway" or "service.port".
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(text, heading+"\n")
	if !found {
		t.Fatalf("the reference has no section %q", heading)
	}
	body, _, _ := strings.Cut(rest, "\n#")
	return body
}

// row returns the line of a Markdown table whose first cell names key.
func row(section, key string) (string, bool) {
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) > 2 && strings.Contains(cells[1], "`"+key+"`") {
			return line, true
		}
	}
	return "", false
}

// TestConfigurationReference holds docs/reference/configuration.md to the keys that there are, and to their defaults.
func TestConfigurationReference(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	text, count := string(raw), 0
	var walk func(path, heading string, v reflect.Value)
	walk = func(path, heading string, v reflect.Value) {
		for i := range v.NumField() {
			key, f := v.Type().Field(i).Tag.Get("key"), v.Field(i)
			count++
			below := strings.TrimPrefix(path+"."+key, ".")
			switch typ := f.Type(); {
			case typ.Kind() == reflect.Struct && typ != reflect.TypeFor[time.Time]():
				walk(below, "["+below+"]", f)
				continue
			case typ.Kind() == reflect.Pointer && typ.Elem().Kind() == reflect.Struct:
				walk(below, "["+below+"]", withDefaults(typ.Elem()))
				continue
			case typ.Kind() == reflect.Slice && typ.Elem().Kind() == reflect.Struct:
				walk(below, "[["+below+"]]", withDefaults(typ.Elem()))
				continue
			}
			line, found := row(section(t, text, heading), key)
			if !found {
				t.Errorf("%s is not in its table of the reference", below)
				continue
			}
			want := fmt.Sprint(f)
			if f.Kind() == reflect.String || f.Kind() == reflect.Interface {
				want = strconv.Quote(want)
			}
			if !f.IsZero() && !strings.Contains(line, "`"+want+"`") {
				t.Errorf("%s has the default %s; the reference says %s", below, want, line)
			}
		}
	}
	walk("", "", reflect.ValueOf(topology.NewInput()).Elem())
	if count < 70 {
		t.Errorf("only %d keys found", count)
	}
}

// withDefaults returns a value of a table that may occur several times, as a source begins with it.
func withDefaults(typ reflect.Type) reflect.Value {
	v := reflect.New(typ)
	if d, ok := v.Interface().(interface{ SetDefaults() }); ok {
		d.SetDefaults()
	}
	return v.Elem()
}
