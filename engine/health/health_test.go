package health

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/config/topology"
)

func TestTracker(t *testing.T) {
	for _, tc := range []struct {
		name       string
		rise, fall int
		results    string // F and S
		want       string // state after each: u or d
	}{
		{"down after three failures", 2, 3, "FFF", "uud"},
		{"flapping never goes down", 2, 3, "FSFSFSFS", "uuuuuuuu"},
		{"two failures and a success start over", 2, 3, "FFSFFSFFF", "uuuuuuuud"},
		{"up after two successes", 2, 1, "FSS", "ddu"},
		{"a failure on the way up starts over", 2, 1, "FSFSS", "ddddu"},
		{"fall 1, rise 1", 1, 1, "FSFS", "dudu"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := tracker{state: State{Up: true}}
			got := ""
			for i, r := range tc.results {
				var err error
				if r == 'F' {
					err = fmt.Errorf("failure %d", i)
				}
				before := tr.state.Up
				changed := tr.result(err, time.Unix(int64(i), 0), tc.rise, tc.fall)
				if changed != (tr.state.Up != before) {
					t.Errorf("result %d: changed is %v", i, changed)
				}
				got += map[bool]string{true: "u", false: "d"}[tr.state.Up]
			}
			if got != tc.want {
				t.Errorf("states %s, want %s", got, tc.want)
			}
			if strings.Contains(tc.results, "F") && !strings.HasPrefix(tr.state.Reason, "failure") {
				t.Error("the reason of the last failure is not kept")
			}
		})
	}
}

// listen returns the address of a local listener that handle gets the connections of.
func listen(t *testing.T, handle func(net.Conn)) netip.AddrPort {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go handle(c)
		}
	}()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// refused is a local address where nothing listens.
