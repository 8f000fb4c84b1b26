package e2e

import (
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/dns/dnstest"
)

// TestDNSOverTLS asks the gateway's DNS address on port 853, and once more after a reload without the certificate, when the port is none
// of the service any more.
func TestDNSOverTLS(t *testing.T) {
	certFile, keyFile := dnstest.Certificate(t, t.TempDir(), 1)
	secure := fmt.Sprintf("[dns]\ntls_certificate = %q\ntls_key = %q\n", certFile, keyFile)
	n := start(t, setup{extra: ringDNS() + secure})
	ask := func(addr string) (reply *dns.Msg, err error) {
		err = n.client.Do(func() error {
			c := dns.Client{Net: "tcp-tls", Timeout: 3 * time.Second, TLSConfig: &tls.Config{InsecureSkipVerify: true}}
			reply, _, err = c.Exchange(new(dns.Msg).SetQuestion("web.shop.svc.cluster.local.", dns.TypeA), net.JoinHostPort(addr, "853"))
			return err
		})
		return reply, err
	}
	for _, addr := range []string{dns4, dns6} {
		reply, err := ask(addr)
		if err != nil || len(reply.Answer) != 1 || !reply.Authoritative {
			t.Errorf("%s: %v, %v", addr, reply, err)
		}
	}
	n.edit(func(text string) string { return strings.Replace(text, secure, "", 1) }, "msg=reloaded")
	for _, addr := range []string{dns4, dns6} {
		if reply, err := ask(addr); err == nil {
			t.Errorf("%s answers over TLS without a certificate: %v", addr, reply)
		}
	}
	n.edit(func(text string) string { return text + secure }, "msg=reloaded")
	if reply, err := ask(dns4); err != nil || len(reply.Answer) != 1 {
		t.Errorf("after the certificate came back: %v, %v", reply, err)
	}
}
