package dns

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice/dns/wire"
	"sluice/dns/zone"
)

// tcpListener takes TCP connections, at most MaxConnections at once; more are closed at once, which sends a resolver to another
// server or attempt.
type tcpListener struct {
	server   *Server
	listener *net.TCPListener
	tls      *tls.Config // nil: plain
	replies  sync.Pool   // of *[TCPLimit]byte: one is in use only while a reply is made, so that idle connections are cheap
	turn     atomic.Uint32
	counters tally

	mu       sync.Mutex
	open     map[net.Conn]struct{}
	draining bool
	done     sync.WaitGroup
}

// stream is one connection. Replies may be written by any goroutine, those that took longer behind those of later queries (RFC 7766
// section 6.2.1.1).
type stream struct {
	net.Conn
	in      *bufio.Reader
	mu      sync.Mutex // for out
	out     *bufio.Writer
	waiting sync.WaitGroup // for replies that are still to be written
}

func openTCP(s *Server, at netip.AddrPort, secure *tls.Config) (*tcpListener, error) {
	config := listenConfig(s.opts.freeBind)
	l, err := config.Listen(context.Background(), network("tcp", at), at.String())
	if err != nil {
		return nil, err
	}
	listener := l.(*net.TCPListener) // what Listen returns for TCP
	return &tcpListener{server: s, listener: listener, tls: secure, open: map[net.Conn]struct{}{},
		replies: sync.Pool{New: func() any { return new([TCPLimit]byte) }}}, nil
}

// run accepts connections until the listener is closed.
func (l *tcpListener) run() {
	for {
		conn, err := l.accept()
		switch {
		case err == nil && l.enter(conn):
			go l.serve(conn)
		case err == nil:
			l.counters.refused.Add(1)
			l.end(conn)
		case !transient(err):
			return
		}
	}
}

// accept takes a connection. A handshake comes with the first query, in the time that it has.
func (l *tcpListener) accept() (net.Conn, error) {
	conn, err := l.listener.AcceptTCP()
	if err != nil || l.tls == nil {
		return conn, err
	}
	return tls.Server(conn, l.tls), nil
}

// enter takes a connection into the set of open ones, if it may stay.
func (l *tcpListener) enter(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining || len(l.open) >= l.server.opts.MaxConnections {
		return false
	}
	l.open[conn] = struct{}{}
	l.done.Add(1)
	return true
}

// end closes a connection. Nothing depends on whether the peer still gets to know of it.
func (l *tcpListener) end(conn net.Conn) {
	l.mu.Lock()
	delete(l.open, conn)
	l.mu.Unlock()
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		l.server.opts.Log.Debug("closing a DNS connection", "client", conn.RemoteAddr(), "error", err)
	}
}

// serve answers the queries of a connection. A client may send many without waiting: replies are gathered as long as the next query is
// there already.
func (l *tcpListener) serve(conn net.Conn) {
	defer l.done.Done()
	defer l.end(conn)
	s := &stream{Conn: conn, in: bufio.NewReaderSize(conn, maxQuery+2), out: bufio.NewWriterSize(deadlineWriter{conn, l.server.opts.WriteTimeout}, 4096)}
	defer s.waiting.Wait()
	for l.wait(conn) {
		query, err := readQuery(s.in)
		if err != nil {
			l.failed(err)
			return
		}
		if !l.answer(query, s) {
			l.counters.unsent.Add(1)
			return
		}
		if _, err := s.in.Discard(len(query)); err != nil {
			return // cannot be: readQuery has peeked at these bytes
		}
		if !another(s.in) && s.flush() != nil {
			l.counters.unsent.Add(1)
			return
		}
	}
}

// wait gives the next query its time to arrive, and is false if no more are taken. The lock orders it with drain, whose deadline would
// be overwritten otherwise.
func (l *tcpListener) wait(conn net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.draining && conn.SetReadDeadline(time.Now().Add(l.server.opts.IdleTimeout)) == nil
}

