package engine

import (
	"log/slog"
	"net/netip"
	"slices"
	"testing"
)

// TestMissing names workers that have ended, and addresses that sockets should answer DNS at and do not.
func TestMissing(t *testing.T) {
	ws := workers{{index: 0, done: make(chan struct{})}, {index: 1, done: make(chan struct{})}}
	if got := ws.missing(); got != nil {
		t.Errorf("%q", got)
	}
	close(ws[1].done)
	if got := ws.missing(); !slices.Equal(got, []string{"worker 1"}) {
		t.Errorf("%q", got)
	}

	s := newNameServers(slog.New(slog.DiscardHandler))
	first, second := netip.MustParseAddr("198.19.0.10"), netip.MustParseAddr("2001:db8:96::10")
	s.want = []netip.Addr{first, second}
	s.open[first] = &nameServer{}
	if got := s.missing(); !slices.Equal(got, []string{"dns 2001:db8:96::10"}) {
		t.Errorf("%q", got)
	}
	s.open[second] = &nameServer{}
	if got := s.missing(); got != nil {
		t.Errorf("%q", got)
	}
}
