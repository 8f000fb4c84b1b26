package dns

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"sluice/dns/wire"
)

// tcpListener takes TCP connections, at most MaxConnections at once; more are closed at once, which sends a resolver to another
// server or attempt.
type tcpListener struct {
	server   *Server
	listener *net.TCPListener
	replies  sync.Pool // of *[TCPLimit + 2]byte: one is in use only while a reply is made, so that idle connections are cheap
	turn     atomic.Uint32
	counters tally

	mu       sync.Mutex
	open     map[*net.TCPConn]struct{}
	draining bool
	done     sync.WaitGroup
}

func openTCP(s *Server, at netip.AddrPort) (*tcpListener, error) {
	config := listenConfig(s.opts.freeBind)
	l, err := config.Listen(context.Background(), network("tcp", at), at.String())
	if err != nil {
		return nil, err
	}
	listener := l.(*net.TCPListener) // what Listen returns for TCP
	return &tcpListener{server: s, listener: listener, open: map[*net.TCPConn]struct{}{},
		replies: sync.Pool{New: func() any { return new([TCPLimit + 2]byte) }}}, nil
}

// run accepts connections until the listener is closed.
func (l *tcpListener) run() {
	for {
		conn, err := l.listener.AcceptTCP()
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

// enter takes a connection into the set of open ones, if it may stay.
func (l *tcpListener) enter(conn *net.TCPConn) bool {
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
func (l *tcpListener) end(conn *net.TCPConn) {
	l.mu.Lock()
	delete(l.open, conn)
	l.mu.Unlock()
	if err := conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		l.server.opts.Log.Debug("closing a DNS connection", "client", conn.RemoteAddr(), "error", err)
	}
}

// serve answers the queries of a connection, one after the other. A client may send many without waiting (RFC 7766 section 6.2.1.1):
// replies are gathered as long as the next query is there already.
func (l *tcpListener) serve(conn *net.TCPConn) {
	defer l.done.Done()
	defer l.end(conn)
	in := bufio.NewReaderSize(conn, maxQuery+2)
	out := bufio.NewWriterSize(deadlineWriter{conn, l.server.opts.WriteTimeout}, 4096)
	for l.wait(conn) {
		query, err := readQuery(in)
		if err != nil {
			l.failed(err)
			return
		}
		if !l.answer(query, out, conn) {
			l.counters.unsent.Add(1)
			return
		}
		if _, err := in.Discard(len(query)); err != nil {
			return // cannot be: readQuery has peeked at these bytes
		}
		if !another(in) && out.Flush() != nil {
			l.counters.unsent.Add(1)
			return
		}
	}
}

// wait gives the next query its time to arrive, and is false if no more are taken. The lock orders it with drain, whose deadline would
// be overwritten otherwise.
func (l *tcpListener) wait(conn *net.TCPConn) bool {
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

// answer writes the reply to a query.
func (l *tcpListener) answer(query []byte, out *bufio.Writer, conn *net.TCPConn) bool {
	buf := l.replies.Get().(*[TCPLimit + 2]byte)
	defer l.replies.Put(buf)
	zones := l.server.zones.Load()
	c := Client{Addr: clientOf(conn), Limit: TCPLimit, Time: uint32(time.Now().Unix()), Turn: l.turn.Add(nextTurn),
		Transport: TCP}
	n, rcode := l.server.responder.respond(zones, query, buf[2:], &c)
	if rcode == wire.Refused { // as whole zones are to the responder
		if done, rcode, err := transfer(zones, query, clientOf(conn), out, buf[2:]); done {
			l.counters.transferred(rcode)
			if err != nil {
				l.server.opts.Log.Warn("a transfer was not finished", "client", conn.RemoteAddr(), "error", err)
			}
			return err == nil
		}
	}
	l.counters.count(buf[2:2+n], rcode)
	if n == 0 {
		return true
	}
	binary.BigEndian.PutUint16(buf[:], uint16(n))
	_, err := out.Write(buf[:2+n])
	return err == nil
}

// clientOf returns the address of the peer.
func clientOf(conn *net.TCPConn) netip.Addr {
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
	conn    *net.TCPConn
	timeout time.Duration
}

func (w deadlineWriter) Write(b []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(w.timeout)); err != nil {
		return 0, err
	}
	return w.conn.Write(b)
}