func refused(t *testing.T) netip.AddrPort {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func TestCheckers(t *testing.T) {
	silent := func(c net.Conn) { time.Sleep(5 * time.Second); c.Close() }
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
		case "/redirect":
			http.Redirect(w, r, "/bad", http.StatusFound)
		case "/long":
			w.Write(make([]byte, 10*maxBody))
		default:
			http.Error(w, "no", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	const anyReason = "*" // it depends on when the connection ends
	web := netip.MustParseAddrPort(server.Listener.Addr().String())
	for _, tc := range []struct {
		name, kind, path string
		address          netip.AddrPort
		want             string // part of the reason, "" for well
	}{
		{"tcp accepts", "tcp", "", web, ""},
		{"tcp refuses", "tcp", "", refused(t), "connection refused"},
		{"http 200", "http", "/ok", web, ""},
		{"http redirect is an answer", "http", "/redirect", web, ""},
		{"http long body", "http", "/long", web, ""},
		{"http 503", "http", "/bad", web, "503"},
		{"http refuses", "http", "/ok", refused(t), "connection refused"},
		{"http silent", "http", "/ok", listen(t, silent), "timeout"},
		{"http hangs up", "http", "/ok", listen(t, func(c net.Conn) { c.Close() }), anyReason},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			defer cancel()
			target := &Target{Address: tc.address, Check: topology.HealthCheck{Path: tc.path}}
			err := checkers(topology.PortRange{})[tc.kind].Check(ctx, target)
			if tc.want == anyReason && err != nil {
				return
			}
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// TestMonitor takes a server down and up again, and watches the monitor find out.
func TestMonitor(t *testing.T) {
	var broken atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if broken.Load() {
			http.Error(w, "broken", http.StatusInternalServerError)
		}
	}))
	defer server.Close()
	changes := make(chan struct{}, 16)
	m := New(Options{OnChange: func() { changes <- struct{}{} }, Log: slog.New(slog.DiscardHandler)})
	address := netip.MustParseAddrPort(server.Listener.Addr().String())
	target := Target{Service: "shop/web", Port: "http", Address: address,
		Check: topology.HealthCheck{Type: "http", Path: "/", Interval: 20 * time.Millisecond, Timeout: 15 * time.Millisecond, Rise: 2, Fall: 2}}
	if err := m.SetTargets([]Target{target}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { m.Run(ctx); close(done) }()
	defer func() { cancel(); <-done }()

	expect := func(down bool) {
		t.Helper()
		select {
		case <-changes:
		case <-time.After(10 * time.Second):
			t.Fatal("no change within 10 s")
		}
		if m.Down("shop/web", "http", address) != down || m.Down("shop/web", "other", netip.AddrPortFrom(address.Addr(), 1)) != down {
			t.Errorf("down is not %v", down)
		}
	}
	broken.Store(true)
	expect(true)
	if s := m.States(); len(s) != 1 || s[0].Reason != "status 500 Internal Server Error" {
		t.Errorf("states: %+v", s)
	}
	// The same target again keeps its state.
	if err := m.SetTargets([]Target{target, {Service: "shop/other", Address: address, Check: target.Check}}); err != nil {
		t.Fatal(err)
	}
	if !m.Down("shop/web", "http", address) {
		t.Error("the state was lost when the targets were set again")
	}
	if err := m.SetTargets([]Target{target}); err != nil {
		t.Fatal(err)
	}
	broken.Store(false)
	expect(false)
	if m.Down("shop/unknown", "http", address) {
		t.Error("an endpoint that is not checked is down")
	}
	if err := m.SetTargets([]Target{{Check: topology.HealthCheck{Type: "dns"}}}); err == nil {
		t.Error("no error for an unknown type")
	}
}

func TestTargets(t *testing.T) {
	check := &topology.HealthCheck{Type: "tcp", Port: "web"}
	endpoint := func(addr string, ready, serving bool) topology.Endpoint {
		return topology.Endpoint{Address: netip.MustParseAddr(addr), Ports: map[string]uint16{"web": 8080}, Ready: ready, Serving: serving}
	}
	top := &topology.Topology{Services: []topology.Service{
		{Namespace: "shop", Name: "web", Type: topology.LoadBalancer, HealthCheck: check, Endpoints: []topology.Endpoint{
			endpoint("198.18.1.1", true, true), endpoint("198.18.1.2", false, true), endpoint("198.18.1.3", false, false),
			endpoint("198.18.1.1", true, true)}},
		{Namespace: "shop", Name: "unchecked", Type: topology.LoadBalancer, Endpoints: []topology.Endpoint{endpoint("198.18.1.1", true, true)}},
		{Namespace: "shop", Name: "internal", Type: topology.ClusterIP, HealthCheck: check, Endpoints: []topology.Endpoint{endpoint("198.18.1.1", true, true)}},
	}}
	var got []string
	for _, t := range Targets(top) {
		got = append(got, t.Service+" "+t.Address.String())
	}
	if want := "shop/web 198.18.1.1:8080, shop/web 198.18.1.2:8080"; strings.Join(got, ", ") != want {
		t.Errorf("targets %v, want %s", got, want)
	}
}

func TestOutsidePorts(t *testing.T) {
	r := func(a, b uint16) topology.PortRange { return topology.PortRange{First: a, Last: b} }
	for _, tc := range []struct {
		name  string
		taken []topology.PortRange
		want  topology.PortRange
	}{
		{"defaults", []topology.PortRange{r(32768, 60999), r(30000, 32767)}, r(61000, 65535)},
		{"behind", []topology.PortRange{r(1, 60999)}, r(61000, 65535)},
		{"nothing taken", nil, r(1024, 65535)},
		{"between", []topology.PortRange{r(1024, 20000), r(50000, 65535)}, r(20001, 49999)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got, ok := OutsidePorts(tc.taken...); !ok || got != tc.want {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
	if _, ok := OutsidePorts(r(1, 65535)); ok {
		t.Error("found a port outside all")
	}
}

// TestDialerKeepsToItsPorts also runs into ports that are in use, and takes others.
func TestDialerKeepsToItsPorts(t *testing.T) {
	r := topology.PortRange{First: 20_000, Last: 20_010}
	address := listen(t, func(c net.Conn) { time.Sleep(time.Second); c.Close() })
	seen := map[uint16]bool{}
	for range 5 {
		p := sourcePort(t, r, address)
		if !r.Contains(p) || seen[p] {
			t.Errorf("source port %d is outside the range, or used twice", p)
		}
		seen[p] = true
	}
}

// TestDialerSharesPorts needs one port for connections to several endpoints.
func TestDialerSharesPorts(t *testing.T) {
	r := topology.PortRange{First: 20_011, Last: 20_011}
	for range 3 {
		address := listen(t, func(c net.Conn) { time.Sleep(time.Second); c.Close() })
		if p := sourcePort(t, r, address); p != r.First {
			t.Errorf("source port %d", p)
		}
	}
}

// sourcePort connects from a port of a range and returns it. The connection stays open until the test ends.
func sourcePort(t *testing.T, r topology.PortRange, to netip.AddrPort) uint16 {
	t.Helper()
	d := dialer{ports: r}
	c, err := d.DialContext(context.Background(), "tcp", to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.TCPAddr).AddrPort().Port()
}
