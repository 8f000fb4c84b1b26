package config

import "strings"

// texts keeps strings of a file: a copy of each, one for all that are equal. The strings of the TOML library are parts of the text, any
// of which keeps all of it in memory; and copies here and there among what is used to read it would keep the pages that they are in.
// These are in blocks of their own.
type texts struct {
	known map[string]string
	block *strings.Builder
}

// blockSize is the size of a block in bytes. A longer string has one of its own.
const blockSize = 64 << 10

func newTexts() *texts { return &texts{known: map[string]string{}, block: &strings.Builder{}} }

// keep returns a copy of s.
func (t *texts) keep(s string) string {
	if known, ok := t.known[s]; ok {
		return known
	}
	if len(s) > t.block.Cap()-t.block.Len() {
		t.block = &strings.Builder{}
		t.block.Grow(max(blockSize, len(s)))
	}
	t.block.WriteString(s)
	all := t.block.String()
	s = all[len(all)-len(s):]
	t.known[s] = s
	return s
}
