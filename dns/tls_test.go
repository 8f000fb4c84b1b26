package dns_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
)

// secured opens a server that serves DNS over TLS as well.
func secured(t *testing.T, dir string, log *slog.Logger) *dns.Server {
	t.Helper()
	certFile, keyFile := dnstest.Certificate(t, dir, 1)
	c := &dns.Certificate{Log: log}
	if err := c.Use(certFile, keyFile); err != nil {
		t.Fatal(err)
	}
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.ListenTLS, o.Certificate = netip.MustParseAddrPort("127.0.0.1:0"), c })
	s.Serve(dnstest.Zones(t), nil)
	return s
}

// dialTLS makes a connection, trusting whatever certificate there is, and returns its serial number.
func dialTLS(t *testing.T, s *dns.Server) (*tls.Conn, int64) {
	t.Helper()
	conn, err := tls.Dial("tcp", s.AddrTLS().String(), &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"dot"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	state := conn.ConnectionState()
	if state.NegotiatedProtocol != "dot" {
		t.Errorf("protocol %q", state.NegotiatedProtocol)
	}
	return conn, state.PeerCertificates[0].SerialNumber.Int64()
}

// TestTLS answers over TLS as over TCP, query behind query.
func TestTLS(t *testing.T) {
	s := secured(t, t.TempDir(), slog.New(slog.DiscardHandler))
	conn, _ := dialTLS(t, s)
	for _, name := range []string{"cart.shop.svc.grid.example.", "none.shop.svc.grid.example.", "swarm.shop.svc.grid.example."} {
		q := query(t, name, mdns.TypeA, 0, false)
		if _, err := conn.Write(append([]byte{byte(len(q) >> 8), byte(len(q))}, q...)); err != nil {
			t.Fatal(err)
		}
		if got, want := receive(t, "tcp", conn), answer(dnstest.Zones(t), q, dns.TCPLimit); !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want the %d of TCP", name, len(got), len(want))
		}
	}
	if c := s.Counters(); c.TLS.Queries() != 3 || c.TCP.Queries() != 0 {
		t.Errorf("counted %+v", c)
	}
}

// TestTLSVersions refuses what is older than TLS 1.2, and what is no TLS.
func TestTLSVersions(t *testing.T) {
	s := secured(t, t.TempDir(), slog.New(slog.DiscardHandler))
	for _, version := range []uint16{tls.VersionTLS10, tls.VersionTLS11, tls.VersionTLS12, tls.VersionTLS13} {
		conn, err := tls.Dial("tcp", s.AddrTLS().String(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != (version >= tls.VersionTLS12) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			conn.Close()
		}
	}
	conn, err := net.Dial("tcp", s.AddrTLS().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	q := query(t, "cart.shop.svc.grid.example.", mdns.TypeA, 0, false)
	if _, err := conn.Write(append([]byte{0, byte(len(q))}, q...)); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if _, err := got.ReadFrom(conn); err == nil && bytes.Contains(got.Bytes(), q[12:]) {
		t.Error("answered in the clear")
	}
}

// TestCertificateChanges takes a new certificate for new connections, and keeps the one it has when the files are not good.
func TestCertificateChanges(t *testing.T) {
	dir := t.TempDir()
	var log strings.Builder
	s := secured(t, dir, slog.New(slog.NewTextHandler(&log, nil)))
	serial := func() int64 { _, n := dialTLS(t, s); return n }
	if n := serial(); n != 1 {
		t.Errorf("certificate %d first", n)
	}
	certFile, keyFile := dnstest.Certificate(t, dir, 2)
	later(t, certFile, keyFile)
	if n := serial(); n != 2 {
		t.Errorf("certificate %d after it changed, want 2", n)
	}
	if err := os.WriteFile(keyFile, []byte("no key"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if n := serial(); n != 2 {
			t.Errorf("certificate %d with a broken key, want the one from before", n)
		}
	}
	if n := strings.Count(log.String(), "is not good"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if err := os.Remove(certFile); err != nil {
		t.Fatal(err)
	}
	if n := serial(); n != 2 {
		t.Errorf("certificate %d without its file", n)
	}
	certFile, keyFile = dnstest.Certificate(t, dir, 3)
	later(t, certFile, keyFile)
	if n := serial(); n != 3 {
		t.Errorf("certificate %d, want the new one", n)
	}
}

// later gives files another time: the clock of a file system may be coarse.
func later(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		info, err := os.Stat(f)
		if err == nil {
			err = os.Chtimes(f, time.Time{}, info.ModTime().Add(time.Second))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestNoCertificate refuses files that are no certificate with its key.
func TestNoCertificate(t *testing.T) {
	certFile, keyFile := dnstest.Certificate(t, t.TempDir(), 1)
	other, _ := dnstest.Certificate(t, t.TempDir(), 2)
	var c dns.Certificate
	for _, files := range [][2]string{{certFile + "x", keyFile}, {certFile, keyFile + "x"}, {other, keyFile}, {keyFile, keyFile}} {
		if err := c.Use(files[0], files[1]); err == nil || !strings.Contains(err.Error(), "dns.tls_certificate") {
			t.Errorf("%v: error %v", files, err)
		}
	}
}
