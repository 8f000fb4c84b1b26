package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// The addresses of the test network.
const (
	client4, client6 = "198.18.0.50", "2001:db8:a::50"
	front4, front6   = "198.18.0.1", "2001:db8:a::1"
	back4, back6     = "198.18.1.1", "2001:db8:b::1"
	vip4, vip6       = "198.19.200.10", "2001:db8:97::10"
	cluster4         = "198.19.0.20"
	cluster6         = "2001:db8:96::20"
	backends         = 2
)

func backend4(i int) string { return fmt.Sprintf("198.18.1.%d", 11+i) }
func backend6(i int) string { return fmt.Sprintf("2001:db8:b::%d", 11+i) }

// setup is how a test wants its network and gateway.
type setup struct {
	driver string // "" for afxdp
	mode   string // "" for auto
	queues int    // of the gateway's links, 0 for 1
	direct bool   // one backend with all addresses at the other end of the gateway's link, and no switch
	extra  string // TOML behind the rest: more services
	// gateway is TOML for the [gateway] table.
	gateway string
}

// network is a client, a gateway that runs sluice, and backends behind a switch.
type network struct {
	t       *testing.T
	client  *lab.Host
	gateway *lab.Host
	backend []*lab.Host
	sluice  *lab.Process
	admin   string
	config  string
	log     *lab.Buffer
}

// binary is the sluice under test: SLUICE_BIN, or built once for this run.
func binary(t *testing.T) string {
	t.Helper()
	if b := os.Getenv("SLUICE_BIN"); b != "" {
		return b
	}
	path := filepath.Join(t.TempDir(), "sluice")
	if out, err := exec.Command("go", "build", "-o", path, "sluice/cmd/sluice").CombinedOutput(); err != nil {
		t.Fatalf("building sluice: %v\n%s", err, out)
	}
	return path
}

// start builds the network and runs the gateway in it.
func start(t *testing.T, s setup) *network {
	t.Helper()
	n := build(t, s)
	n.run(binary(t))
	return n
}

// build makes the network without running anything.
func build(t *testing.T, s setup) *network {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	n := &network{t: t, log: &lab.Buffer{}}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	host := func(name string) *lab.Host {
		h, err := l.Host(name)
		n.check(err)
		return h
	}
	n.client, n.gateway = host("client"), host("gateway")
	o := lab.LinkOptions{Queues: s.queues}
	n.check(l.Link(lab.End{Host: n.client, Name: "eth0"}, lab.End{Host: n.gateway, Name: "front"}, o))
	if s.direct {
		h := host("wk-1")
		n.check(l.Link(lab.End{Host: n.gateway, Name: "back"}, lab.End{Host: h, Name: "eth0"}, o))
		n.backend = []*lab.Host{h}
	} else {
		n.connectBackends(l, host, o)
	}
	n.check(n.client.Addr("eth0", client4+"/24", client6+"/64"))
	n.check(n.gateway.Addr("front", front4+"/24", front6+"/64"))
	n.check(n.gateway.Addr("back", back4+"/24", back6+"/64"))
	n.check(n.client.Route("198.19.0.0/16", front4))
	n.check(n.client.Route("2001:db8:96::/112", front6))
	n.check(n.client.Route("2001:db8:97::/64", front6))
	for i := range backends {
		h := n.backend[i%len(n.backend)]
		n.check(h.Addr("eth0", backend4(i)+"/24", backend6(i)+"/64"))
	}
	for _, h := range n.backend {
		n.check(h.Route("198.18.0.0/24", back4))
		n.check(h.Route("2001:db8:a::/64", back6))
	}
	if s.mode == "generic" {
		// A veth hands over what its sender leaves to be segmented by the network card, up to 64 KiB at once, as no wire would.
		// Native mode tells the kernel not to; generic mode cannot, and no AF_XDP frame holds so much.
		for _, h := range append([]*lab.Host{n.client}, n.backend...) {
			n.command(h, "ethtool", "-K", "eth0", "tso", "off", "gso", "off")
		}
	}
	dir := t.TempDir()
	n.admin, n.config = filepath.Join(dir, "admin.sock"), filepath.Join(dir, "topology.toml")
	n.check(os.WriteFile(n.config, []byte(topologyText(s, n.admin)), 0o600))
	return n
}

