#!/bin/sh
# fuzz.sh TIME: runs every fuzz target of the module for TIME, one after the other; fails with the first that fails.
set -eu
time=${1:-10s}
go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed 's/^func //'); do
		echo "fuzz $pkg $target $time"
		go test "$pkg" -run '^$' -fuzz "^$target\$" -fuzztime "$time"
	done
done
