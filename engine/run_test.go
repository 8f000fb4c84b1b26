package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/engine"
	"sluice/engine/admin"
	"sluice/engine/control"
	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// fixed is a control.Source of one topology.
type fixed struct {
	t   *topology.Topology
	err error
}

func (f fixed) Load(context.Context) (*topology.Topology, error) { return f.t, f.err }

// bed is a client, a gateway and a backend in a row.
type bed struct {
	t                   *testing.T
	client, gw, backend *lab.Host
	topology            *topology.Topology
	source              control.Source // nil: topology, for good
	reload              chan os.Signal
	admin               *admin.Client
	cancel              context.CancelFunc
	ended               chan error
	log                 *lab.Buffer
}

func (b *bed) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.log)
	}
}

func newBed(t *testing.T) *bed {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	b := &bed{t: t, log: &lab.Buffer{}, ended: make(chan error, 1), reload: make(chan os.Signal)}
	var err error
	b.client, err = l.Host("client")
	b.check(err)
	b.gw, err = l.Host("gateway")
	b.check(err)
	b.backend, err = l.Host("backend")
	b.check(err)
	b.check(l.Link(lab.End{Host: b.client, Name: "eth0"}, lab.End{Host: b.gw, Name: "front"}, lab.LinkOptions{}))
	b.check(l.Link(lab.End{Host: b.gw, Name: "back"}, lab.End{Host: b.backend, Name: "eth0"}, lab.LinkOptions{}))
	b.check(b.client.Addr("eth0", "198.18.0.50/24", "2001:db8:a::50/64"))
	b.check(b.gw.Addr("front", "198.18.0.1/24", "2001:db8:a::1/64"))
	b.check(b.gw.Addr("back", "198.18.1.1/24", "2001:db8:b::1/64"))
	b.check(b.backend.Addr("eth0", "198.18.1.11/24", "2001:db8:b::11/64"))
	b.check(b.client.Route("198.19.0.0/16", "198.18.0.1"))
	b.check(b.client.Route("2001:db8:96::/112", "2001:db8:a::1"))
	socket := filepath.Join(t.TempDir(), "admin.sock")
	b.topology, b.admin = testTopology(socket), admin.NewClient(socket)
	return b
}

// testTopology has one dual-stack service that masquerades everything.
func testTopology(socket string) *topology.Topology {
	addrs := func(list ...string) (out []netip.Addr) {
		for _, a := range list {
			out = append(out, netip.MustParseAddr(a))
		}
		return out
	}
	local := addrs("198.18.1.1", "2001:db8:b::1")
	endpoint := func(a string) topology.Endpoint {
		return topology.Endpoint{Address: netip.MustParseAddr(a), Ports: map[string]uint16{"echo": 7007}, Ready: true, Serving: true, Weight: 1}
	}
	return &topology.Topology{
		Gateway: topology.Gateway{
			Node: "gw", Interfaces: []string{"front", "back"}, Driver: "afxdp", XDPMode: "auto", Checksum: "auto",
			SNATAddresses: local, SNATPorts: topology.PortRange{First: 32768, Last: 60999}, MasqueradeAll: true,
			NodePortAddresses: local, LocalAddresses: local, Admin: socket,
		},
		Cluster: topology.Cluster{
			ServiceCIDRs:  []netip.Prefix{netip.MustParsePrefix("198.19.0.0/17"), netip.MustParsePrefix("2001:db8:96::/112")},
			NodePortRange: topology.PortRange{First: 30000, Last: 32767},
		},
		Conntrack: topology.Conntrack{MaxFlows: 4096, Timeouts: topology.DefaultTimeouts()},
		Services: []topology.Service{{
			Namespace: "shop", Name: "echo", Type: topology.ClusterIP, ClusterIPs: addrs("198.19.0.20", "2001:db8:96::20"),
			ExternalTrafficPolicy: topology.PolicyCluster, InternalTrafficPolicy: topology.PolicyCluster,
			Ports:     []topology.Port{{Name: "echo", Protocol: topology.TCP, Port: 7, TargetPort: 7007}},
			Endpoints: []topology.Endpoint{endpoint("198.18.1.11"), endpoint("2001:db8:b::11")},
		}},
	}
}

// run starts the appliance and waits until it is ready.
func (b *bed) run() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	o := engine.Options{Source: b.source, Log: slog.New(slog.NewTextHandler(b.log, nil)), Reload: b.reload}
	if o.Source == nil {
		o.Source = fixed{t: b.topology}
	}
	go func() { b.ended <- b.gw.Do(func() error { return engine.Run(ctx, o) }) }()
	b.t.Cleanup(cancel)
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := b.admin.Stats(ctx); err == nil {
			return
		}
		select {
		case err := <-b.ended:
			b.t.Fatalf("ended: %v\n%s", err, b.log)
		default:
		}
		if time.Now().After(end) {
			b.t.Fatalf("not ready\n%s", b.log)
		}
	}
}

