package healthz

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"sluice/config/topology"
)

// SyncPeriod is the time that a change may take to be put in force, by half: the sync period of kube-proxy.
const SyncPeriod = 30 * time.Second

// Gateway is the health of the gateway itself. It is unhealthy while a change has waited longer than 2 x SyncPeriod to be
// put in force. When nothing waits, it stays healthy however long ago the last change was.
//
// Concurrency: all methods may be called from any goroutine.
type Gateway struct {
	// Ready is served as /ready. That changes are put in force is one of the things it requires.
	Ready Readiness

	now func() time.Time

	mu       sync.Mutex
	pending  time.Time // since when the oldest change waits; zero when none does
	updated  time.Time // when a change was last put in force
	eligible bool
	families []string
}

// NewGateway returns the health of a gateway that is up to date. now is the clock, time.Now unless in a test.
func NewGateway(now func() time.Time) *Gateway {
	g := &Gateway{now: now, updated: now(), eligible: true}
	g.Ready.Require(func() []string {
		if g.Healthy() {
			return nil
		}
		return []string{"changes"}
	})
	return g
}

// Queued says that there is a change to be put in force.
func (g *Gateway) Queued() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pending.IsZero() {
		g.pending = g.now()
	}
}

// Updated says that t, and so every change up to now, is in force.
func (g *Gateway) Updated(t *topology.Topology) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pending, g.updated = time.Time{}, g.now()
	g.eligible, g.families = eligible(t), families(t.Gateway.LocalAddresses)
}

// eligible reports whether load balancers should send to this node: it is there, and ready. Kubernetes looks for the
// deletion of the node and the autoscaler's taint instead (KEP-3836), which say that it is about to go.
func eligible(t *topology.Topology) bool {
	for i := range t.Nodes {
		if t.Nodes[i].Name == t.Gateway.Node {
			return t.Nodes[i].Ready
		}
	}
	return false
}

// families returns the IP families of addrs.
func families(addrs []netip.Addr) (out []string) {
	if len(ofNetwork(addrs, "tcp4")) > 0 {
		out = append(out, "IPv4")
	}
	if len(ofNetwork(addrs, "tcp6")) > 0 {
		out = append(out, "IPv6")
	}
	return out
}

// Healthy reports whether the gateway keeps up with changes; whether its node is eligible does not matter here.
func (g *Gateway) Healthy() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.healthy(g.now())
}

// healthy is Healthy at a time. The caller holds mu.
func (g *Gateway) healthy(now time.Time) bool {
	return g.pending.IsZero() || now.Sub(g.pending) < 2*SyncPeriod
}

// gatewayAnswer is the body of an answer, in the form of kube-proxy.
type gatewayAnswer struct {
	LastUpdated  time.Time               `json:"lastUpdated"`
	CurrentTime  time.Time               `json:"currentTime"`
	NodeEligible *bool                   `json:"nodeEligible,omitempty"` // of /healthz only
	Healthy      bool                    `json:"healthy"`
	Status       map[string]familyStatus `json:"status"`
}

// familyStatus is the state of one family. Both are put in force in one step, so that they never differ.
type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// answer returns what is to be said now. While the gateway is healthy it is up to date, and lastUpdated is the current time,
// as kube-proxy has it for those who take an old time for a fault.
func (g *Gateway) answer(withNode bool) gatewayAnswer {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.now()
	a := gatewayAnswer{LastUpdated: g.updated, CurrentTime: now, Healthy: g.healthy(now), Status: map[string]familyStatus{}}
	for _, f := range g.families {
		a.Status[f] = familyStatus{LastUpdated: g.updated, Healthy: a.Healthy}
	}
	if withNode {
		node := g.eligible
		a.NodeEligible, a.Healthy = &node, a.Healthy && node
	}
	if a.Healthy {
		a.LastUpdated = now
	}
	return a
}

// Handler serves /healthz, and /livez which leaves out whether the node is eligible: a node that is to go away needs no
// restart of its gateway; and /ready.
func (g *Gateway) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/ready", &g.Ready)
	for path, withNode := range map[string]bool{"/healthz": true, "/livez": false} {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			a := g.answer(withNode)
			setHeaders(w.Header())
			if !a.Healthy {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			_ = json.NewEncoder(w).Encode(a) // an error here is of the connection: its client does not want to know
		})
	}
	return mux
}

// Serve serves Handler on address, host:port, until stop is called.
func (g *Gateway) Serve(address string, log *slog.Logger) (stop func() error, err error) {
	if stop, err = Serve(address, g.Handler(), log); err != nil {
		return nil, fmt.Errorf("%w; set gateway.healthz to another address, or to \"\" for none", err)
	}
	return stop, nil
}
