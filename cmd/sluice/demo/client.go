package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/miekg/dns"
)

// requestTimeout bounds one request of a client; a healthy one takes under a millisecond in the lab.
const requestTimeout = 2 * time.Second

// Tally is what a client saw: how often each backend answered, and what went wrong.
type Tally struct {
	Answers map[string]int `json:"answers"` // by backend name, or by record for DNS
	Failed  int            `json:"failed"`
	Error   string         `json:"error,omitempty"` // the last failure
	Millis  float64        `json:"millis"`          // wall time of the whole run
}

// Client sends count requests of a kind ("http", "udp", "dns-udp", "dns-tcp", "ping", "refused") to target, each on a new
// flow, and tallies the answers. For DNS, name is the question.
func Client(ctx context.Context, kind, target, name string, count int) (Tally, error) {
	request, err := requester(kind, target, name)
	if err != nil {
		return Tally{}, err
	}
	t := Tally{Answers: map[string]int{}}
	start := time.Now()
	for range count {
		if ctx.Err() != nil {
			return t, ctx.Err()
		}
		answers, err := request(ctx)
		if err != nil {
			t.Failed++
			t.Error = err.Error()
			continue
		}
		for _, a := range answers {
			t.Answers[a]++
		}
	}
	t.Millis = float64(time.Since(start).Microseconds()) / 1000
	return t, nil
}

// requester returns the function that makes one request of a kind and returns who or what answered.
func requester(kind, target, name string) (func(context.Context) ([]string, error), error) {
	switch kind {
	case "http":
		return func(ctx context.Context) ([]string, error) { return getHTTP(ctx, target) }, nil
	case "udp":
		return func(ctx context.Context) ([]string, error) { return getEcho(ctx, target) }, nil
	case "dns-udp", "dns-tcp":
		network := strings.TrimPrefix(kind, "dns-")
		return func(ctx context.Context) ([]string, error) { return getDNS(ctx, network, target, name) }, nil
	case "ping":
		return func(ctx context.Context) ([]string, error) { return ping(ctx, target) }, nil
	case "refused":
		return func(ctx context.Context) ([]string, error) { return getRefused(ctx, target) }, nil
	}
	return nil, fmt.Errorf("client kind %q: must be http, udp, dns-udp, dns-tcp, ping or refused", kind)
}

// getHTTP fetches / over a connection of its own and returns the body.
func getHTTP(ctx context.Context, target string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+target+"/", nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, Proxy: nil}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("status %s", resp.Status)
	}
	return []string{strings.TrimSpace(string(body))}, nil
}

// getEcho sends one datagram from a new port and returns the name in front of the echo.
func getEcho(ctx context.Context, target string) ([]string, error) {
	const payload = "a datagram of odd size."
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", target)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return nil, err
	}
	if _, err := conn.Write([]byte(payload)); err != nil {
		return nil, err
	}
	buf := make([]byte, 256)
	n, err := conn.Read(buf)
	if err != nil {
		return nil, err
	}
	name, echo, _ := strings.Cut(string(buf[:n]), " ")
	if echo != payload {
		return nil, fmt.Errorf("echo is %q, sent %q", echo, payload)
	}
	return []string{name}, nil
}

// getDNS asks for the A records of name, or for its AAAA records when it has the suffix "/AAAA", and returns the data of
// the answers.
func getDNS(ctx context.Context, network, target, name string) ([]string, error) {
	qname, qtype, found := strings.Cut(name, "/")
	if !found {
		qtype = "A"
	}
	m := new(dns.Msg)
	m.SetQuestion(dns.Fqdn(qname), dns.StringToType[qtype])
	client := dns.Client{Net: network, Timeout: requestTimeout}
	reply, _, err := client.ExchangeContext(ctx, m, target)
	if err != nil {
		return nil, err
	}
	if reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
		return nil, fmt.Errorf("%s with %d answers", dns.RcodeToString[reply.Rcode], len(reply.Answer))
	}
	var data []string
	for _, rr := range reply.Answer {
		data = append(data, strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return data, nil
}

// getRefused connects and expects to be refused at once, as a service without endpoints must do.
func getRefused(ctx context.Context, target string) ([]string, error) {
	d := net.Dialer{Timeout: requestTimeout}
	conn, err := d.DialContext(ctx, "tcp", target)
	if err == nil {
		conn.Close()
		return nil, errors.New("connected, should be refused")
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, err
	}
	return []string{"refused"}, nil
}