// stop ends the appliance and expects that it leaves nothing behind.
func (b *bed) stop() {
	b.t.Helper()
	b.cancel()
	select {
	case err := <-b.ended:
		b.check(err)
	case <-time.After(5 * time.Second):
		b.t.Fatalf("does not end\n%s", b.log)
	}
	out, err := b.gw.Output(context.Background(), "ip", "-d", "link", "show")
	b.check(err)
	if strings.Contains(string(out), "xdp") || strings.Contains(string(out), "slp") {
		b.t.Errorf("left behind:\n%s", out)
	}
}

// echo sends a message to addr from the client and expects it back.
func (b *bed) echo(addr string) error {
	var c net.Conn
	err := b.client.Do(func() (err error) { c, err = net.DialTimeout("tcp", addr, 3*time.Second); return err })
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	if _, err := fmt.Fprint(c, "hello"); err != nil {
		return err
	}
	buf := make([]byte, 5)
	if _, err := io.ReadFull(c, buf); err != nil || string(buf) != "hello" {
		return fmt.Errorf("%q, %w", buf, err)
	}
	return nil
}

// serve echoes on the backend.
func (b *bed) serve() {
	var l net.Listener
	b.check(b.backend.Do(func() (err error) { l, err = net.Listen("tcp", "[::]:7007"); return err }))
	b.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c) // ends with the client
			}()
		}
	}()
}

func TestRun(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			b := newBed(t)
			b.topology.Gateway.XDPMode = mode
			b.serve()
			b.run()
			for range 3 {
				b.check(b.echo("198.19.0.20:7"))
				b.check(b.echo("[2001:db8:96::20]:7"))
			}
			if err := b.echo("198.19.0.20:8"); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("unknown port: %v, want connection refused", err)
			}
			s, err := b.admin.Stats(context.Background())
			b.check(err)
			// The first packet of a flow is counted as what it waited for, if its neighbour was not known yet.
			if s.Packets["clusterip"]+s.Packets["neighbour_resolved"] < 6 || s.Packets["established"] < 12 || s.Packets["unknown_port"] < 1 {
				t.Errorf("packets %v", s.Packets)
			}
			if s.Workers != 1 || len(s.Sockets) != 2 || s.Conntrack.Inserted != 6 || s.Memory.Resident == 0 {
				t.Errorf("stats %+v", s)
			}
			if len(s.Attached) != 2 || string(s.Attached[0].Mode) != mode {
				t.Errorf("attached %+v", s.Attached)
			}
			b.stop()
		})
	}
}

// TestRunIdle measures what the appliance costs with nothing to do.
func TestRunIdle(t *testing.T) {
	b := newBed(t)
	b.run()
	time.Sleep(500 * time.Millisecond)
	cpu := func() time.Duration {
		var u syscall.Rusage
		b.check(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const period = 3 * time.Second
	before := cpu()
	time.Sleep(period)
	share := float64(cpu()-before) / float64(period)
	t.Logf("idle: %.2f %% of a processor", 100*share)
	if share > 0.02 {
		t.Errorf("idle costs %.1f %% of a processor, want less than 2 %%", 100*share)
	}
	b.stop()
}

func TestRunRefuses(t *testing.T) {
	labtest.NeedRoot(t)
	for _, tc := range []struct {
		name string
		edit func(*topology.Topology)
		want []string
	}{
		{"no interface", func(t *topology.Topology) { t.Gateway.Interfaces = nil }, []string{"gateway.interfaces is empty"}},
		{"all missing ones", func(t *topology.Topology) { t.Gateway.Interfaces = []string{"front", "nope0", "nope1"} },
			[]string{"nope0", "nope1"}},
		{"loopback", func(t *topology.Topology) { t.Gateway.Interfaces = []string{"lo"} }, []string{"loopback"}},
		{"metrics address", func(t *topology.Topology) { t.Gateway.Metrics = "198.18.0.77:1" }, []string{"gateway.metrics"}},
		{"checksum mode", func(t *topology.Topology) { t.Gateway.Checksum = "magic" }, []string{"magic"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			tc.edit(b.topology)
			err := b.gw.Do(func() error {
				return engine.Run(context.Background(), engine.Options{Source: fixed{t: b.topology}, Log: slog.New(slog.DiscardHandler)})
			})
			if err == nil {
				t.Fatal("runs")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in %q", want, err)
				}
			}
			b.cancel, b.ended = func() {}, make(chan error, 1)
			b.ended <- nil
			b.stop()
		})
	}
	faults := errors.New("line 3: wrong")
	if err := engine.Run(context.Background(), engine.Options{Source: fixed{err: faults}}); !errors.Is(err, faults) {
		t.Errorf("error of the source: %v", err)
	}
}

// TestRunSurvivesLinkDown takes the backend's link down and up again.
func TestRunSurvivesLinkDown(t *testing.T) {
	b := newBed(t)
	b.serve()
	b.run()
	b.check(b.echo("198.19.0.20:7"))
	b.check(b.gw.Down("back"))
	if err := b.echo("198.19.0.20:7"); err == nil {
		t.Error("an answer without a link")
	}
	b.check(b.gw.Up("back"))
	for end := time.Now().Add(10 * time.Second); ; {
		err := b.echo("198.19.0.20:7")
		if err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("no answer after the link came back: %v\n%s", err, b.log)
		}
	}
	b.stop()
}