// connectBackends puts the backends behind a switch.
func (n *network) connectBackends(l *lab.Lab, host func(string) *lab.Host, o lab.LinkOptions) {
	sw := host("switch")
	n.check(l.Link(lab.End{Host: n.gateway, Name: "back"}, lab.End{Host: sw, Name: "gw"}, o))
	ports := []string{"gw"}
	for i := range backends {
		h, port := host(fmt.Sprintf("wk-%d", i+1)), fmt.Sprintf("p%d", i)
		n.check(l.Link(lab.End{Host: h, Name: "eth0"}, lab.End{Host: sw, Name: port}, o))
		n.backend, ports = append(n.backend, h), append(ports, port)
	}
	n.check(sw.Bridge("br0", ports...))
}

// topologyText is the gateway's file: one service on every kind of address, TCP 80 and 81 and UDP 7.
func topologyText(s setup, admin string) string {
	driver, mode := s.driver, s.mode
	if driver == "" {
		driver = "afxdp"
	}
	if mode == "" {
		mode = "auto"
	}
	var endpoints strings.Builder
	for i := range backends {
		for _, a := range []string{backend4(i), backend6(i)} {
			fmt.Fprintf(&endpoints, "  [[service.endpoint]]\n  address = %q\n  node = \"wk-%d\"\n", a, i+1)
		}
	}
	return fmt.Sprintf(`
[gateway]
node = "gw-a"
interfaces = ["front", "back"]
driver = %q
xdp_mode = %q
admin = "unix:%s"
state_file = %q
%s

[cluster]
service_cidrs = ["198.19.0.0/17", "2001:db8:96::/112"]

[[node]]
name = "gw-a"
addresses = [%q, %q]

[[service]]
namespace = "shop"
name = "web"
type = "LoadBalancer"
ip_family_policy = "RequireDualStack"
ip_families = ["IPv4", "IPv6"]
cluster_ips = [%q, %q]
load_balancer_ips = [%q, %q]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  node_port = 30080

  [[service.port]]
  name = "iperf"
  port = 5201
  node_port = 30081

  [[service.port]]
  name = "iperf-udp"
  protocol = "UDP"
  port = 5201
  node_port = 30081

  [[service.port]]
  name = "echo"
  protocol = "UDP"
  port = 7
  target_port = 7007
  node_port = 30007

%s
%s`, driver, mode, admin, stateFile(admin), s.gateway, front4, front6, cluster4, cluster6, vip4, vip6, endpoints.String(), s.extra)
}

// stateFile is beside the admin socket, in a directory that is not there at first.
func stateFile(admin string) string { return filepath.Join(filepath.Dir(admin), "lib", "state.json") }

// run starts sluice in the gateway and waits until its admin socket answers.
func (n *network) run(bin string) {
	n.t.Helper()
	p, err := n.gateway.Start(n.log, bin, "run", "-c", n.config)
	n.check(err)
	n.sluice = p
	n.t.Cleanup(func() {
		if n.t.Failed() {
			stats, err := n.stats()
			n.t.Logf("last stats: %v %v", stats, err)
		}
		if err := p.Stop(10 * time.Second); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			n.t.Errorf("sluice did not end well: %v\n%s", err, n.log)
		}
		if n.t.Failed() {
			n.t.Logf("log of sluice:\n%s", n.log)
		}
	})
	for end := time.Now().Add(15 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err := n.stats(); err == nil {
			return
		}
		select {
		case <-p.Done():
			n.t.Fatalf("sluice ended: %v\n%s", p.Err(), n.log)
		default:
		}
		if time.Now().After(end) {
			n.t.Fatalf("sluice is not ready\n%s", n.log)
		}
	}
}

// stats asks the admin socket.
func (n *network) stats() (map[string]any, error) {
	client := http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", n.admin)
		}}}
	resp, err := client.Get("http://sluice/v1/stats")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var m map[string]any
	return m, json.NewDecoder(resp.Body).Decode(&m)
}

