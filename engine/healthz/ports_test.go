package healthz_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/config/topology"
	"sluice/engine/healthz"
	"sluice/nat"
)

// healthCase is a row of testdata/cases.json.
type healthCase struct {
	ID    string
	Input struct {
		LocalReady *int `json:"local_ready_endpoints"`
		Healthy    bool `json:"proxy_healthy"`
		Service    string
		Path       string
		Node       string
		Endpoints  []struct {
			Addr, Node                  string
			Ready, Serving, Terminating bool
		}
		Before, After uint16
		Endpoint      string
		SyncHealthy   bool `json:"sync_healthy"`
		Tainted       bool `json:"node_tainted_ToBeDeletedByClusterAutoscaler"`
	}
	Expected struct {
		Status         int
		Headers        map[string]string
		Body           map[string]any
		LocalEndpoints int
		OldClosed      bool `json:"old_closed"`
		NewOpen        bool `json:"new_open"`
		CountUntilSync int  `json:"endpoint_count_until_next_endpoint_sync"`
	}
}

func loadCases(t *testing.T) []healthCase {
	t.Helper()
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var f struct{ Cases []healthCase }
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f.Cases
}

// TestCases answers every case as it expects.
func TestCases(t *testing.T) {
	kinds := map[string]int{}
	for _, c := range loadCases(t) {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case c.Input.LocalReady != nil:
				kinds["status"]++
				testStatus(t, &c)
			case len(c.Input.Endpoints) > 0:
				kinds["endpoints"]++
				testEndpoints(t, &c)
			case c.Input.Before != 0:
				kinds["ports"]++
				testPortChange(t, &c)
			case c.Input.Endpoint != "":
				kinds["gateway"]++
				testLivez(t, &c)
			default:
				t.Error("nothing is tested here")
			}
		})
	}
	if want := "map[endpoints:1 gateway:1 ports:1 status:3]"; fmt.Sprint(kinds) != want {
		t.Errorf("cases %v, want %s", kinds, want)
	}
}

func testStatus(t *testing.T, c *healthCase) {
	namespace, name, _ := strings.Cut(c.Input.Service, "/")
	port := freePort(t)
	p := newPorts(t, func() bool { return c.Input.Healthy })
	p.Set(loopback4(), []healthz.Check{{Namespace: namespace, Name: name, Network: "tcp4", Port: port, Local: *c.Input.LocalReady}})
	for _, path := range []string{c.Input.Path, "/any/other?path=1"} {
		got := get(t, fmt.Sprintf("http://127.0.0.1:%d%s", port, path))
		if got.status != c.Expected.Status {
			t.Errorf("%s: status %d, want %d", path, got.status, c.Expected.Status)
		}
		for k, v := range c.Expected.Headers {
			if got.header.Get(k) != v {
				t.Errorf("%s: header %s is %q, want %q", path, k, got.header.Get(k), v)
			}
		}
		want, err := json.Marshal(c.Expected.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !sameJSON(t, got.body, want) {
			t.Errorf("%s: body %s, want %s", path, got.body, want)
		}
	}
}

func testEndpoints(t *testing.T, c *healthCase) {
	s := service("shop", "cart", 30990)
	for _, e := range c.Input.Endpoints {
		s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: netip.MustParseAddr(e.Addr), Node: e.Node,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Weight: 1, Ports: map[string]uint16{"web": 9090}})
	}
	table := compile(t, c.Input.Node, nil, s)
	got := healthz.Checks(table)
	if got[0].Local != c.Expected.LocalEndpoints {
		t.Errorf("%d local endpoints, want %d", got[0].Local, c.Expected.LocalEndpoints)
	}
	status := http.StatusServiceUnavailable
	if got[0].Local > 0 {
		status = http.StatusOK
	}
	if status != c.Expected.Status {
		t.Errorf("status %d, want %d", status, c.Expected.Status)
	}
}

