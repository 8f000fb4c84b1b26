package healthz_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/engine/healthz"
)

// testLivez asks an endpoint while the node is about to go away.
func testLivez(t *testing.T, c *healthCase) {
	g := healthz.NewGateway(time.Now)
	g.Updated(node(!c.Input.Tainted))
	if g.Healthy() != c.Input.SyncHealthy {
		t.Fatalf("healthy %v", g.Healthy())
	}
	if got := ask(g, c.Input.Endpoint); got.Code != c.Expected.Status {
		t.Errorf("status %d, want %d", got.Code, c.Expected.Status)
	}
}

// node returns a topology whose own node is ready or not.
func node(ready bool) *topology.Topology {
	return &topology.Topology{Gateway: topology.Gateway{Node: "gw-a", LocalAddresses: addrs("198.18.0.1 2001:db8:a::1")},
		Nodes: []topology.Node{{Name: "wk-1", Ready: true}, {Name: "gw-a", Ready: ready}}}
}

func ask(g *healthz.Gateway, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestGateway(t *testing.T) {
	gone := node(true)
	gone.Nodes = gone.Nodes[:1]
	const limit = 2 * healthz.SyncPeriod
	for _, tc := range []struct {
		name           string
		topology       *topology.Topology
		queued         time.Duration // since then a change waits; 0: none does
		healthz, livez int
	}{
		{"up to date", node(true), 0, 200, 200},
		{"a change waits, not too long", node(true), limit - 1, 200, 200},
		{"a change waits too long", node(true), limit, 503, 503},
		{"node not ready", node(false), 0, 503, 200},
		{"node gone", gone, 0, 503, 200},
		{"both", node(false), limit, 503, 503},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			g := healthz.NewGateway(func() time.Time { return now })
			g.Updated(tc.topology)
			now = now.Add(24 * time.Hour) // with nothing to do it stays healthy
			if tc.queued > 0 {
				g.Queued()
				now = now.Add(tc.queued / 2)
				g.Queued() // a second change does not make the first one younger
				now = now.Add(tc.queued - tc.queued/2)
			}
			if a := ask(g, "/healthz"); a.Code != tc.healthz {
				t.Errorf("/healthz %d %s, want %d", a.Code, a.Body, tc.healthz)
			}
			if a := ask(g, "/livez"); a.Code != tc.livez {
				t.Errorf("/livez %d %s, want %d", a.Code, a.Body, tc.livez)
			}
			if g.Healthy() != (tc.livez == 200) {
				t.Errorf("Healthy %v", g.Healthy())
			}
			g.Updated(node(true))
			if a := ask(g, "/healthz"); a.Code != 200 {
				t.Errorf("afterwards %d %s", a.Code, a.Body)
			}
		})
	}
	if a := ask(healthz.NewGateway(time.Now), "/other"); a.Code != 404 {
		t.Errorf("/other %d", a.Code)
	}
}

func TestGatewayBody(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	g := healthz.NewGateway(func() time.Time { return now })
	g.Updated(node(true))
	now = now.Add(time.Hour)
	for _, tc := range []struct{ path, want string }{
		{"/healthz", `{"lastUpdated":"2026-01-02T04:04:05Z","currentTime":"2026-01-02T04:04:05Z","nodeEligible":true,"healthy":true,
			"status":{"IPv4":{"lastUpdated":"2026-01-02T03:04:05Z","healthy":true},"IPv6":{"lastUpdated":"2026-01-02T03:04:05Z","healthy":true}}}`},
		{"/livez", `{"lastUpdated":"2026-01-02T04:04:05Z","currentTime":"2026-01-02T04:04:05Z","healthy":true,
			"status":{"IPv4":{"lastUpdated":"2026-01-02T03:04:05Z","healthy":true},"IPv6":{"lastUpdated":"2026-01-02T03:04:05Z","healthy":true}}}`},
	} {
		a := ask(g, tc.path)
		if !sameJSON(t, a.Body.Bytes(), []byte(tc.want)) {
			t.Errorf("%s: %s, want %s", tc.path, a.Body, tc.want)
		}
		if h := a.Header(); h.Get("Content-Type") != "application/json" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", tc.path, h)
		}
	}
	g.Queued()
	now = now.Add(2 * healthz.SyncPeriod)
	var body struct{ LastUpdated, CurrentTime time.Time }
	if err := json.Unmarshal(ask(g, "/healthz").Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if age := body.CurrentTime.Sub(body.LastUpdated); age != time.Hour+2*healthz.SyncPeriod {
		t.Errorf("unhealthy, and last updated %v ago", age)
	}
}

func TestGatewayServe(t *testing.T) {
	g := healthz.NewGateway(time.Now)
	g.Updated(node(true))
	port := freePort(t)
	address := "127.0.0.1:" + strconv.Itoa(int(port))
	stop, err := g.Serve(address, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if got := get(t, "http://"+address+"/healthz"); got.status != 200 {
		t.Errorf("%+v", got)
	}
	if _, err := g.Serve(address, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("served twice on one address")
	}
	if err := stop(); err != nil || !refused(port) {
		t.Errorf("stop: %v; still served: %v", err, !refused(port))
	}
}
