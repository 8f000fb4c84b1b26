#!/bin/sh
# fuzz.sh TIME [LONGER TARGETS]: runs every fuzz target of the module for TIME, one after the other, and those named in
# TARGETS, separated by blanks, for LONGER; fails with the first that fails, and when a name is of no target.
set -eu
time=${1:-10s} longer=${2:-} named=${3:-}
seen=$(mktemp)
trap 'rm -f "$seen"' EXIT

list() {
	go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do
		grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed "s|^func |$pkg |" || true
	done
}

list >"$seen"
for name in $named; do
	grep -q " $name\$" "$seen" || { echo "fuzz.sh: no fuzz target is named $name" >&2; exit 1; }
done
while read -r pkg target; do
	t=$time
	case " $named " in *" $target "*) t=$longer ;; esac
	echo "fuzz $pkg $target $t"
	go test "$pkg" -run '^$' -fuzz "^$target\$" -fuzztime "$t" </dev/null
done <"$seen"
