package dns

import (
	"context"

	"sluice/dns/forward"
	"sluice/dns/zone"
)

// Complete is what a Server answers to a client in the end.
func Complete(z *zone.Zones, f *forward.Forwarder, query, out []byte, c Client) int {
	n, _ := complete(context.Background(), &sources{z, f}, query, out, c)
	return n
}
