// Package e2e tests the appliance as its users run it: the sluice binary in a network of namespaces, with real TCP and
// UDP stacks, curl, dig, iperf3 and ping at both ends. It has tests only.
package e2e
