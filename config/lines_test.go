package config

import (
	"strings"
	"testing"
	"time"
)

// TestIndexLines compares the lines of some keys; a path that must not be there has line 0.
func TestIndexLines(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       map[string]int
	}{
		{"dotted keys", "a.b.c = 1\na.d = 2\n[e]\nf . g = 3", map[string]int{"a": 1, "a.b": 1, "a.b.c": 1, "a.d": 2, "e": 3, "e.f.g": 4}},
		{"table below a table", "\n[a.b]\nc = 1\n[a.d]\n", map[string]int{"a": 2, "a.b": 2, "a.b.c": 3, "a.d": 4}},
		{"inline table", "\na = { b = 1, c.d = [2, { e = 3 }] }", map[string]int{"a.b": 2, "a.c.d[0]": 2, "a.c.d[1].e": 2, "a[0]": 0}},
		{"array over lines", "a = [\n  1, # ]\n  'x]',\n\n  [2,\n3],\n]\nb = 1", map[string]int{"a": 1, "a[0]": 2, "a[1]": 3, "a[2]": 5, "a[2][1]": 6, "a[3]": 0, "b": 8}},
		{"string over lines", "a = \"\"\"\n[x]\ny = 1\n\\\"\"\"\"\"\nb = '''\n[z]\n''''\nc = 2", map[string]int{"a": 1, "x": 0, "b": 5, "z": 0, "c": 8}},
		{"empty strings", "a = \"\"\nb = ''\nc = [\"\", '']\nd = 1", map[string]int{"b": 2, "c[1]": 3, "d": 4}},
		{"arrays of tables", "[[a]]\n[[a.b]]\nc = 1\n[[a.b]]\n[a.b.d]\n[[a]]\n[[a.b]]\nc = 2\n[a.e]",
			map[string]int{"a[0]": 1, "a[0].b[0].c": 3, "a[0].b[1]": 4, "a[0].b[1].d": 5, "a[1]": 6, "a[1].b[0].c": 8, "a[1].e": 9, "a[2]": 0}},
		{"inline array of tables", "a = [\n{ b = 1 },\n{ b = 2,\nc = 3 }]", map[string]int{"a[0].b": 2, "a[1].b": 3, "a[1].c": 4}},
		{"comments", "# a = 1\n[b] # [c]\n#\nd = 1 # e = 2\nf = \"#\" # g", map[string]int{"a": 0, "b": 2, "c": 0, "b.d": 4, "b.e": 0, "b.f": 5}},
		{"quoted keys", "\"a b\" = 1\n'c\\d' = 2\n\"e\\u0066\\\"\" = 3\n\"g.h\".i = 4\n[\"j\".k]\nl = 5\n\"\" = 6",
			map[string]int{"a b": 1, `c\d`: 2, `ef"`: 3, "g.h.i": 4, "j.k.l": 6, "j.k.": 7}},
		{"CRLF", "[a]\r\nb = [\r\n1,\r\n2]\r\nc = \"x\"\r\n\r\nd = 1\r\n", map[string]int{"a": 1, "a.b": 2, "a.b[1]": 4, "a.c": 5, "a.d": 7}},
		{"dates and numbers", "a = 2026-01-01T00:00:00Z\nb = [1_000, -0.5e3, 07:32:00]\nc = inf", map[string]int{"a": 1, "b[2]": 2, "c": 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := indexLines(c.text)
			for path, line := range c.want {
				if got[path] != line {
					t.Errorf("%s: line %d, want %d", path, got[path], line)
				}
			}
		})
	}
}

// TestIndexLinesIsBounded walks texts that are deep rather than long.
func TestIndexLinesIsBounded(t *testing.T) {
	const n = 100_000
	start := time.Now()
	for _, s := range []string{"a=[", "a={a=", "a.", "[", "{", "\"", "[[a.", "a=\\"} {
		indexLines(strings.Repeat(s, n))
		indexLines("x = " + strings.Repeat(s, n))
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("took %v", d)
	}
}
