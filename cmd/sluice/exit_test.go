package main

import (
	"context"
	"testing"
)

// TestExitCodes holds the three codes: 0 done, 1 failed, 2 wrong usage.
func TestExitCodes(t *testing.T) {
	const demo = "../../examples/demo.toml"
	for _, tc := range []struct {
		name string
		args []string
		want int
	}{
		{"help", []string{"--help"}, 0},
		{"version", []string{"version"}, 0},
		{"sound topology", []string{"check", "-c", demo}, 0},
		{"a reject is an answer", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.0.40:80"}, 0},
		{"no such file", []string{"check", "-c", "nowhere.toml"}, 1},
		{"faults", []string{"check", "-c", "../../config/testdata/invalid/later.toml"}, 1},
		{"faults for another command", []string{"dig", "-c", "../../config/testdata/invalid/later.toml", "a.b"}, 1},
		{"no command", nil, 2},
		{"unknown command", []string{"chek"}, 2},
		{"unknown flag", []string{"check", "--x"}, 2},
		{"missing flag", []string{"check"}, 2},
		{"argument too many", []string{"check", "-c", demo, "x"}, 2},
		{"no question", []string{"dig", "-c", demo}, 2},
		{"unknown type", []string{"dig", "-c", demo, "a.b", "NOTYPE"}, 2},
		{"no address", []string{"trace", "-c", demo, "--src", "x", "--dst", "198.19.0.40:80"}, 2},
		{"families", []string{"trace", "-c", demo, "--src", "[2001:db8::1]:1", "--dst", "198.19.0.40:80"}, 2},
		{"protocol", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.0.40:80", "--proto", "gre"}, 2},
		{"protocol that is none", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.0.40:80", "--proto", "gre"}, 2},
		{"flags of UDP", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.0.30:7", "--proto", "udp", "--flags", "syn"}, 2},
		{"drop is an answer", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.99.99:80"}, 0},
		{"refused is an answer", []string{"dig", "-c", demo, "example.org"}, 0},
		{"empty file name", []string{"check", "-c", ""}, 2},
		{"topology without -c", []string{"check", demo}, 2},
		{"address for a name", []string{"dig", "-c", demo, "198.19.0.20", "PTR"}, 2},
		{"help of no command", []string{"help", "chek"}, 2},
		{"help of a command", []string{"help", "check"}, 0},
		{"driver of the demo", []string{"demo", "--driver", "dpdk"}, 2},
		{"mode of the demo", []string{"demo", "--xdp-mode", "fast"}, 2},
		{"flags", []string{"trace", "-c", demo, "--src", "198.18.0.50:1", "--dst", "198.19.0.40:80", "--flags", "xyz"}, 2},
		{"listen", []string{"dns", "-c", demo, "--listen", "x"}, 2},
		{"health of the DNS server", []string{"dns", "-c", demo, "--listen", "127.0.0.1:0", "--health", "8181"}, 2},
		{"health that is not ours", []string{"dns", "-c", demo, "--listen", "127.0.0.1:0", "--health", "198.18.0.99:8181"}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := run(context.Background(), tc.args); got != tc.want {
				t.Errorf("sluice %v exits with %d, want %d", tc.args, got, tc.want)
			}
		})
	}
}
