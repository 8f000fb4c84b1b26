package config

import (
	"strconv"
	"strings"
)

// index maps the path of every key of a TOML text to its line, counting from 1. Paths are those of the decoder: keys joined
// by dots, elements of arrays (of tables and of values) by [number].
//
// It walks the text with just enough of TOML's grammar (v1.0) to find keys and their values; the text has been parsed before,
// so it may take for granted that the grammar holds. It must not loop or panic on any input all the same.
type index struct {
	text  string
	pos   int
	line  int
	lines map[string]int
	count map[string]int // elements seen of each array of tables
	table string         // path of the current table
}

// indexLines returns the lines of all keys in text.
func indexLines(text string) map[string]int {
	x := &index{text: text, line: 1, lines: map[string]int{}, count: map[string]int{}}
	for {
		x.space(true)
		if x.pos >= len(x.text) {
			return x.lines
		}
		start := x.pos
		if x.peek() == '[' {
			x.header()
		} else {
			x.pair(x.table, 0)
		}
		if x.pos == start { // not TOML: go on with the next character
			x.next()
		}
	}
}

func (x *index) peek() byte {
	if x.pos >= len(x.text) {
		return 0
	}
	return x.text[x.pos]
}

func (x *index) next() byte {
	c := x.peek()
	if x.pos < len(x.text) {
		x.pos++
	}
	if c == '\n' {
		x.line++
	}
	return c
}

// space skips blanks and comments, and with lines also line ends.
func (x *index) space(lines bool) {
	for x.pos < len(x.text) {
		switch c := x.peek(); {
		case c == '#':
			for x.pos < len(x.text) && x.peek() != '\n' {
				x.next()
			}
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && lines:
			x.next()
		default:
			return
		}
	}
}

// header reads [a.b] or [[a.b]]. Each [[a.b]] starts a new element; the path of a name below an array of tables goes through
// its last element.
func (x *index) header() {
	line := x.line
	x.next()
	array := x.peek() == '['
	if array {
		x.next()
	}
	keys := x.keys()
	for x.peek() == ']' {
		x.next()
	}
	path := ""
	for i, k := range keys {
		path = join(path, k)
		if !array || i < len(keys)-1 {
			x.set(path, line)
		}
		n, isArray := x.count[path]
		switch {
		case i == len(keys)-1 && array:
			x.count[path]++
			path += "[" + strconv.Itoa(n) + "]"
		case isArray:
			path += "[" + strconv.Itoa(n-1) + "]"
		}
	}
	x.table = path
	x.set(path, line)
}

// pair reads key = value below a path; depth counts the arrays and inline tables around it.
func (x *index) pair(below string, depth int) {
	line := x.line
	keys := x.keys()
	if len(keys) == 0 {
		return
	}
	path := below
	for _, k := range keys {
		path = join(path, k)
		x.set(path, line)
	}
	x.space(false)
	if x.peek() != '=' {
		return
	}
	x.next()
	x.space(false)
	x.value(path, depth)
}

// maxNesting bounds arrays and inline tables within one another, and the parts of a dotted key that are noted: no key of ours
// is as deep, and without a bound a hostile file could use up the stack and the memory.
const maxNesting = 100

func (x *index) value(path string, depth int) {
	switch c := x.peek(); {
	case depth > maxNesting:
		x.pos = len(x.text)
	case c == '"' || c == '\'':
		x.str()
	case c == '[':
		x.array(path, depth)
	case c == '{':
		x.inline(path, depth)
	default:
		for x.pos < len(x.text) && !strings.ContainsRune(",]}#\n", rune(x.peek())) {
			x.next()
		}
	}
}

func (x *index) array(path string, depth int) {
	x.next()
	for i := 0; x.pos < len(x.text); {
		x.space(true)
		switch x.peek() {
		case ']':
			x.next()
			return
		case ',':
			x.next()
			continue
		}
		at := path + "[" + strconv.Itoa(i) + "]"
		x.set(at, x.line)
		start := x.pos
		x.value(at, depth+1)
		if x.pos == start {
			x.next()
		}
		i++
	}
}

func (x *index) inline(path string, depth int) {
	x.next()
	for x.pos < len(x.text) {
		x.space(true)
		switch x.peek() {
		case '}':
			x.next()
			return
		case ',':
			x.next()
			continue
		}
		start := x.pos
		x.pair(path, depth+1)
		if x.pos == start {
			x.next()
		}
	}
}

// keys reads a dotted key.
func (x *index) keys() (keys []string) {
	for {
		x.space(false)
		var k string
		if c := x.peek(); c == '"' || c == '\'' {
			k = unescape(x.str(), c)
		} else {
			start := x.pos
			for isBare(x.peek()) {
				x.next()
			}
			if k = x.text[start:x.pos]; k == "" {
				return keys
			}
		}
		if len(keys) < maxNesting {
			keys = append(keys, k)
		}
		x.space(false)
		if x.peek() != '.' {
			return keys
		}
		x.next()
	}
}

func isBare(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// unescape replaces the escapes of a quoted key as far as Go has the same ones; another spelling stays as it is.
func unescape(k string, quote byte) string {
	if quote == '"' && strings.Contains(k, `\`) {
		if s, err := strconv.Unquote(`"` + k + `"`); err == nil {
			return s
		}
	}
	return k
}

// str reads a string of any of the four kinds and returns what is between its quotes, escapes as they are.
func (x *index) str() string {
	quote := x.peek()
	delim := string(quote)
	if strings.HasPrefix(x.text[x.pos:], strings.Repeat(delim, 3)) {
		delim = strings.Repeat(delim, 3)
	}
	for range len(delim) {
		x.next()
	}
	start := x.pos
	for x.pos < len(x.text) && !strings.HasPrefix(x.text[x.pos:], delim) {
		if len(delim) == 1 && x.peek() == '\n' {
			break
		}
		if x.next() == '\\' && quote == '"' {
			x.next()
		}
	}
	s := x.text[start:x.pos]
	for range len(delim) {
		x.next()
	}
	// A multi-line string may end in up to two quotes of its own.
	for len(delim) == 3 && x.peek() == quote {
		x.next()
	}
	return s
}

// set notes the first line of a path.
func (x *index) set(path string, line int) {
	if _, ok := x.lines[path]; !ok {
		x.lines[path] = line
	}
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
