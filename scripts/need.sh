#!/bin/sh
# need.sh PURPOSE: makes sure the Debian packages for PURPOSE (build, test, generate, bench) are there. As root on a Debian
# system it installs what is missing; otherwise it names what is missing in one line and fails.
set -eu

purpose=${1:?usage: need.sh build|test|generate|bench}
case $purpose in
build)    wanted="" ;;
# command:package pairs; gcc and libc6-dev are for the race detector.
test)     wanted="ip:iproute2 ping:iputils-ping curl:curl iperf3:iperf3 dig:bind9-dnsutils ethtool:ethtool gcc:gcc nsd:nsd" ;;
generate) wanted="clang:clang llvm-strip:llvm" ;;
bench)    wanted="ip:iproute2 nft:nftables ethtool:ethtool nsd:nsd" ;;
*)        echo "need.sh: unknown purpose $purpose: use build, test, generate or bench" >&2; exit 2 ;;
esac

if ! command -v go >/dev/null 2>&1; then
	echo "Go is missing: install Go 1.26 or newer and put it on the PATH" >&2
	exit 1
fi

missing=""
for pair in $wanted; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || missing="$missing ${pair#*:}"
done
# Headers have no command to look for.
if [ "$purpose" = generate ] && [ ! -e /usr/include/bpf/bpf_helpers.h ]; then missing="$missing libbpf-dev"; fi
if [ "$purpose" = test ] && [ ! -e /usr/include/stdlib.h ]; then missing="$missing libc6-dev"; fi
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
	echo "installing for $purpose:$missing"
	log=$(mktemp)
	# shellcheck disable=SC2086 # the list is words on purpose
	if apt-get update >"$log" 2>&1 &&
		DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $missing >>"$log" 2>&1; then
		rm -f "$log"
		exit 0
	fi
	tail -n 20 "$log" >&2
	rm -f "$log"
	echo "could not install:$missing" >&2
	exit 1
fi
echo "missing for $purpose:$missing (Debian package names): install them, or run as root to have it done" >&2
exit 1
