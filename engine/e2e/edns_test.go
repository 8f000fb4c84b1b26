package e2e

import (
	"strings"
	"testing"

	"github.com/miekg/dns"
)

// ednsCheck is a query by dig for the SOA of the zone, and what its output has to contain, and must not. Every check is for what is
// asked for by the EDNS compliance tests of ISC (https://ednscomp.isc.org/), in its names.
type ednsCheck struct {
	name, options string
	want          []string
	never         []string
}

const (
	plainDig = "+noedns +noad +norec "
	soaLine  = "\tSOA\tns.dns.cluster.local."
	noError  = "status: NOERROR"
	badVers  = "status: BADVERS"
	version0 = "EDNS: version: 0,"
	// goodCookie is what dig says of a cookie that begins with its own part.
	goodCookie = " (good)"
)

func ednsChecks() []ednsCheck {
	answered := []string{noError, "flags: qr aa", soaLine}
	withOPT := append([]string{version0, "udp: 1232"}, answered...)
	refused := []string{badVers, version0}
	return []ednsCheck{
		{"dns", plainDig, answered, []string{"EDNS:"}},
		{"aa", plainDig + "+aaflag", answered, nil},
		{"ad", "+noedns +norec +adflag", answered, []string{" ad;", " ad "}},
		{"cd", plainDig + "+cdflag", append([]string{" cd"}, answered...), nil},
		{"ra", plainDig + "+raflag", answered, []string{" ra;", " ra "}},
		{"rd", "+noedns +noad +rec", append([]string{" rd"}, answered...), []string{" ra;", " ra "}},
		{"tc", plainDig + "+tcflag", answered, []string{" tc;", " tc "}},
		{"zflag", plainDig + "+zflag", answered, []string{"MBZ"}},
		{"opcode", plainDig + "+header-only +opcode=15", []string{"opcode: RESERVED15, status: NOTIMP"}, []string{soaLine}},
		{"opcodeflg", "+noedns +rec +adflag +cdflag +aaflag +raflag +header-only +opcode=15", []string{"opcode: RESERVED15, status: NOTIMP"}, []string{soaLine}},
		{"type666", plainDig + "-t TYPE666", []string{noError, "ANSWER: 0, AUTHORITY: 1"}, nil},
		{"tcp", plainDig + "+tcp", answered, []string{"EDNS:"}},
		{"edns", "+edns=0 +nocookie +norec", withOPT, nil},
		{"edns1", "+edns=1 +noednsnegotiation +nocookie +norec", refused, []string{soaLine}},
		{"ednsopt", "+edns=0 +nocookie +norec +ednsopt=100", withOPT, []string{"OPT=100"}},
		{"edns1opt", "+edns=1 +noednsnegotiation +nocookie +norec +ednsopt=100", refused, []string{soaLine, "OPT=100"}},
		{"do", "+edns=0 +nocookie +norec +dnssec", append([]string{"flags: do;"}, withOPT...), nil},
		{"edns1do", "+edns=1 +noednsnegotiation +nocookie +norec +dnssec", refused, []string{soaLine}},
		{"ednsflags", "+edns=0 +nocookie +norec +ednsflags=0x40", withOPT, []string{"MBZ"}},
		{"edns1flags", "+edns=1 +noednsnegotiation +nocookie +norec +ednsflags=0x40", refused, []string{soaLine, "MBZ"}},
		{"edns512", "+edns=0 +nocookie +norec +dnssec +bufsize=512", withOPT, []string{" tc;", " tc "}},
		{"edns512tcp", "+edns=0 +nocookie +norec +dnssec +bufsize=512 +tcp", withOPT, nil},
		{"nsid", "+edns=0 +nocookie +norec +nsid", withOPT, []string{"NSID"}},
		{"expire", "+edns=0 +nocookie +norec +expire", withOPT, []string{"EXPIRE"}},
		{"subnet", "+edns=0 +nocookie +norec +subnet=0.0.0.0/0", withOPT, []string{"CLIENT-SUBNET"}},
		{"keepalive", "+edns=0 +nocookie +norec +keepalive +tcp", append([]string{"TCP KEEPALIVE: 10.0 secs"}, withOPT...), nil},
		{"keepaliveudp", "+edns=0 +nocookie +norec +keepalive", withOPT, []string{"KEEPALIVE"}},
		{"padding", "+edns=0 +nocookie +norec +padding=128", withOPT, []string{"PAD"}},
		{"ednstcp", "+edns=0 +nocookie +norec +tcp", withOPT, nil},
		{"optlist", "+edns=0 +norec +nsid +cookie +expire +subnet=0.0.0.0/0", append([]string{goodCookie}, withOPT...), []string{"NSID", "EXPIRE", "CLIENT-SUBNET"}},
		{"cookie", "+edns=0 +norec +cookie=0102030405060708", append([]string{"COOKIE: 0102030405060708", goodCookie}, withOPT...), nil},
		{"cookietcp", "+edns=0 +norec +cookie +tcp", append([]string{goodCookie}, withOPT...), nil},
		{"badcookie", "+edns=0 +norec +cookie=01020304050607080100000000000000", append([]string{goodCookie}, withOPT...), []string{"BADCOOKIE"}},
		{"onlycookie", "+edns=0 +norec +cookie +header-only", []string{noError, goodCookie, "QUERY: 0, ANSWER: 0, AUTHORITY: 0, ADDITIONAL: 1"}, nil},
	}
}

