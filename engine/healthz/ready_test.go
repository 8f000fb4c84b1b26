package healthz_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"sluice/engine/healthz"
)

func TestReadiness(t *testing.T) {
	var zones, sockets []string
	var r healthz.Readiness
	probe := func(status int, body string) {
		t.Helper()
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/ready", nil))
		if w.Code != status || w.Body.String() != body || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%d %q %v, want %d %q", w.Code, w.Body, w.Header(), status, body)
		}
	}
	probe(200, "OK")
	r.Require(func() []string { return sockets })
	r.Require(func() []string { return zones })
	probe(200, "OK")
	zones = []string{"zones"}
	probe(503, "zones\n")
	sockets = []string{"dns 198.19.0.10", "dns 2001:db8::10"}
	probe(503, "dns 198.19.0.10\ndns 2001:db8::10\nzones\n")
	zones, sockets = nil, nil
	probe(200, "OK")
	r.Stop()
	probe(503, "stopping\n")
}

// TestGatewayReady follows /ready of a gateway for which a change waits.
func TestGatewayReady(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := healthz.NewGateway(func() time.Time { return now })
	g.Updated(node(false)) // load balancers turn away from a node that is not ready; what it serves is there all the same
	if a := ask(g, "/ready"); a.Code != 200 || a.Body.String() != "OK" {
		t.Errorf("%d %q", a.Code, a.Body)
	}
	g.Queued()
	now = now.Add(2 * healthz.SyncPeriod)
	if a := ask(g, "/ready"); a.Code != 503 || a.Body.String() != "changes\n" {
		t.Errorf("%d %q", a.Code, a.Body)
	}
	if got := g.Ready.Missing(); !slices.Equal(got, []string{"changes"}) {
		t.Errorf("%q", got)
	}
	g.Updated(node(true))
	if a := ask(g, "/ready"); a.Code != 200 {
		t.Errorf("%d %q", a.Code, a.Body)
	}
}
