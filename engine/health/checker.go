package health

import (
	"context"

	"sluice/config/topology"
)

// Checker probes one endpoint once.
type Checker interface {
	// Check returns nil when the endpoint is well, and otherwise why it is not, in words for people. It ends when ctx does.
	Check(ctx context.Context, t *Target) error
}

// checkers returns the checkers by type of check.
func checkers(ports topology.PortRange) map[string]Checker {
	d := &dialer{ports: ports}
	return map[string]Checker{
		"tcp":  tcpChecker{d},
		"http": newHTTPChecker(d),
	}
}
