#!/bin/sh
# fuzz.sh TIME [LONGER TARGETS]: runs every fuzz target of the module for TIME, one after the other, and those named in
# TARGETS, separated by blanks, for LONGER; fails with the first that fails, and when a name is of no target.
#
# On a busy machine Go's fuzzer can end with "context deadline exceeded" when the time is up while a worker is still at an input that
# is in order (golang.org/issue/48591); such an end, without a failing input, is no finding, and the target runs once more.
set -eu
time=${1:-10s} longer=${2:-} named=${3:-}
seen=$(mktemp)
log=$(mktemp)
trap 'rm -f "$seen" "$log"' EXIT

list() {
	go list -f '{{.ImportPath}} {{.Dir}}' ./... | while read -r pkg dir; do
		grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go 2>/dev/null | sed "s|^func |$pkg |" || true
	done
}

# run PACKAGE TARGET TIME fuzzes one target; its output is in $log too.
run() {
	status=0
	go test "$1" -run '^$' -fuzz "^$2\$" -fuzztime "$3" </dev/null >"$log" 2>&1 || status=$?
	cat "$log"
	return $status
}

# out_of_time says whether the last run failed by the end of its time, and by nothing else.
out_of_time() {
	grep -q '^ *context deadline exceeded$' "$log" && ! grep -q 'Failing input\|panic' "$log"
}

list >"$seen"
for name in $named; do
	grep -q " $name\$" "$seen" || { echo "fuzz.sh: no fuzz target is named $name" >&2; exit 1; }
done
while read -r pkg target; do
	t=$time
	case " $named " in *" $target "*) t=$longer ;; esac
	echo "fuzz $pkg $target $t"
	if ! run "$pkg" "$target" "$t"; then
		out_of_time || exit 1
		echo "the time was up at an input: once more"
		run "$pkg" "$target" "$t" || exit 1
	fi
done <"$seen"
