package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sluice/config/topology"
)

// changing is a control.Source whose topology is another at each load.
type changing struct {
	mu   sync.Mutex
	next func() (*topology.Topology, error)
}

func (c *changing) Load(context.Context) (*topology.Topology, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next()
}

func (c *changing) set(t *topology.Topology, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = func() (*topology.Topology, error) { return t, err }
}

// reloadBed is a bed whose topology can be changed while it runs. Its backend has a second address.
type reloadBed struct {
	*bed
	source changing
	done   uint64
	failed uint64
}

const firstEndpoint, secondEndpoint = "198.18.1.11", "198.18.1.12"

func newReloadBed(t *testing.T, first *topology.Topology) *reloadBed {
	b := &reloadBed{bed: newBed(t)}
	b.check(b.backend.Addr("eth0", secondEndpoint+"/24"))
	first.Gateway.Admin = b.topology.Gateway.Admin
	b.topology = first
	b.source.set(first, nil)
	b.bed.source = &b.source
	b.run()
	return b
}

// apply has a topology loaded, and waits until the appliance has said what came of it.
func (b *reloadBed) apply(t *topology.Topology, err error) (applied bool) {
	b.t.Helper()
	if t != nil {
		t.Gateway.Admin = b.topology.Gateway.Admin
	}
	b.source.set(t, err)
	b.bed.reload <- unix.SIGHUP
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		s, err := b.admin.Stats(context.Background())
		b.check(err)
		if r := s.Reloads; r.Done != b.done || r.Failed != b.failed {
			applied = r.Done != b.done
			b.done, b.failed = r.Done, r.Failed
			return applied
		}
		if time.Now().After(end) {
			b.t.Fatalf("not reloaded\n%s", b.log)
		}
	}
}

// endpoints is the test topology with other IPv4 endpoints, which resets the connections of those that leave, or not.
func endpoints(reset bool, list ...string) *topology.Topology {
	t := testTopology("")
	t.Services[0].RemovedReset = reset
	t.Services[0].Endpoints = t.Services[0].Endpoints[1:]
	for _, a := range list {
		t.Services[0].Endpoints = append(t.Services[0].Endpoints, topology.Endpoint{Address: netip.MustParseAddr(a),
			Ports: map[string]uint16{"echo": 7007}, Ready: true, Serving: true, Weight: 1})
	}
	return t
}

// serveOn accepts connections on an address of the backend, says which, and echoes. What its reads end with goes to ended.
func (b *reloadBed) serveOn(addr string) (ended chan error) {
	ended = make(chan error, 16)
	var l net.Listener
	b.check(b.backend.Do(func() (err error) { l, err = net.Listen("tcp4", addr+":7007"); return err }))
	b.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				fmt.Fprintln(c, addr)
				_, err := io.Copy(c, c)
				ended <- err
			}()
		}
	}()
	return ended
}

// dial connects to the service, and returns the endpoint that has answered.
func (b *reloadBed) dial() (c net.Conn, endpoint string) {
	b.t.Helper()
	b.check(b.client.Do(func() (err error) { c, err = net.DialTimeout("tcp", "198.19.0.20:7", 3*time.Second); return err }))
	b.t.Cleanup(func() { c.Close() })
	b.check(c.SetDeadline(time.Now().Add(10 * time.Second)))
	_, err := fmt.Fscanln(c, &endpoint)
	b.check(err)
	return c, endpoint
}

// talk sends a line and expects it back.
func talk(c net.Conn) error {
	if _, err := fmt.Fprintln(c, "hello"); err != nil {
		return err
	}
	var line string
	_, err := fmt.Fscanln(c, &line)
	return err
}