// another reports whether a whole query is in the buffer, so that reading it does not wait for the client.
func another(in *bufio.Reader) bool {
	if in.Buffered() < 2 {
		return false
	}
	head, err := in.Peek(2)
	return err == nil && in.Buffered() >= 2+int(binary.BigEndian.Uint16(head))
}

var errTooLong = errors.New("query too long")

// readQuery returns the next query, still in the reader's buffer.
func readQuery(in *bufio.Reader) ([]byte, error) {
	head, err := in.Peek(2)
	if err != nil {
		return nil, err
	}
	length := int(binary.BigEndian.Uint16(head))
	if length > maxQuery {
		return nil, errTooLong
	}
	if _, err := in.Discard(2); err != nil {
		return nil, err
	}
	return in.Peek(length)
}

// failed counts what a connection ends with, unless the client just went away or had no more to ask.
func (l *tcpListener) failed(err error) {
	if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) {
		l.counters.ignored.Add(1)
	}
}

// answer writes the reply to a query, or has it written when it is there.
func (l *tcpListener) answer(query []byte, s *stream) bool {
	buf := l.replies.Get().(*[TCPLimit]byte)
	defer l.replies.Put(buf)
	from := l.server.sources.Load()
	client := Client{Addr: clientOf(s), Limit: TCPLimit, Time: uint32(time.Now().Unix()), Turn: l.turn.Add(nextTurn), Transport: l.transport()}
	var r reply
	n, o := l.server.responder.respond(&r, from.zones, query, buf[:], &client)
	switch {
	case o.lacks != nothing:
		s.waiting.Add(1)
		l.server.rest.take(&job{from: from, query: slices.Clone(query), client: client, send: func(reply []byte, o outcome) {
			defer s.waiting.Done()
			l.counters.count(reply, o)
			if s.write(reply) != nil || s.flush() != nil {
				l.counters.unsent.Add(1)
			}
		}})
		return true
	case o.rcode == wire.Refused: // as whole zones are to the responder
		if done, ok := l.transfer(from.zones, query, s, buf[:], o); done {
			return ok
		}
	}
	l.counters.count(buf[:n], o)
	return s.write(buf[:n]) == nil
}

// transport returns what the listener's queries come by.
func (l *tcpListener) transport() Transport {
	if l.tls != nil {
		return TLS
	}
	return TCP
}

// transfer answers a query for a whole zone, and reports whether it was one and whether the connection is still good.
func (l *tcpListener) transfer(z *zone.Zones, query []byte, s *stream, scratch []byte, o outcome) (done, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	done, rcode, err := transfer(z, query, clientOf(s), s.out, scratch)
	if done {
		o.rcode = rcode
		l.counters.transferred(o)
	}
	if err != nil {
		l.server.opts.Log.Warn("a transfer was not finished", "client", s.RemoteAddr(), "error", err)
	}
	return done, err == nil
}

// write puts a reply into the buffer, if there is one.
func (s *stream) write(reply []byte) error {
	if len(reply) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.out.Write([]byte{byte(len(reply) >> 8), byte(len(reply))}); err != nil {
		return err
	}
	_, err := s.out.Write(reply)
	return err
}

// flush sends what is in the buffer.
func (s *stream) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Flush()
}

// clientOf returns the address of the peer.
func clientOf(conn net.Conn) netip.Addr {
	return conn.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap()
}

// drain lets connections finish the reply that they are at, and closes those that have not after grace.
func (l *tcpListener) drain(grace time.Duration) {
	l.mu.Lock()
	l.draining = true
	for conn := range l.open {
		// A connection that cannot be told is closed below.
		if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
			l.server.opts.Log.Debug("ending a DNS connection", "client", conn.RemoteAddr(), "error", err)
		}
	}
	l.mu.Unlock()
	late := time.AfterFunc(grace, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for conn := range l.open {
			if err := conn.Close(); err != nil {
				l.server.opts.Log.Debug("closing a DNS connection", "client", conn.RemoteAddr(), "error", err)
			}
		}
	})
	defer late.Stop()
	l.done.Wait()
}

// deadlineWriter gives each write a time to finish.
type deadlineWriter struct {
	conn    net.Conn
	timeout time.Duration
}

func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	return w.conn.Write(b)
}
