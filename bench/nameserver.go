package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/bench/traffic"
	"sluice/xdp/lab"
)

// NameServer is one contender of the comparison of DNS servers.
type NameServer struct {
	Name string
	// limit: it is no server but what a server is measured against, and nothing that it says is looked at.
	limit bool
	// start puts it on the gateway and returns how to take it off; process is nil when it has none.
	start func(*Bed, *Names) (process *lab.Process, stop func() error, err error)
}

// The names of the contenders that others are compared with.
const (
	nameSink    = "sink"
	nameCoreDNS = "coredns"
	nameNSD     = "nsd"
)

// Limits returns what is no server: a sink, which never answers, and an echo, in XDP and behind AF_XDP.
func Limits() []NameServer {
	attached := func(attach func(b *Bed) (*traffic.Attachment, error)) func(*Bed, *Names) (*lab.Process, func() error, error) {
		return func(b *Bed, _ *Names) (*lab.Process, func() error, error) {
			a, err := attach(b)
			if err != nil {
				return nil, nil, err
			}
			return nil, a.Close, nil
		}
	}
	return []NameServer{
		{nameSink, true, attached(func(b *Bed) (*traffic.Attachment, error) { return traffic.NewSink(b.Gateway, b.Front.Index, dnsPort) })},
		{"xdp-echo", true, attached(func(b *Bed) (*traffic.Attachment, error) { return traffic.NewEcho(b.Gateway, b.Front.Index, dnsPort) })},
		AFXDPEcho(),
	}
}

// SluiceRun returns the contender that answers from the ring: "sluice run", the whole appliance.
func SluiceRun(binary string) NameServer {
	return NameServer{"sluice-run", false, func(b *Bed, n *Names) (*lab.Process, func() error, error) {
		path, err := n.write("run.toml", n.topology(gateway(filepath.Join(n.dir, "admin.sock")), ""))
		if err != nil {
			return nil, nil, err
		}
		return b.serve(n, binary, "run", "-c", path)
	}}
}

// SluiceDNS returns the contender that answers on sockets: "sluice dns".
func SluiceDNS(binary string) NameServer {
	return NameServer{"sluice-dns", false, func(b *Bed, n *Names) (*lab.Process, func() error, error) {
		path, err := n.write("dns.toml", n.topology("", ""))
		if err != nil {
			return nil, nil, err
		}
		return b.serveLocal(n, binary, "dns", "-c", path, "--listen", dnsServer().String())
	}}
}

// serveLocal starts a server that wants its address on an interface.
func (b *Bed) serveLocal(n *Names, name string, args ...string) (*lab.Process, func() error, error) {
	if err := b.Gateway.Addr("lo", dnsAddr+"/32"); err != nil {
		return nil, nil, err
	}
	return b.serve(n, name, args...)
}

// serve starts a server on the gateway, waits until it answers, and holds its answers to what is right.
func (b *Bed) serve(n *Names, name string, args ...string) (*lab.Process, func() error, error) {
	if err := b.gen.Route(dnsAddr+"/32", frontAddr); err != nil {
		return nil, nil, err
	}
	log := &lab.Buffer{}
	p, err := b.Gateway.Start(log, name, args...)
	if err != nil {
		return nil, nil, err
	}
	stop := func() error { return p.Stop(5 * time.Second) }
	err = b.gen.Do(func() error {
		conn, err := net.Dial("udp", dnsServer().String())
		if err != nil {
			return err
		}
		c := &mdns.Conn{Conn: conn, UDPSize: mdns.MaxMsgSize}
		if err = n.await(c, p.Done()); err == nil {
			err = n.check(c)
		}
		return errors.Join(err, c.Close())
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w\n%s", name, err, log), stop())
	}
	return p, stop, nil
}

// await asks until there is an answer.
func (n *Names) await(c *mdns.Conn, ended <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for last := error(nil); ; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("no answer within 20 s: %w", last)
		case <-ended:
			return errors.New("ended")
		case <-time.After(20 * time.Millisecond):
		}
		var reply *mdns.Msg
		if reply, last = exchange(c, n.questions[0].wire, 200*time.Millisecond); last == nil && reply.Rcode == n.questions[0].reply.Rcode {
			return nil
		}
	}
}

// exchange sends a query and waits for the reply to it; one to an earlier query is passed over.
func exchange(c *mdns.Conn, query []byte, patience time.Duration) (*mdns.Msg, error) {
	if _, err := c.Write(query); err != nil {
		return nil, err
	}
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	for {
		reply, err := c.ReadMsg()
		if err != nil || reply.Id == uint16(query[0])<<8|uint16(query[1]) {
			return reply, err
		}
	}
}

// checked is how many of the questions are asked one by one before a server is measured.
const checked = 512

// check asks some of the questions, and fails unless response codes and answers are those of the compiled zones. Authority and
// additional sections are left to the server.
func (n *Names) check(c *mdns.Conn) error {
	for i := range checked {
		q := &n.questions[i*(frames/checked)]
		reply, err := exchange(c, q.wire, 2*time.Second)
		if err != nil {
			return fmt.Errorf("%v: %w", q.reply.Question, err)
		}
		if got, want := answers(reply), answers(&q.reply); got != want {
			return fmt.Errorf("%v: got %s, want %s", q.reply.Question, got, want)
		}
	}
	return nil
}

// answers writes what has to be the same in the replies of all servers.
func answers(m *mdns.Msg) string {
	lines := []string{mdns.RcodeToString[m.Rcode]}
	for _, rr := range m.Answer {
		lines = append(lines, rr.String())
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}
