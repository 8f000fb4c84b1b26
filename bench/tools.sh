#!/bin/sh
# tools.sh SLUICE [SECONDS [RATE]]: dnsperf, kxdpgun and resperf against "sluice run" and "sluice dns", through namespaces that it makes and
# takes away. Root. The Debian packages are dnsperf, which has resperf, and knot-dnsutils; a tool that is missing is named.
set -eu

sluice=${1:?usage: tools.sh SLUICE [SECONDS [RATE]]}
seconds=${2:-5}
rate=${3:-20000}
dir=$(mktemp -d)
gen=sluice-gen-$$ srv=sluice-srv-$$ server=""

finish() {
	[ -z "$server" ] || kill "$server" 2>/dev/null || :
	ip netns delete "$gen" 2>/dev/null || :
	ip netns delete "$srv" 2>/dev/null || :
	rm -rf "$dir"
}
trap finish EXIT
trap 'exit 1' INT TERM

# The link: the generator has the even address. Native XDP on one end of a veth wants the other to poll by NAPI (GRO).
ip netns add "$gen"
ip netns add "$srv"
ip -n "$gen" link add eth0 type veth peer name front netns "$srv"
for end in "$gen eth0 198.18.32.2" "$srv front 198.18.32.1"; do
	# shellcheck disable=SC2086 # three words on purpose
	set -- $end
	ip -n "$1" link set lo up
	ip -n "$1" link set "$2" up
	ip -n "$1" address add "$3/24" dev "$2"
	ip netns exec "$1" ethtool -K "$2" gro on
done
ip -n "$gen" route add 198.19.64.0/20 via 198.18.32.1

# 900 services with a ClusterIP and 100 headless ones, and the questions: A, AAAA, SRV, and names that do not exist.
{
	cat <<-END
		[gateway]
		node = "gw"
		interfaces = ["front"]
		state_file = ""
		admin = "unix:$dir/admin.sock"
		[cluster]
		service_cidrs = ["198.19.64.0/20"]
		[dns]
		address = "198.19.64.53"
		[[node]]
		name = "gw"
		addresses = ["198.18.32.1"]
	END
	awk 'BEGIN { for (i = 0; i < 1000; i++) {
		ip = i % 10 == 9 ? "None" : sprintf("198.19.%d.%d", 65 + int(i / 250), 1 + i % 250)
		printf "[[service]]\nnamespace = \"n%d\"\nname = \"s%d\"\ncluster_ips = [\"%s\"]\n", i % 20, i, ip
		print "  [[service.port]]\n  name = \"http\"\n  port = 80"
		if (ip == "None") for (e = 0; e < 3; e++)
			printf "  [[service.endpoint]]\n  address = \"198.18.%d.%d\"\n", 64 + 16 * e + int(i / 250), 1 + i % 250
	} }'
} >"$dir/topology.toml"
awk 'BEGIN { for (i = 0; i < 1000; i++) {
	name = sprintf("s%d.n%d.svc.cluster.local.", i, i % 20)
	print name " A"
	if (i % 2) print name " AAAA"; else print "_http._tcp." name " SRV"
	printf "api.example.com.n%d.svc.cluster.local. %s\n", i % 20, i % 2 ? "A" : "AAAA"
} }' >"$dir/queries"

in_gen() { ip netns exec "$gen" "$@"; }

ask() {
	for _ in $(seq 100); do
		in_gen dig +short +time=1 +tries=1 @198.19.64.53 s0.n0.svc.cluster.local. A >"$dir/answer" 2>&1 || :
		grep -qx '198.19.65.1' "$dir/answer" && return
		sleep 0.1
	done
	echo "no answer" >&2
	cat "$dir/log" >&2
	exit 1
}

try() {
	echo "--- $*"
	if ! command -v "$1" >/dev/null 2>&1; then
		echo "missing: $1"
		return
	fi
	in_gen "$@" >"$dir/out" 2>&1 || echo "$1 ended with status $?"
	# Without what timed out one by one, and without the listing of a BPF program that the kernel refuses.
	grep -v -e '^\[Timeout\]' -e '^$' -e '^[0-9]*: (' -e '^;' "$dir/out"
}

measure() {
	ask
	try dnsperf -s 198.19.64.53 -d "$dir/queries" -l "$seconds" -Q "$rate" -c 32 -q 1000
	try dnsperf -s 198.19.64.53 -d "$dir/queries" -l "$seconds" -c 32 -q 1000
	try kxdpgun -t "$seconds" -Q "$rate" -b 16 -i "$dir/queries" 198.19.64.53
	try resperf -s 198.19.64.53 -d "$dir/queries" -m 200000 -r "$seconds" -c 1 -L 1 -C 32 -t 2 -R -F 0 -P "$dir/plot"
}

for command in run dns; do
	echo "=== sluice $command"
	if [ "$command" = run ]; then
		ip netns exec "$srv" "$sluice" run -c "$dir/topology.toml" >"$dir/log" 2>&1 &
	else
		ip -n "$srv" address add 198.19.64.53/32 dev lo
		ip netns exec "$srv" "$sluice" dns -c "$dir/topology.toml" --listen 198.19.64.53:53 >"$dir/log" 2>&1 &
	fi
	server=$!
	measure
	kill "$server"
	wait "$server" || :
	server=""
done
