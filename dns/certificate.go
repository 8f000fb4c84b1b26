package dns

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// Certificate is that of DNS over TLS, in two PEM files. They are read again when they have changed; as long as what is in them is
// no certificate with its key, the one from before stays in use. There is none until Use is called.
//
// Concurrency: all methods may be called by any goroutine.
type Certificate struct {
	Log *slog.Logger

	mu                sync.Mutex
	certFile, keyFile string
	current           *tls.Certificate
	read              [2]fileState // of what current was read from, or was tried to
}

// fileState tells one version of a file from another.
type fileState struct {
	modified time.Time
	size     int64
}

// Use takes the certificate and its key from other files, or from the same. On an error everything stays as it was.
func (c *Certificate) Use(certFile, keyFile string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	read, err := states(certFile, keyFile)
	var next *tls.Certificate
	if err == nil {
		next, err = load(certFile, keyFile)
	}
	if err != nil {
		return fmt.Errorf("dns.tls_certificate and dns.tls_key: %w", err)
	}
	c.certFile, c.keyFile, c.read, c.current = certFile, keyFile, read, next
	return nil
}

func load(certFile, keyFile string) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("reading %s and %s: %w", certFile, keyFile, err)
	}
	return &pair, nil
}

// states looks at files.
func states(certFile, keyFile string) (out [2]fileState, err error) {
	for i, name := range []string{certFile, keyFile} {
		info, statErr := os.Stat(name)
		if statErr != nil {
			err = errors.Join(err, statErr)
			continue
		}
		out[i] = fileState{info.ModTime(), info.Size()}
	}
	return out, err
}

// get returns the certificate as it is now. To look at the files is little beside a handshake.
func (c *Certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now, err := states(c.certFile, c.keyFile)
	if now == c.read {
		return c.current, nil
	}
	c.read = now
	var next *tls.Certificate
	if err == nil {
		next, err = load(c.certFile, c.keyFile)
	}
	if err != nil { // said once for each version of the files
		c.Log.Error("the certificate of DNS over TLS has changed and is not good: the one from before stays in use", "error", err)
		return c.current, nil
	}
	c.Log.Info("the certificate of DNS over TLS was read again", "file", c.certFile)
	c.current = next
	return next, nil
}

// config returns what a server needs (RFC 7858; TLS 1.2 at least, RFC 8310 section 8 by RFC 9325).
func (c *Certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"dot"}, GetCertificate: c.get}
}
