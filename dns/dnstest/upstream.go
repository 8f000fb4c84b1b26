package dnstest

import (
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"

	mdns "github.com/miekg/dns"
)

// Upstream is a server on loopback that answers as a test says.
type Upstream struct {
	Addr   netip.AddrPort
	Asked  atomic.Int64 // questions but for those that look whether it is well
	answer atomic.Pointer[func(w mdns.ResponseWriter, q *mdns.Msg)]
}

// Serve starts an upstream, which ends with the test.
func Serve(t *testing.T, answer func(w mdns.ResponseWriter, q *mdns.Msg)) *Upstream {
	t.Helper()
	u := &Upstream{}
	u.Set(answer)
	conn, listener := u.listen(t)
	for _, s := range []*mdns.Server{{PacketConn: conn, Handler: u}, {Listener: listener, Handler: u}} {
		started, ended := make(chan struct{}), make(chan error, 1)
		s.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- s.ActivateAndServe() }()
		<-started
		t.Cleanup(func() {
			if err := errors.Join(s.Shutdown(), <-ended); err != nil {
				t.Error(err)
			}
		})
	}
	return u
}

// listen takes a port that is free for UDP and TCP.
func (u *Upstream) listen(t *testing.T) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 20 {
		conn, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", conn.LocalAddr().String())
		if err == nil {
			u.Addr = conn.LocalAddr().(*net.UDPAddr).AddrPort()
			return conn, listener
		}
		if err := conn.Close(); err != nil { // the port is another's for TCP
			t.Fatal(err)
		}
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

// Set changes what it answers.
func (u *Upstream) Set(answer func(w mdns.ResponseWriter, q *mdns.Msg)) { u.answer.Store(&answer) }

// ServeDNS answers a query.
func (u *Upstream) ServeDNS(w mdns.ResponseWriter, q *mdns.Msg) {
	switch q.Question[0].Qtype {
	case mdns.TypeHINFO, mdns.TypeNS: // what a forwarder asks of its own
	default:
		u.Asked.Add(1)
	}
	(*u.answer.Load())(w, q)
}

// Silence answers nothing.
func Silence(mdns.ResponseWriter, *mdns.Msg) {}

// Records answers everything with records, which are lines of a zone file.
func Records(t *testing.T, lines ...string) func(mdns.ResponseWriter, *mdns.Msg) {
	t.Helper()
	return func(w mdns.ResponseWriter, q *mdns.Msg) {
		m := new(mdns.Msg).SetReply(q)
		for _, l := range lines {
			r, err := mdns.NewRR(l)
			if err != nil {
				t.Error(err)
			}
			if r.Header().Rrtype == mdns.TypeSOA {
				m.Ns = append(m.Ns, r)
			} else {
				m.Answer = append(m.Answer, r)
			}
		}
		m.SetEdns0(1232, false)
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncate(1232)
		}
		Reply(t, w, m)
	}
}

// Code answers everything with a response code.
func Code(t *testing.T, rcode int) func(mdns.ResponseWriter, *mdns.Msg) {
	t.Helper()
	return func(w mdns.ResponseWriter, q *mdns.Msg) { Reply(t, w, new(mdns.Msg).SetRcode(q, rcode)) }
}

// Reply sends an answer, unless the test has ended.
func Reply(t *testing.T, w mdns.ResponseWriter, m *mdns.Msg) {
	if err := w.WriteMsg(m); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
