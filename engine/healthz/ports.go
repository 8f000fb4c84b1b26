package healthz

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// retryInterval is the time between two attempts at ports that could not be bound.
const retryInterval = 10 * time.Second

// PortsOptions is what Ports works with.
type PortsOptions struct {
	Healthy func() bool // whether the gateway itself is; without, every service answers 503
	Log     *slog.Logger
}

// Ports serves the health_check_node_port of services.
//
// Concurrency: all methods may be called from any goroutine.
type Ports struct {
	options  PortsOptions
	failures atomic.Uint64

	mu        sync.Mutex
	closed    bool
	listeners map[binding]*listener
	wanted    map[binding]*Check
	reported  map[binding]bool // failed, and that has been logged
}

// binding is where a listener listens: IPv4 and IPv6 apart, also on the wildcard addresses, so that each has its own count
// and neither takes the other's port (kubernetes/kubernetes#114702).
type binding struct {
	network string // "tcp4" or "tcp6"
	addr    netip.AddrPort
}

// listener is a listening server. What it answers is replaced without closing it.
type listener struct {
	socket net.Listener
	server *http.Server
	check  atomic.Pointer[Check]
}

// NewPorts returns Ports that serve nothing yet.
func NewPorts(o PortsOptions) *Ports {
	return &Ports{options: o, listeners: map[binding]*listener{}, wanted: map[binding]*Check{}, reported: map[binding]bool{}}
}

// Set replaces what is served: checks on the addresses of their families. Listeners that stay are not interrupted. A port
// that cannot be bound is logged and counted, and tried again by Run and by the next Set.
func (p *Ports) Set(addrs []netip.Addr, checks []Check) {
	wanted := map[binding]*Check{}
	for i := range checks {
		c := &checks[i]
		for _, a := range addrs {
			b := binding{c.Network, netip.AddrPortFrom(a, c.Port)}
			if networkOf(a) == c.Network && wanted[b] == nil {
				wanted[b] = c
			}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.wanted = wanted
	p.apply()
}

// apply closes what is not wanted any more, then opens what is missing: the order matters where a wildcard address and
// others replace each other on one port. The caller holds mu.
func (p *Ports) apply() {
	for b, l := range p.listeners {
		if p.wanted[b] == nil {
			p.close(b, l)
		}
	}
	for b := range p.reported {
		if p.wanted[b] == nil {
			delete(p.reported, b)
		}
	}
	for b, c := range p.wanted {
		if l := p.listeners[b]; l != nil {
			l.check.Store(c)
			continue
		}
		p.open(b, c)
	}
}

// open starts a listener.
func (p *Ports) open(b binding, c *Check) {
	socket, err := net.Listen(b.network, b.addr.String())
	if err != nil {
		p.failures.Add(1)
		if !p.reported[b] {
			p.options.Log.Error("a health check port cannot be bound; load balancers see this node as down for its service",
				"service", c.Namespace+"/"+c.Name, "address", b.addr, "error", err)
		}
		p.reported[b] = true
		return
	}
	delete(p.reported, b)
	l := &listener{socket: limit(socket, maxConns)}
	l.check.Store(c)
	answer := func(w http.ResponseWriter, _ *http.Request) { p.answer(w, l.check.Load()) }
	l.server = newServer(http.HandlerFunc(answer), p.options.Log)
	p.listeners[b] = l
	go p.serve(b, l)
}

// serve serves until the listener is closed. One that ends by itself is opened again by Run.
func (p *Ports) serve(b binding, l *listener) {
	err := l.server.Serve(l.socket)
	if errors.Is(err, http.ErrServerClosed) {
		return
	}
	p.options.Log.Error("a health check port is served no longer", "address", b.addr, "error", err)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listeners[b] == l {
		p.close(b, l)
		p.failures.Add(1)
	}
}

// close ends a listener. The caller holds mu.
func (p *Ports) close(b binding, l *listener) {
	delete(p.listeners, b)
	if err := l.close(); err != nil {
		p.options.Log.Warn("closing a health check port", "address", b.addr, "error", err)
	}
}

// close closes the socket itself too, for a server that has not taken it over yet: its port must be free afterwards.
func (l *listener) close() error {
	err := l.server.Close()
	if e := l.socket.Close(); !errors.Is(e, net.ErrClosed) {
		err = errors.Join(err, e)
	}
	return err
}

// Run tries ports that could not be bound again, until ctx ends.
func (p *Ports) Run(ctx context.Context) {
	tick := time.NewTicker(retryInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			p.retry()
		}
	}
}

// retry opens what is wanted and not open.
func (p *Ports) retry() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.apply()
	}
}

// Close ends all listeners, for good.
func (p *Ports) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	var errs []error
	for b, l := range p.listeners {
		delete(p.listeners, b)
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}

// Stats says how the listeners do.
type Stats struct {
	Listening int    // sockets that are open
	Missing   int    // sockets that should be open and are not
	Failures  uint64 // attempts to open one that failed, and sockets that failed later
}

// Stats returns the numbers of now.
func (p *Ports) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return Stats{Listening: len(p.listeners), Missing: len(p.wanted) - len(p.listeners), Failures: p.failures.Load()}
}

// portAnswer is the body of an answer, in the form of kube-proxy.
type portAnswer struct {
	Service struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"service"`
	LocalEndpoints      int  `json:"localEndpoints"`
	ServiceProxyHealthy bool `json:"serviceProxyHealthy"`
}

// answer writes what c says. Whatever was asked for: the port is the question.
func (p *Ports) answer(w http.ResponseWriter, c *Check) {
	a := portAnswer{LocalEndpoints: c.Local, ServiceProxyHealthy: p.options.Healthy != nil && p.options.Healthy()}
	a.Service.Namespace, a.Service.Name = c.Namespace, c.Name
	setHeaders(w.Header())
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.Itoa(c.Local))
	if c.Local == 0 || !a.ServiceProxyHealthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_ = json.NewEncoder(w).Encode(a) // an error here is of the connection: its client does not want to know
}
