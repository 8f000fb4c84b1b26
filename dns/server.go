package dns

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"sluice/dns/forward"
	"sluice/dns/zone"
)

// Options of a Server. The zero value of a field has a default, but for Listen.
type Options struct {
	Listen         netip.AddrPort // address of both UDP and TCP; port 0 takes one that is free for both
	ListenTLS      netip.AddrPort // address of DNS over TLS (RFC 7858); invalid: it is not served
	Certificate    *Certificate   // for that
	FreeBind       bool           // the address need not be an interface's: a route gives it to this machine
	Sockets        int            // UDP sockets, each with its reader; default: one for each core
	MaxConnections int            // TCP connections at once; default 1024
	IdleTimeout    time.Duration  // for a query on a TCP connection to arrive as a whole; default 10 s
	WriteTimeout   time.Duration  // for a TCP client to take a reply; default 5 s
	MaxForwards    int            // queries at once that wait for other servers, as many more wait for their turn; default 1000
	Log            *slog.Logger   // default: slog.Default()
}

// closeGrace is how long Close lets connections finish the reply that they are at.
const closeGrace = 2 * time.Second

func (o *Options) defaults() {
	if o.Sockets <= 0 {
		o.Sockets = runtime.GOMAXPROCS(0)
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = 1024
	}
	if o.IdleTimeout <= 0 {
		o.IdleTimeout = 10 * time.Second
	}
	if o.WriteTimeout <= 0 {
		o.WriteTimeout = 5 * time.Second
	}
	if o.MaxForwards <= 0 {
		o.MaxForwards = 1000
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
}

// Server answers on ordinary sockets, UDP and TCP. It answers every query with a server failure until Serve is called.
//
// Concurrency: all methods may be called by any goroutine at any time. Each query sees what one Serve has set.
type Server struct {
	opts    Options
	sources atomic.Pointer[sources]
	udp     []*udpReader
	tcp     []*tcpListener // plain, then perhaps over TLS
	rest    *recursion
	running sync.WaitGroup
	close   sync.Once
	failed  error // of close
}

// Open binds the sockets and starts to answer. Close ends it.
func Open(opts Options) (*Server, error) {
	opts.defaults()
	s := &Server{opts: opts, rest: newRecursion(opts.MaxForwards)}
	s.Serve(nil, nil)
	// With port 0 UDP picks a port that may be taken for TCP.
	attempts := 1
	if opts.Listen.Port() == 0 {
		attempts = 10
	}
	var err error
	for range attempts {
		if err = s.bind(); err == nil {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	for _, r := range s.udp {
		s.running.Go(r.run)
	}
	for _, l := range s.tcp {
		s.running.Go(l.run)
	}
	return s, nil
}

// bind opens all sockets, or none.
func (s *Server) bind() (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeSockets())
			s.udp, s.tcp = nil, nil
		}
	}()
	at := s.opts.Listen
	for range s.opts.Sockets {
		r, err := openUDP(s, at)
		if err != nil {
			return fmt.Errorf("listening on udp %v: %w", at, err)
		}
		s.udp = append(s.udp, r)
		at = netip.AddrPortFrom(at.Addr(), r.port())
	}
	if err := s.listen(at, nil); err != nil {
		return err
	}
	if s.opts.ListenTLS.IsValid() {
		return s.listen(s.opts.ListenTLS, s.opts.Certificate.config())
	}
	return nil
}

// listen opens a socket for connections.
func (s *Server) listen(at netip.AddrPort, secure *tls.Config) error {
	l, err := openTCP(s, at, secure)
	if err != nil {
		return fmt.Errorf("listening on tcp %v: %w", at, err)
	}
	s.tcp = append(s.tcp, l)
	return nil
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() netip.AddrPort {
	return netip.AddrPortFrom(s.opts.Listen.Addr(), s.udp[0].port())
}

// sources is what answers come from.
type sources struct {
	zones   *zone.Zones        // nil: not loaded yet
	forward *forward.Forwarder // nil: other names are refused
}

// AddrTLS returns the address of DNS over TLS, if that is served.
func (s *Server) AddrTLS() netip.AddrPort {
	if len(s.tcp) < 2 {
		return netip.AddrPort{}
	}
	return s.tcp[1].listener.Addr().(*net.TCPAddr).AddrPort()
}

// Serve replaces what answers come from: the zones, and whom else to ask, if anyone.
func (s *Server) Serve(z *zone.Zones, f *forward.Forwarder) { s.sources.Store(&sources{z, f}) }

// Close stops the server: no query is taken any more, and replies under way are finished within a grace of 2 s. It may be
// called twice.
func (s *Server) Close() error {
	s.close.Do(func() {
		s.failed = s.closeSockets()
		impatient := time.AfterFunc(closeGrace, s.rest.cancel)
		var drained sync.WaitGroup
		for _, l := range s.tcp {
			drained.Go(func() { l.drain(closeGrace) })
		}
		drained.Wait()
		impatient.Stop()
		s.rest.close()
		s.running.Wait()
	})
	return s.failed
}

func (s *Server) closeSockets() error {
	var errs []error
	for _, r := range s.udp {
		errs = append(errs, r.conn.Close())
	}
	for _, l := range s.tcp {
		errs = append(errs, l.listener.Close())
	}
	return errors.Join(errs...)
}

// transient reports whether a socket goes on after an error. It waits a little, since such errors come in floods.
func transient(err error) bool {
	if errors.Is(err, net.ErrClosed) {
		return false
	}
	time.Sleep(time.Millisecond)
	return true
}
