package healthz

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// What a client may take up. Answers are a few hundred bytes, so that honest probes come nowhere near.
const (
	maxConns       = 128 // at a time on one listener; more wait in the kernel's queue
	maxHeaderBytes = 8 << 10
	readTimeout    = 5 * time.Second
	writeTimeout   = 5 * time.Second
)

// newServer returns a bounded HTTP server for handler. A connection carries one request: probes are rare, and clients that
// keep connections open for nothing must not take the places of others.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	s := &http.Server{
		Handler: handler, ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	s.SetKeepAlivesEnabled(false)
	return s
}

// Serve listens on address, host:port, and serves handler there until stop is called.
func Serve(address string, handler http.Handler, log *slog.Logger) (stop func() error, err error) {
	socket, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	s := newServer(handler, log)
	go func() {
		if err := s.Serve(limit(socket, maxConns)); err != nil && !errors.Is(err, http.ErrServerClosed) {
			log.Error("health is served no longer; restart to have it back", "address", address, "error", err)
		}
	}()
	return s.Close, nil
}

// limit returns l with at most n accepted connections open at a time.
func limit(l net.Listener, n int) net.Listener {
	return &limited{Listener: l, places: make(chan struct{}, n), closed: make(chan struct{})}
}

// limited is a listener with a bounded number of open connections.
type limited struct {
	net.Listener
	places chan struct{}
	once   sync.Once
	closed chan struct{}
}

// Accept waits for a place, then for a connection.
func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &place{Conn: c, free: func() { <-l.places }}, nil
}

// Close ends Accept too when that waits for a place.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// place is a connection that frees its place when it is closed.
type place struct {
	net.Conn
	once sync.Once
	free func()
}

func (p *place) Close() error {
	p.once.Do(p.free)
	return p.Conn.Close()
}

// setHeaders sets what every answer has.
func setHeaders(h http.Header) {
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
}
