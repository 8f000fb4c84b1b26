package config

import (
	"reflect"
	"strings"
)

// later maps keys, without the numbers of elements, to values.
type later map[string]any

// laterKeys are the keys whose feature is not there yet, each with the value that asks for nothing and is accepted. The reason is
// the same for all of them, that the feature is not supported yet; one that comes deletes its rows.
func laterKeys() later {
	return later{
		"dns.tls_certificate": "",
		"dns.tls_key":         "",
	}
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

// row returns the value that a key of the table at path may have, and whether it is one of those that are not there yet.
func (l later) row(path, key string) (nothing any, known bool) {
	if strings.ContainsAny(key, ".[") { // written in quotes, and not a path
		return nil, false
	}
	nothing, known = l[join(withoutNumbers(path), key)]
	return nothing, known
}

// refuses reports whether a key of the table at path asks for a feature that is not there yet.
func (l later) refuses(path, key string, v any) bool {
	nothing, known := l.row(path, key)
	return known && !reflect.DeepEqual(v, nothing)
}

// accepts reports whether a key of the table at path, not of Input, is known all the same.
func (l later) accepts(path, key string) bool {
	_, known := l.row(path, key)
	return known
}

// keysBelow returns the keys of the table at path.
func (l later) keysBelow(path string) (keys []string) {
	below := withoutNumbers(path)
	for k := range l {
		table, key := "", k
		if i := strings.LastIndexByte(k, '.'); i >= 0 {
			table, key = k[:i], k[i+1:]
		}
		if table == below {
			keys = append(keys, key)
		}
	}
	return keys
}