// testPortChange moves a service to another port. A generation has services and endpoints, so that there is no time between
// the two in which the count is wrong; a new port without endpoints has the count that the case expects until they come.
func testPortChange(t *testing.T, c *healthCase) {
	before, after := c.Input.Before, c.Input.After
	other := freePort(t)
	p := newPorts(t, func() bool { return true })
	check := func(port uint16, local int) healthz.Check {
		return healthz.Check{Namespace: "shop", Name: "cart", Network: "tcp4", Port: port, Local: local}
	}
	p.Set(loopback4(), []healthz.Check{check(before, 2), check(other, 1)})
	if s := p.Stats(); s.Listening != 2 {
		t.Fatalf("%+v", s)
	}
	stays := dial(t, other)
	p.Set(loopback4(), []healthz.Check{check(after, c.Expected.CountUntilSync), check(other, 1)})
	if closed := refused(before); closed != c.Expected.OldClosed {
		t.Errorf("old port closed: %v, want %v", closed, c.Expected.OldClosed)
	}
	if open := !refused(after); open != c.Expected.NewOpen {
		t.Errorf("new port open: %v, want %v", open, c.Expected.NewOpen)
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/", after)
	if got := get(t, url); got.header.Get("X-Load-Balancing-Endpoint-Weight") != fmt.Sprint(c.Expected.CountUntilSync) || got.status != 503 {
		t.Errorf("before endpoints: %+v", got)
	}
	p.Set(loopback4(), []healthz.Check{check(after, 2), check(other, 1)})
	if got := get(t, url); got.header.Get("X-Load-Balancing-Endpoint-Weight") != "2" || got.status != 200 {
		t.Errorf("with endpoints: %+v", got)
	}
	// The connection to the port that stays was opened before both changes.
	fmt.Fprint(stays, "GET / HTTP/1.0\r\n\r\n")
	if answer, err := io.ReadAll(stays); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 200 OK\r\n")) {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestChecks(t *testing.T) {
	with := func(edit func(*topology.Endpoint), addr, node string) topology.Endpoint {
		e := topology.Endpoint{Address: netip.MustParseAddr(addr), Node: node, Ready: true, Serving: true, Weight: 1,
			Ports: map[string]uint16{"web": 9090, "dns": 5353}}
		if edit != nil {
			edit(&e)
		}
		return e
	}
	for _, tc := range []struct {
		name      string
		endpoints []topology.Endpoint
		down      string
		v4, v6    int
	}{
		{"none", nil, "", 0, 0},
		{"each family for itself", []topology.Endpoint{with(nil, "10.64.0.11", "gw-a"), with(nil, "10.64.0.12", "gw-a"),
			with(nil, "fd64:10::11", "gw-a")}, "", 2, 1},
		{"remote", []topology.Endpoint{with(nil, "10.64.0.11", "wk-1"), with(nil, "10.64.0.12", "")}, "", 0, 0},
		{"not ready", []topology.Endpoint{with(func(e *topology.Endpoint) { e.Ready = false }, "10.64.0.11", "gw-a")}, "", 0, 0},
		{"drained", []topology.Endpoint{with(func(e *topology.Endpoint) { e.Weight = 0 }, "10.64.0.11", "gw-a")}, "", 0, 0},
		{"down", []topology.Endpoint{with(nil, "10.64.0.11", "gw-a"), with(nil, "10.64.0.12", "gw-a")}, "10.64.0.12", 1, 0},
		{"one address twice", []topology.Endpoint{with(nil, "10.64.0.11", "gw-a"), with(func(e *topology.Endpoint) {
			e.Ports = map[string]uint16{"web": 9091}
		}, "10.64.0.11", "gw-a")}, "", 1, 0},
		{"ready beside terminating", []topology.Endpoint{with(func(e *topology.Endpoint) { e.Ready, e.Terminating = false, true },
			"10.64.0.11", "gw-a"), with(nil, "10.64.0.12", "gw-a")}, "", 1, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := service("shop", "cart", 30990)
			s.Endpoints = tc.endpoints
			down := func(_, _ string, a netip.AddrPort) bool { return a.Addr().String() == tc.down }
			got := healthz.Checks(compile(t, "gw-a", down, s, service("shop", "without", 0)))
			want := []healthz.Check{{Namespace: "shop", Name: "cart", Network: "tcp4", Port: 30990, Local: tc.v4},
				{Namespace: "shop", Name: "cart", Network: "tcp6", Port: 30990, Local: tc.v6}}
			if !slices.Equal(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
	single := service("shop", "single", 30991)
	single.ClusterIPs = single.ClusterIPs[:1]
	if got := healthz.Checks(compile(t, "gw-a", nil, single)); len(got) != 1 || got[0].Network != "tcp4" {
		t.Errorf("of a service with IPv4 only: %+v", got)
	}
	other := service("shop", "other", 30991)
	other.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "another"}
	if got := healthz.Checks(compile(t, "gw-a", nil, other)); len(got) != 0 {
		t.Errorf("of a service of another proxy: %+v", got)
	}
}

func TestAddresses(t *testing.T) {
	for _, tc := range []struct{ name, local, nodePort, want string }{
		{"all", "198.18.0.1 198.18.7.1 2001:db8:a::1", "198.18.0.1 198.18.7.1 2001:db8:a::1", "0.0.0.0 ::"},
		{"one of two", "198.18.0.1 198.18.7.1 2001:db8:a::1", "198.18.7.1 2001:db8:a::1", "198.18.7.1 ::"},
		{"none of a family", "198.18.0.1 2001:db8:a::1", "198.18.0.1", "0.0.0.0"},
		{"none", "198.18.0.1", "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := healthz.Addresses(&topology.Gateway{LocalAddresses: addrs(tc.local), NodePortAddresses: addrs(tc.nodePort)})
			if !slices.Equal(got, addrs(tc.want)) {
				t.Errorf("%v, want %s", got, tc.want)
			}
		})
	}
}

// TestFamiliesApart binds one port on both wildcard addresses, and on an address of each.
func TestFamiliesApart(t *testing.T) {
	for _, on := range []string{"0.0.0.0 ::", "127.0.0.1 ::1"} {
		port := freePort(t)
		p := newPorts(t, func() bool { return true })
		p.Set(addrs(on), []healthz.Check{{Namespace: "shop", Name: "cart", Network: "tcp4", Port: port, Local: 3},
			{Namespace: "shop", Name: "cart", Network: "tcp6", Port: port, Local: 5}})
		for host, want := range map[string]string{"127.0.0.1": "3", "[::1]": "5"} {
			if got := get(t, fmt.Sprintf("http://%s:%d/", host, port)).header.Get("X-Load-Balancing-Endpoint-Weight"); got != want {
				t.Errorf("on %s: %s answers %s, want %s", on, host, got, want)
			}
		}
		// From the wildcard to an address, and back, on one port.
		for _, next := range []string{"127.0.0.1", "0.0.0.0"} {
			p.Set(addrs(next), []healthz.Check{{Namespace: "shop", Name: "cart", Network: "tcp4", Port: port, Local: 4}})
			if s := p.Stats(); s != (healthz.Stats{Listening: 1}) {
				t.Errorf("on %s: %+v", next, s)
			}
		}
	}
}

// TestPortTaken cannot bind a port: the others are served, and the port too once it is free.
func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port, other := uint16(taken.Addr().(*net.TCPAddr).Port), freePort(t)
	var log bytes.Buffer
	p := healthz.NewPorts(healthz.PortsOptions{Healthy: func() bool { return true }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	t.Cleanup(func() { p.Close() })
	checks := []healthz.Check{{Namespace: "shop", Name: "cart", Network: "tcp4", Port: port, Local: 1},
		{Namespace: "shop", Name: "other", Network: "tcp4", Port: other, Local: 1}}
	p.Set(loopback4(), checks)
	p.Set(loopback4(), checks)
	if s := p.Stats(); s != (healthz.Stats{Listening: 1, Missing: 1, Failures: 2}) {
		t.Errorf("%+v", s)
	}
	if n := strings.Count(log.String(), "shop/cart"); n != 1 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	if got := get(t, fmt.Sprintf("http://127.0.0.1:%d/", other)); got.status != 200 {
		t.Errorf("the other port: %+v", got)
	}
	taken.Close()
	p.Retry()
	if got := get(t, fmt.Sprintf("http://127.0.0.1:%d/", port)); got.status != 200 {
		t.Errorf("once it is free: %+v", got)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	p.Retry()
	p.Set(loopback4(), checks)
	if !refused(port) || !refused(other) {
		t.Error("open after Close")
	}
}

// TestConnectionsAreBounded opens more connections than there are places: those behind wait, and are served when one is free.
func TestConnectionsAreBounded(t *testing.T) {
	port := freePort(t)
	p := newPorts(t, func() bool { return true })
	p.Set(loopback4(), []healthz.Check{{Namespace: "shop", Name: "cart", Network: "tcp4", Port: port, Local: 1}})
	silent := make([]net.Conn, healthz.MaxConns)
	for i := range silent {
		silent[i] = dial(t, port)
	}
	last := dial(t, port)
	fmt.Fprint(last, "GET / HTTP/1.0\r\n\r\n")
	silent[0].Close()
	if answer, err := io.ReadAll(last); err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 200 OK\r\n")) {
		t.Errorf("%q, %v", answer, err)
	}
}

// service returns a dual-stack service with a health check port.
func service(namespace, name string, port uint16) topology.Service {
	n := byte(port)
	return topology.Service{Namespace: namespace, Name: name, Type: topology.LoadBalancer, HealthCheckNodePort: port,
		ClusterIPs:            []netip.Addr{netip.AddrFrom4([4]byte{198, 19, 0, n}), netip.MustParseAddr(fmt.Sprintf("2001:db8:96::%x", n))},
		ExternalTrafficPolicy: topology.PolicyLocal, InternalTrafficPolicy: topology.PolicyCluster,
		Ports: []topology.Port{{Name: "web", Protocol: topology.TCP, Port: 80}, {Name: "dns", Protocol: topology.UDP, Port: 53}}}
}

func compile(t *testing.T, node string, down func(_, _ string, a netip.AddrPort) bool, services ...topology.Service) *nat.Table {
	t.Helper()
	table, err := nat.Compile(&topology.Topology{Gateway: topology.Gateway{Node: node}, Services: services},
		nat.CompileOptions{Down: down, TableSize: 251})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func addrs(text string) (out []netip.Addr) {
	for _, a := range strings.Fields(text) {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func loopback4() []netip.Addr { return addrs("127.0.0.1") }

func newPorts(t *testing.T, healthy func() bool) *healthz.Ports {
	t.Helper()
	p := healthz.NewPorts(healthz.PortsOptions{Healthy: healthy, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// freePort returns a port that nobody listens on.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func dial(t *testing.T, port uint16) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// refused reports whether nobody listens on a port.
func refused(port uint16) bool {
	c, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
	if err == nil {
		c.Close()
	}
	return err != nil
}

// response is what came back for a request.
type response struct {
	status int
	header http.Header
	body   []byte
}

func get(t *testing.T, url string) response {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{r.StatusCode, r.Header, body}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	for _, d := range []struct {
		text []byte
		to   *any
	}{{a, &x}, {b, &y}} {
		if err := json.Unmarshal(d.text, d.to); err != nil {
			t.Fatalf("%s: %v", d.text, err)
		}
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}
