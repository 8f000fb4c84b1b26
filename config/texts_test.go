package config

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestTexts keeps strings by many blocks, one that is longer than a block among them.
func TestTexts(t *testing.T) {
	var list []string
	for i := range 20_000 {
		list = append(list, fmt.Sprintf("pod-%06d", i))
	}
	list = append(list, "", strings.Repeat("x", 2*blockSize), "last")
	kept, all := newTexts(), strings.Join(list, "")
	var first []string
	for _, s := range list {
		first = append(first, kept.keep(s))
	}
	for i, at := 0, 0; i < len(list); i++ {
		s := all[at : at+len(list[i])]
		at += len(s)
		again := kept.keep(s)
		if first[i] != s || again != s || unsafe.StringData(again) != unsafe.StringData(first[i]) || s != "" && unsafe.StringData(again) == unsafe.StringData(s) {
			t.Fatalf("%.20q is kept as %.20q and %.20q", s, first[i], again)
		}
	}
}