// TestReloadRemovesAnEndpoint under a connection that its client keeps open: it goes on, or both ends' kernels
// take it for reset. New connections go to the other endpoint.
func TestReloadRemovesAnEndpoint(t *testing.T) {
	for _, tc := range []struct {
		name  string
		reset bool
	}{{"drain", false}, {"reset", true}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newReloadBed(t, endpoints(tc.reset, firstEndpoint))
			ended := b.serveOn(firstEndpoint)
			b.serveOn(secondEndpoint)
			conn, endpoint := b.dial()
			b.check(talk(conn))
			if endpoint != firstEndpoint {
				t.Fatalf("connected to %s", endpoint)
			}
			if !b.apply(endpoints(tc.reset, secondEndpoint), nil) {
				t.Fatalf("refused\n%s", b.log)
			}
			err := talk(conn)
			if tc.reset {
				if !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("client: %v, want reset", err)
				}
				select {
				case err := <-ended:
					if !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("server: %v, want reset", err)
					}
				case <-time.After(10 * time.Second):
					t.Error("the server has not been told")
				}
			} else if err != nil {
				t.Errorf("the connection does not go on: %v", err)
			}
			if _, endpoint := b.dial(); endpoint != secondEndpoint {
				t.Errorf("a new connection goes to %s", endpoint)
			}
			if want := "services_changed=0 endpoints_added=1 endpoints_removed=1"; !strings.Contains(b.log.String(), want) {
				t.Errorf("no %q in the log\n%s", want, b.log)
			}
			b.stop()
		})
	}
}

// TestReloadOfADeletedServiceResets: its address is nobody's any longer, and its connections are still ours to end.
func TestReloadOfADeletedServiceResets(t *testing.T) {
	first := endpoints(true, firstEndpoint)
	first.Services[0].Type, first.Services[0].LoadBalancerIPs = topology.LoadBalancer, []netip.Addr{netip.MustParseAddr("198.19.200.20")}
	b := newReloadBed(t, first)
	b.serveOn(firstEndpoint)
	var conn net.Conn
	b.check(b.client.Do(func() (err error) { conn, err = net.DialTimeout("tcp", "198.19.200.20:7", 3*time.Second); return err }))
	defer conn.Close()
	b.check(conn.SetDeadline(time.Now().Add(10 * time.Second)))
	var endpoint string
	_, err := fmt.Fscanln(conn, &endpoint)
	b.check(err)
	next := testTopology("")
	next.Services = nil
	if !b.apply(next, nil) {
		t.Fatalf("refused\n%s", b.log)
	}
	if err := talk(conn); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%v, want reset", err)
	}
	b.stop()
}

// TestReloadRefuses what cannot be loaded or changed while running, says so in the log, counts it, and serves on.
func TestReloadRefuses(t *testing.T) {
	b := newReloadBed(t, endpoints(false, firstEndpoint))
	b.serveOn(firstEndpoint)
	other := endpoints(false, secondEndpoint)
	other.Gateway.Queues, other.Conntrack.MaxFlows = 3, 1
	if b.apply(nil, errors.New("web.toml:3: service[0].nmae: unknown key\nweb.toml:9: another")) || b.apply(other, nil) {
		t.Fatal("a topology with faults is in use")
	}
	for _, want := range []string{"level=ERROR", `error="web.toml:3: service[0].nmae: unknown key"`, `error="web.toml:9: another"`,
		"gateway.queues: 0 is in use, and 3 is asked for", "conntrack.max_flows: 4096 is in use, and 1 is asked for"} {
		if !strings.Contains(b.log.String(), want) {
			t.Errorf("no %q in the log\n%s", want, b.log)
		}
	}
	if b.failed != 2 || b.done != 0 {
		t.Errorf("%d failed, %d done", b.failed, b.done)
	}
	if _, endpoint := b.dial(); endpoint != firstEndpoint {
		t.Errorf("connected to %s", endpoint)
	}
	s, err := b.admin.Stats(context.Background())
	b.check(err)
	if s.Generation != 1 {
		t.Errorf("generation %d", s.Generation)
	}
	if !b.apply(endpoints(false, secondEndpoint), nil) {
		t.Errorf("refused when right again\n%s", b.log)
	}
	b.stop()
}