// TestEDNSCompliance asks the gateway by dig from another host: by UDP it is the ring that answers.
func TestEDNSCompliance(t *testing.T) {
	n := start(t, setup{extra: ringDNS()})
	for _, addr := range []string{dns4, dns6} {
		for _, c := range ednsChecks() {
			args := append([]string{"+tries=1", "+time=3", "+nottlunits", "@" + addr, "cluster.local."}, strings.Fields(c.options)...)
			if !strings.Contains(c.options, "-t ") {
				args = append(args, "SOA")
			}
			out := n.command(n.client, "dig", args...)
			for _, want := range c.want {
				if !strings.Contains(out, want) {
					t.Errorf("%s at %s: no %q in\n%s", c.name, addr, want, out)
				}
			}
			for _, never := range c.never {
				if strings.Contains(out, never) {
					t.Errorf("%s at %s: %q in\n%s", c.name, addr, never, out)
				}
			}
		}
	}
}

// TestCookieSecrets replaces the secret of cookies while the gateway runs: by UDP, from the ring, and by TCP what was given is good as
// long as the secret that it was made by is there.
func TestCookieSecrets(t *testing.T) {
	const first, second = `"000102030405060708090a0b0c0d0e0f"`, `"f0e0d0c0b0a090807060504030201000"`
	n := start(t, setup{extra: ringDNS() + "\n[dns]\ncookie_secrets = [" + first + "]\n"})
	// ask sends nothing but a cookie, and returns the one of the reply.
	ask := func(network, addr, cookie string) (rcode int, got string) {
		q := []byte{0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 41, 4, 208, 0, 0, 0, 0, 0, byte(4 + len(cookie)), 0, 10, 0, byte(len(cookie))}
		var m dns.Msg
		reply := n.ask53(network, addr, append(q, cookie...))
		n.check(m.Unpack(reply))
		return m.Rcode, string(reply[len(reply)-24:])
	}
	given := map[string]string{}
	for _, addr := range []string{dns4, dns6} {
		_, given[addr] = ask("udp", addr, "12345678")
	}
	for _, tt := range []struct {
		secrets string
		rcode   int
	}{{first, dns.RcodeSuccess}, {first + ", " + second, dns.RcodeSuccess}, {second + ", " + first, dns.RcodeSuccess}, {second, dns.RcodeBadCookie}, {"", dns.RcodeBadCookie}} {
		n.edit(func(text string) string {
			return text[:strings.LastIndex(text, "cookie_secrets")] + "cookie_secrets = [" + tt.secrets + "]\n"
		}, "reloaded")
		for addr, cookie := range given {
			for _, network := range []string{"udp", "tcp"} {
				if rcode, _ := ask(network, addr, cookie); rcode != tt.rcode {
					t.Errorf("secrets %s: code %d by %s from %s", tt.secrets, rcode, network, addr)
				}
			}
		}
	}
}
