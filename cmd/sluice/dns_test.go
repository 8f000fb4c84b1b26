package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"
	"golang.org/x/sys/unix"
)

// statusBed is a DNS server alone, and what its status says.
type statusBed struct {
	*testing.T
	servers *dnsServers
	status  http.Handler
}

func (b *statusBed) get(path string) (int, string) {
	w := httptest.NewRecorder()
	b.status.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func (b *statusBed) want(path string, status int, body string) {
	b.Helper()
	if code, got := b.get(path); code != status || got != body {
		b.Errorf("%s: %d %q, want %d %q", path, code, got, status, body)
	}
}

// wait waits until path answers with a text in it.
func (b *statusBed) wait(path, text string) {
	b.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, got := b.get(path); strings.Contains(got, text) {
			return
		}
		if time.Now().After(end) {
			b.Fatalf("%s never says %q", path, text)
		}
	}
}

// TestDNSStatus follows a DNS server through its life: before it has zones, at work, over a refused reload and a good one, and at its
// end.
func TestDNSStatus(t *testing.T) {
	good, err := os.ReadFile("../../examples/demo.toml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "demo.toml")
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(good)
	log := slog.New(slog.DiscardHandler)
	d := newDNSServers(path, []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}, nil, log)
	b := &statusBed{T: t, servers: d}
	if b.status, err = d.status(); err != nil {
		t.Fatal(err)
	}
	b.want("/ready", 503, "zones\ndns 127.0.0.1:0\n")
	b.want("/health", 200, "OK")

	ctx, cancel := context.WithCancel(t.Context())
	reload, done := make(chan os.Signal), make(chan error, 1)
	go func() { done <- d.run(ctx, reload) }()
	b.wait("/ready", "OK")
	b.ask()
	b.wait("/metrics", "\ncoredns_dns_requests_total{proto=\"udp\",type=\"A\"} 1\n")
	write([]byte("[gateway"))
	reload <- unix.SIGHUP
	b.wait("/metrics", "\nsluice_reload_failures_total 1\n")
	b.want("/ready", 200, "OK")
	write(good)
	reload <- unix.SIGHUP
	b.wait("/metrics", "\nsluice_reloads_total 1\n")

	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	b.want("/ready", 503, "stopping\n")
	b.want("/health", 200, "OK")
}

// ask puts one question to the server.
func (b *statusBed) ask() {
	b.Helper()
	b.servers.mu.Lock()
	at := b.servers.servers[0].Addr().String()
	b.servers.mu.Unlock()
	reply, err := mdns.Exchange(new(mdns.Msg).SetQuestion("web.shop.svc.cluster.local.", mdns.TypeA), at)
	if err != nil || len(reply.Answer) != 1 {
		b.Fatalf("%v %v", reply, err)
	}
}
