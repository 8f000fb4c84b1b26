// Package config reads the topology file: TOML, strictly, with every fault named by file, line and key. What the values mean is
// config/topology's to know.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"

	"sluice/config/topology"
)

// Fault is one thing that is wrong with a file.
type Fault struct {
	File    string `json:"file"`
	Line    int    `json:"line"` // from 1; what is missing has the line of its table, or 1
	Key     string `json:"key"`  // path of the key, "" for a fault of the syntax
	Message string `json:"message"`
	Hint    string `json:"hint"` // what to do, "" when the message says it
}

// String formats the fault as compilers do: file:line: key: message.
func (f Fault) String() string {
	s := fmt.Sprintf("%s:%d: ", f.File, f.Line)
	if f.Key != "" {
		s += f.Key + ": "
	}
	s += f.Message
	if f.Hint != "" {
		s += " (" + f.Hint + ")"
	}
	return s
}

// Faults is the error of a topology that cannot be used. It lists everything that is wrong, by file and line.
type Faults []Fault

// Error lists the faults, one a line.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// Load reads a file, or all *.toml files of a directory in the order of their names as if they were one, and resolves the
// topology. An error is of type Faults unless the files could not be read.
func Load(path string) (*topology.Topology, error) {
	return LoadAfter(path, nil)
}

// LoadAfter is Load for a topology whose services keep what they have in previous, which may be nil.
func LoadAfter(path string, previous *topology.State) (*topology.Topology, error) {
	l, err := read(path)
	if err != nil {
		return nil, err
	}
	t, _, err := l.resolve(previous)
	return t, err
}

// LoadFrom is LoadAfter that also returns what is to be remembered of the new topology. With a previous of nil, it is read from
// the topology's gateway.state_file, if there is one; a file that cannot be used is told to unusable, and counts as not there.
func LoadFrom(path string, previous *topology.State, unusable func(error)) (*topology.Topology, *topology.State, error) {
	l, err := read(path)
	if err != nil {
		return nil, nil, err
	}
	if file := l.input.Gateway.StateFile; previous == nil && file != "" {
		previous, err = ReadState(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			unusable(err)
		}
	}
	return l.resolve(previous)
}

// read reads the file or the directory at path.
func read(path string) (*loader, error) {
	files, err := list(path)
	if err != nil {
		return nil, err
	}
	l := newLoader()
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		l.file(f, string(text))
	}
	return l, nil
}

// list returns the files at path.
func list(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(escape(path), "*.toml"))
	if err != nil {
		return nil, err
	}
	// Names that start with a dot are hidden: editors keep their copies and locks there.
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), ".") })
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no *.toml files in this directory", path)
	}
	return files, nil
}