// check ends the test on an error.
func (n *network) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// command runs a program in a host, bounded in time, and returns its standard output.
func (n *network) command(h *lab.Host, name string, args ...string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	out, err := h.Output(ctx, name, args...)
	if err != nil {
		n.t.Fatalf("%s: %s %s: %v\n%s\nlog of sluice:\n%s", h.Name, name, strings.Join(args, " "), err, out, n.log)
	}
	return string(out)
}

// listen opens a listener in a host.
func (n *network) listen(h *lab.Host, network, addr string) (l net.Listener) {
	n.t.Helper()
	n.check(h.Do(func() (err error) { l, err = net.Listen(network, addr); return err }))
	n.t.Cleanup(func() { l.Close() })
	return l
}

// serveHTTP serves a handler on port 8080 of every backend.
func (n *network) serveHTTP(handler func(backend int) http.Handler) {
	for i := range n.backend {
		n.serve(i, handler(i))
	}
}

// serve serves a handler on port 8080 of a backend.
func (n *network) serve(backend int, handler http.Handler) *http.Server {
	server := &http.Server{Handler: handler}
	go server.Serve(n.listen(n.backend[backend], "tcp", ":8080"))
	n.t.Cleanup(func() { server.Close() })
	return server
}

// serveName serves a backend's name.
func (n *network) serveName(backend int) *http.Server {
	return n.serve(backend, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, n.backend[backend].Name)
	}))
}

// serveNames serves each backend's name.
func (n *network) serveNames() {
	for i := range n.backend {
		n.serveName(i)
	}
}

// serveEcho echoes datagrams on UDP port 7007 of every backend's addresses: on a socket for each, since one for all would
// answer from whichever address the kernel prefers.
func (n *network) serveEcho() {
	for i := range backends {
		h := n.backend[i%len(n.backend)]
		for _, a := range []string{backend4(i), "[" + backend6(i) + "]"} {
			var conn net.PacketConn
			n.check(h.Do(func() (err error) { conn, err = net.ListenPacket("udp", a+":7007"); return err }))
			n.t.Cleanup(func() { conn.Close() })
			go echoDatagrams(conn)
		}
	}
}

// echoDatagrams echoes until the socket is closed.
func echoDatagrams(conn net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		size, from, err := conn.ReadFrom(buf)
		if err != nil {
			return
		}
		if _, err := conn.WriteTo(buf[:size], from); err != nil {
			return
		}
	}
}

// echo sends one datagram from the client on a new flow and expects it back.
func (n *network) echo(addr string, payload []byte) error {
	return n.client.Do(func() error {
		conn, err := net.Dial("udp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		return echoOn(conn, payload)
	})
}

// echoOn sends one datagram and expects it back.
func echoOn(conn net.Conn, payload []byte) error {
	if err := conn.SetDeadline(time.Now().Add(3 * time.Second)); err != nil {
		return err
	}
	if _, err := conn.Write(payload); err != nil {
		return err
	}
	buf := make([]byte, 64<<10)
	size, err := conn.Read(buf)
	if err != nil {
		return fmt.Errorf("%d bytes: %w", len(payload), err)
	}
	if !bytes.Equal(buf[:size], payload) {
		return fmt.Errorf("%d bytes came back as %d other ones", len(payload), size)
	}
	return nil
}

// ask fetches a URL with curl, each time on a connection of its own, and counts the answers; "error" counts those without one.
func (n *network) ask(url string, count int) map[string]int {
	n.t.Helper()
	args := []string{"-s", "-g", "--max-time", "2", "-H", "Connection: close"}
	for range count {
		args = append(args, url)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	defer cancel()
	// curl's exit code is that of the last transfer; what is missing of the answers is what failed.
	out, err := n.client.Output(ctx, "curl", args...)
	answers := strings.Fields(string(out))
	seen := map[string]int{}
	for _, a := range answers {
		seen[a]++
	}
	if missing := count - len(answers); missing > 0 {
		seen["error"] = missing
		n.t.Logf("curl %s: %d of %d without an answer: %v", url, missing, count, err)
	}
	return seen
}
