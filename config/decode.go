package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"sluice/config/topology"
)

// decoder puts what the TOML library has made of a file into an Input, strictly: a key that Input does not have is a fault, and
// so is a value of the wrong type. It goes on after a fault.
type decoder struct {
	faults []topology.Fault
}

func (d *decoder) fault(path, hint, format string, args ...any) {
	d.faults = append(d.faults, topology.Fault{Path: path, Message: fmt.Sprintf(format, args...), Hint: hint})
}

// defaulter is a table that has defaults of its own.
type defaulter interface{ SetDefaults() }

// table fills the fields of a struct from a table.
func (d *decoder) table(path string, from map[string]any, to reflect.Value) {
	fields := map[string]reflect.Value{}
	for i := range to.NumField() {
		fields[to.Type().Field(i).Tag.Get("key")] = to.Field(i)
	}
	for key, v := range from {
		at := join(path, key)
		if later(at, v) {
			d.fault(at, "leave it out", "not supported yet")
			continue
		}
		f, ok := fields[key]
		switch {
		case ok:
			d.value(at, v, f)
		case !accepted(at):
			d.unknown(at, key, path, fields)
		}
	}
}

// unknown reports a key that there is not, with the nearest one that there is.
func (d *decoder) unknown(at, key, path string, fields map[string]reflect.Value) {
	known := keysBelow(path)
	for k := range fields {
		known = append(known, k)
	}
	slices.Sort(known)
	hint := "known keys here: " + strings.Join(known, ", ")
	if n := nearest(key, known); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	d.fault(at, hint, "unknown key")
}

// value fills one field.
func (d *decoder) value(path string, v any, to reflect.Value) {
	switch to.Kind() {
	case reflect.Interface:
		to.Set(reflect.ValueOf(v))
	case reflect.String:
		if s, ok := v.(string); ok {
			to.SetString(s)
			return
		}
		d.wrongType(path, v, `a string, in quotes`)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
			return
		}
		d.wrongType(path, v, "true or false")
	case reflect.Int:
		if n, ok := v.(int64); ok && int64(int(n)) == n {
			to.SetInt(n)
			return
		}
		d.wrongType(path, v, "a whole number, without quotes")
	case reflect.Slice:
		d.slice(path, v, to)
	case reflect.Map:
		d.mapping(path, v, to)
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		d.value(path, v, to.Elem())
	case reflect.Struct:
		d.structure(path, v, to)
	}
}

func (d *decoder) structure(path string, v any, to reflect.Value) {
	m, ok := v.(map[string]any)
	if !ok {
		d.wrongType(path, v, "a table")
		return
	}
	if def, ok := to.Addr().Interface().(defaulter); ok {
		def.SetDefaults()
	}
	d.table(path, m, to)
}

// slice appends the elements of an array: files of a directory add up.
func (d *decoder) slice(path string, v any, to reflect.Value) {
	var elements []any
	switch list := v.(type) {
	case []any:
		elements = list
	case []map[string]any:
		for _, m := range list {
			elements = append(elements, m)
		}
	default:
		what := "a list"
		if to.Type().Elem().Kind() == reflect.Struct {
			what = "tables, each under [[" + path + "]]"
		}
		d.wrongType(path, v, what)
		return
	}
	for i, e := range elements {
		n := to.Len()
		to.Set(reflect.Append(to, reflect.Zero(to.Type().Elem())))
		d.value(fmt.Sprintf("%s[%d]", path, i), e, to.Index(n))
	}
}

func (d *decoder) mapping(path string, v any, to reflect.Value) {
	m, ok := v.(map[string]any)
	if !ok {
		d.wrongType(path, v, "a table such as { name = value }")
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for key, e := range m {
		element := reflect.New(to.Type().Elem()).Elem()
		d.value(join(path, key), e, element)
		to.SetMapIndex(reflect.ValueOf(key), element)
	}
}

func (d *decoder) wrongType(path string, v any, want string) {
	d.fault(path, "", "%s: expected %s", describe(v), want)
}

// describe names a value of the TOML library for people.
func describe(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("%q is a string", v)
	case int64:
		return fmt.Sprintf("%d is a number", v)
	case float64:
		return fmt.Sprintf("%v is a fraction", v)
	case bool:
		return fmt.Sprintf("%v is a truth value", v)
	case []any, []map[string]any:
		return "this is a list"
	case map[string]any:
		return "this is a table"
	}
	return fmt.Sprintf("%v is a date or time", v)
}

// nearest returns the word of known that is a few typing errors away from key, "" when none is.
func nearest(key string, known []string) string {
	if len(key) > 64 { // no typing error of ours, and slow to compare
		return ""
	}
	best, least := "", 1+max(1, len(key)/3)
	for _, k := range known {
		if n := distance(key, k); n < least {
			best, least = k, n
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b (the optimal string
// alignment distance).
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
