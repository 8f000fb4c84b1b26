package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/config/topology"
)

// decoder puts what the TOML library has made of a file into an Input, strictly: a key that Input does not have is a fault, and
// so is a value of the wrong type. It goes on after a fault.
type decoder struct {
	faults []topology.Fault
	texts  *texts
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
		if f, ok := fields[key]; ok {
			d.value(at, v, f)
		} else {
			d.unknown(at, key, fields)
		}
	}
}

// unknown reports a key that there is not, with the nearest one that there is.
func (d *decoder) unknown(at, key string, fields map[string]reflect.Value) {
	known := slices.Sorted(maps.Keys(fields))
	hint := "known keys here: " + strings.Join(known, ", ")
	if n := topology.Nearest(key, known); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	d.fault(at, hint, "unknown key")
}

// value fills one field.
func (d *decoder) value(path string, v any, to reflect.Value) {
	switch to.Kind() {
	case reflect.Interface:
		if s, ok := v.(string); ok {
			v = d.texts.keep(s)
		}
		to.Set(reflect.ValueOf(v))
	case reflect.String:
		if s, ok := v.(string); ok {
			to.SetString(d.texts.keep(s))
			return
		}
		d.wrongType(path, v, to.Type(), `a string, in quotes like "text"`)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			to.SetBool(b)
			return
		}
		d.wrongType(path, v, to.Type(), "true or false")
	case reflect.Int:
		if n, ok := v.(int64); ok && int64(int(n)) == n {
			to.SetInt(n)
			return
		}
		d.wrongType(path, v, to.Type(), "a whole number, without quotes, like 80")
	case reflect.Float64:
		d.number(path, v, to)
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

// number fills a field that may have a fraction.
func (d *decoder) number(path string, v any, to reflect.Value) {
	switch n := v.(type) {
	case int64:
		to.SetFloat(float64(n))
	case float64:
		to.SetFloat(n)
	default:
		d.wrongType(path, v, to.Type(), "a number, without quotes, like 8 or 7.5")
	}
}

func (d *decoder) structure(path string, v any, to reflect.Value) {
	if to.Type() == reflect.TypeFor[time.Time]() {
		d.moment(path, v, to)
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		d.wrongType(path, v, to.Type(), "a table, under ["+withoutNumbers(path)+"]")
		return
	}
	if def, ok := to.Addr().Interface().(defaulter); ok {
		def.SetDefaults()
	}
	d.table(path, m, to)
}

// moment fills a point in time. One without an offset is in UTC, so that a file means the same on every machine.
func (d *decoder) moment(path string, v any, to reflect.Value) {
	t, ok := v.(time.Time)
	if !ok {
		d.wrongType(path, v, to.Type(), "a time, without quotes, like 2026-01-01T00:00:00Z")
		return
	}
	if strings.HasSuffix(t.Location().String(), "-local") { // as the TOML library marks one without an offset
		t = time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), time.UTC)
	}
	to.Set(reflect.ValueOf(t))
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
		what := `a list like ["one", "two"]`
		if to.Type().Elem().Kind() == reflect.Struct {
			what = "tables, each under [[" + withoutNumbers(path) + "]]"
		}
		d.wrongType(path, v, to.Type(), what)
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
		d.wrongType(path, v, to.Type(), "a table such as { name = value }")
		return
	}
	to.Set(reflect.MakeMap(to.Type()))
	for key, e := range m {
		element := reflect.New(to.Type().Elem()).Elem()
		d.value(join(path, key), e, element)
		to.SetMapIndex(reflect.ValueOf(d.texts.keep(key)), element)
	}
}

func (d *decoder) wrongType(path string, v any, to reflect.Type, want string) {
	hint := ""
	if as := rewritten(v, to); as != "" {
		hint = "write " + as
	}
	d.fault(path, hint, "%s: expected %s", describe(v), want)
}

// rewritten returns v as TOML of the type that was expected, "" when it is not clear how.
func rewritten(v any, to reflect.Type) string {
	text, isText := v.(string)
	switch kind := to.Kind(); {
	case kind == reflect.Slice && to.Elem().Kind() == reflect.String && isText:
		return fmt.Sprintf("[%q]", text)
	case kind == reflect.Int && isText:
		if n, err := strconv.Atoi(text); err == nil {
			return strconv.Itoa(n)
		}
	case kind == reflect.Bool && isText:
		if b, err := strconv.ParseBool(text); err == nil {
			return strconv.FormatBool(b)
		}
	case kind == reflect.String:
		switch v.(type) {
		case int64, float64, bool:
			return fmt.Sprintf(`"%v"`, v)
		}
	}
	return ""
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

// withoutNumbers returns a path without the numbers of elements.
func withoutNumbers(path string) string {
	for {
		before, after, found := strings.Cut(path, "[")
		_, after, closed := strings.Cut(after, "]")
		if !found || !closed {
			return path
		}
		path = before + after
	}
}