// escape makes a path stand for itself in a pattern.
func escape(path string) string {
	return strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `\`, `\\`).Replace(path)
}

// source is one file.
type source struct {
	name  string
	lines map[string]int
	first map[string]int // number of the first element of each top-level array in the whole
}

// loader adds up files.
type loader struct {
	input   *topology.Input
	sources []source
	offset  map[string]int    // elements so far of each top-level array
	once    map[string]string // file of each table that may occur in one file only
	faults  Faults
	broken  bool // a file is not TOML: nothing is known of what it holds
}

func newLoader() *loader {
	return &loader{input: topology.NewInput(), offset: map[string]int{}, once: map[string]string{}}
}

// file adds the text of a file.
func (l *loader) file(name, text string) {
	var tree map[string]any
	if _, err := toml.Decode(text, &tree); err != nil {
		l.syntax(name, text, err)
		return
	}
	s := source{name: name, lines: indexLines(text), first: map[string]int{}}
	for key, v := range tree {
		switch list := v.(type) {
		case []map[string]any:
			s.first[key] = l.offset[key]
			l.offset[key] += len(list)
		case []any: // tables written inline, or what is not a table
			s.first[key] = l.offset[key]
			l.offset[key] += len(list)
		case map[string]any:
			if other, twice := l.once[key]; twice {
				l.add(s, topology.Fault{Path: key, Message: fmt.Sprintf("[%s] is in %s already: expected in one file only", key, other)})
				delete(tree, key)
				continue
			}
			l.once[key] = name
		}
	}
	d := &decoder{texts: newTexts()}
	d.table("", tree, reflect.ValueOf(l.input).Elem())
	for _, f := range d.faults {
		l.add(s, f)
	}
	l.sources = append(l.sources, s)
}

// syntax adds a fault of TOML's grammar.
func (l *loader) syntax(name, text string, err error) {
	l.broken = true
	f := Fault{File: name, Line: 1, Message: strings.TrimPrefix(err.Error(), "toml: ")}
	var parse toml.ParseError
	if errors.As(err, &parse) {
		f.Line, f.Key, f.Message = parse.Position.Line, parse.LastKey, parse.Message
		f.Line = min(max(f.Line, 1), 1+strings.Count(text, "\n"))
		if parse.Message == "" {
			f.Message = strings.TrimPrefix(parse.Error(), "toml: ")
		}
	}
	l.faults = append(l.faults, f)
}

// add adds a fault whose path counts from the start of file s.
func (l *loader) add(s source, f topology.Fault) {
	l.faults = append(l.faults, Fault{File: s.name, Line: lineOf(s.lines, f.Path), Key: f.Path, Message: f.Message, Hint: f.Hint})
}

// lineOf returns the line of a path, or of the nearest path above it: a key that is missing has the line of its table.
func lineOf(lines map[string]int, path string) int {
	for path != "" {
		if n, ok := lines[path]; ok {
			return n
		}
		if n, ok := lines[path+"[0]"]; ok { // an array of tables as a whole
			return n
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
	return 1
}

// resolve turns what has been read into a topology that follows previous, which may be nil.
func (l *loader) resolve(previous *topology.State) (*topology.Topology, *topology.State, error) {
	var out *topology.Topology
	var state *topology.State
	// With a file that could not be read as TOML, all that refers to what it holds would be faults too.
	if len(l.sources) > 0 && !l.broken {
		var faults []topology.Fault
		unread := l.faults
		out, state, faults = topology.ResolveFrom(l.input, previous)
		for _, f := range faults {
			s, local := l.locate(f.Path)
			f.Path = local
			l.addOnce(s, f, unread)
		}
	}
	if len(l.faults) == 0 {
		return out, state, nil
	}
	slices.SortStableFunc(l.faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key),
			cmp.Compare(a.Message, b.Message))
	})
	return nil, nil, l.faults
}

// addOnce adds a fault unless the key has one already, or is at or below one that could not be read: to the resolver its value
// is missing.
func (l *loader) addOnce(s source, f topology.Fault, unread Faults) {
	same := func(o Fault) bool { return o.File == s.name && o.Key == f.Path }
	above := func(o Fault) bool {
		rest, below := strings.CutPrefix(f.Path, o.Key)
		return o.File == s.name && o.Key != "" && below && rest != "" && (rest[0] == '.' || rest[0] == '[')
	}
	if !slices.ContainsFunc(l.faults, same) && !slices.ContainsFunc(unread, above) {
		l.add(s, f)
	}
}

// locate returns the file that a path of the whole points into, and the path as it counts there.
func (l *loader) locate(path string) (source, string) {
	key, rest, isElement := strings.Cut(path, "[")
	if !isElement || strings.Contains(key, ".") {
		for _, s := range l.sources {
			if l.once[firstKey(path)] == s.name {
				return s, path
			}
		}
		return l.sources[0], path
	}
	number, rest, _ := strings.Cut(rest, "]")
	n, err := strconv.Atoi(number)
	if err != nil {
		return l.sources[0], path
	}
	found, local := l.sources[0], n
	for _, s := range l.sources {
		if first, has := s.first[key]; has && first <= n {
			found, local = s, n-first
		}
	}
	return found, fmt.Sprintf("%s[%d]%s", key, local, rest)
}

// firstKey returns the first key of a path.
func firstKey(path string) string {
	key, _, _ := strings.Cut(path, ".")
	return key
}
