package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/config"
)

// TestKillLeavesTheNodeAlone kills the gateway's process while a connection like that of ssh to the gateway itself is open on
// the same interface: it goes on, and the interface is free of XDP.
func TestKillLeavesTheNodeAlone(t *testing.T) {
	for _, s := range []setup{{mode: "native"}, {mode: "generic"}} {
		t.Run(s.mode, func(t *testing.T) {
			n := start(t, s)
			server := n.listen(n.gateway, "tcp", front4+":22")
			go echoConnections(server)
			var conn net.Conn
			n.check(n.client.Do(func() (err error) { conn, err = net.DialTimeout("tcp", front4+":22", 3*time.Second); return err }))
			defer conn.Close()
			n.check(echoOn(conn, []byte("before")))
			n.check(n.sluice.Signal(syscall.SIGKILL))
			<-n.sluice.Done()
			n.check(echoOn(conn, []byte("after")))
			for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
				links := n.command(n.gateway, "ip", "link", "show")
				if !strings.Contains(links, "xdp") {
					break
				}
				if time.Now().After(end) {
					t.Fatalf("XDP is still attached:\n%s", links)
				}
			}
			n.check(n.client.Do(func() error {
				c, err := net.DialTimeout("tcp", front4+":22", 3*time.Second)
				if err == nil {
					c.Close()
				}
				return err
			}))
		})
	}
}

// echoConnections echoes what comes on every connection.
func echoConnections(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, 4096)
			for {
				size, err := c.Read(buf)
				if err != nil {
					return
				}
				if _, err := c.Write(buf[:size]); err != nil {
					return
				}
			}
		}()
	}
}

// TestAllocationsSurviveAKill takes the addresses that a service asks for out of the topology after the process was killed: it
// keeps them.
func TestAllocationsSurviveAKill(t *testing.T) {
	n := start(t, setup{})
	n.check(n.sluice.Signal(syscall.SIGKILL))
	<-n.sluice.Done()
	text, err := os.ReadFile(n.config)
	n.check(err)
	var kept []string
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "cluster_ips") && !strings.HasPrefix(line, "load_balancer_ips") {
			kept = append(kept, line)
		}
	}
	pools := "[cluster]\nload_balancer_pools = [\"" + vip4 + "/32\", \"" + vip6 + "/128\"]\n"
	n.check(os.WriteFile(n.config, []byte(strings.Replace(strings.Join(kept, ""), "[cluster]\n", pools, 1)), 0o600))
	n.run(binary(t))
	top, _, err := config.LoadFrom(n.config, nil, func(err error) { t.Error(err) })
	n.check(err)
	if ips := fmt.Sprint(top.Services[0].ClusterIPs); ips != "["+cluster4+" "+cluster6+"]" {
		t.Errorf("the service has %s", ips)
	}
	text, err = os.ReadFile(stateFile(n.admin))
	n.check(err)
	for _, a := range []string{cluster4, cluster6, vip4, vip6} {
		if !strings.Contains(string(text), a) {
			t.Errorf("no %s in the state:\n%s", a, text)
		}
	}
}

// TestOwnConnections opens connections from the gateway itself to a backend, often enough that some have a source port in
// the SNAT range: their replies come to Sluice and must go on to the kernel.
func TestOwnConnections(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		go echoConnections(n.listen(n.backend[0], "tcp", ":2222"))
		for range 16 {
			n.check(n.gateway.Do(func() error {
				c, err := net.DialTimeout("tcp", backend4(0)+":2222", 3*time.Second)
				if err != nil {
					return err
				}
				defer c.Close()
				return echoOn(c, []byte("own"))
			}))
		}
	})
}

// TestOwnFragments sends datagrams of several fragments, and large pings, to the gateway itself: they take the way over a worker, and
// must reach the kernel as they were.
func TestOwnFragments(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		for _, a := range []string{front4, "[" + front6 + "]"} {
			var conn net.PacketConn
			n.check(n.gateway.Do(func() (err error) { conn, err = net.ListenPacket("udp", a+":9999"); return err }))
			t.Cleanup(func() { conn.Close() })
			go echoDatagrams(conn)
			for _, size := range []int{1473, 3000, 8001, 40000} {
				n.check(n.echo(a+":9999", bytes.Repeat([]byte{byte(size)}, size)))
			}
			out := n.command(n.client, "ping", "-c", "2", "-i", "0.2", "-W", "2", "-s", "3000", strings.Trim(a, "[]"))
			if !strings.Contains(out, "2 received") {
				t.Errorf("ping %s:\n%s", a, out)
			}
		}
	})
}

// TestWrongTopology starts with faults: exit code 1, every fault with its line, and nothing attached.
func TestWrongTopology(t *testing.T) {
	n := build(t, setup{})
	text, err := os.ReadFile(n.config)
	n.check(err)
	broken := strings.Replace(string(text), "node_port = 30080", "node_prot = 30080", 1)
	broken = strings.Replace(broken, cluster4, "198.19.0.300", 1)
	n.check(os.WriteFile(n.config, []byte(broken), 0o600))
	p, err := n.gateway.Start(n.log, binary(t), "run", "-c", n.config)
	n.check(err)
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		p.Signal(syscall.SIGKILL)
		t.Fatal("still running")
	}
	if p.Err() == nil || p.Err().Error() != "exit status 1" {
		t.Errorf("ended with %v, want exit status 1", p.Err())
	}
	for _, want := range []string{lineOf(broken, "node_prot"), "node_prot", "node_port", lineOf(broken, "198.19.0.300")} {
		if !strings.Contains(n.log.String(), want) {
			t.Errorf("no %q in\n%s", want, n.log)
		}
	}
	if links := n.command(n.gateway, "ip", "link", "show"); strings.Contains(links, "xdp") {
		t.Errorf("XDP is attached:\n%s", links)
	}
}

// lineOf returns "topology.toml:N" for the line that holds part.
func lineOf(text, part string) string {
	before, _, _ := strings.Cut(text, part)
	return fmt.Sprintf("topology.toml:%d", 1+strings.Count(before, "\n"))
}

// TestBackendGone stops a backend's server and expects its health check to take it out, then in again.
func TestBackendGone(t *testing.T) {
	n := start(t, setup{extra: checkedService})
	ask := func() map[string]int { return n.ask("http://198.19.200.12/", 24) }
	both := func() bool { s := ask(); return s["wk-1"] > 0 && s["wk-2"] > 0 && s["error"] == 0 }
	n.serveName(0)
	second := n.serveName(1)
	await(t, "both answer", both)
	n.check(second.Close())
	await(t, "only wk-1 answers", func() bool { s := ask(); return s["wk-1"] == 24 })
	n.serveName(1)
	await(t, "both answer again", both)
}

// checkedService has a health check on both backends.
const checkedService = `
[[service]]
namespace = "shop"
name = "checked"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.12"]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080

  [[service.endpoint]]
  address = "198.18.1.11"
  [[service.endpoint]]
  address = "198.18.1.12"

  [service.health_check]
  type = "http"
  path = "/"
  interval = "200ms"
  timeout = "150ms"
  rise = 2
  fall = 2
`

// await polls until a condition holds, for half a minute at most.
func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not within 30 s: %s", what)
}

// TestCleanEnd stops by SIGTERM: exit code 0 and the interfaces as before.
func TestCleanEnd(t *testing.T) {
	n := start(t, setup{})
	if err := n.sluice.Stop(5 * time.Second); err != nil {
		t.Errorf("after SIGTERM: %v", err)
	}
	links := n.command(n.gateway, "ip", "link", "show")
	if strings.Contains(links, "xdp") || strings.Contains(links, "tap") {
		t.Errorf("left behind:\n%s", links)
	}
}

// TestDNSThroughTheGateway resolves by dig through the VIP of a DNS service whose endpoints run sluice dns.
func TestDNSThroughTheGateway(t *testing.T) {
	n := start(t, setup{extra: dnsService})
	for i, h := range n.backend {
		p, err := h.Start(n.log, binary(t), "dns", "-c", n.config, "--listen", backend4(i)+":5353")
		n.check(err)
		t.Cleanup(func() { p.Stop(5 * time.Second) })
	}
	await(t, "DNS answers", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		out, err := n.client.Output(ctx, "dig", "+short", "+tries=1", "+time=1", "@198.19.0.10", "web.shop.svc.cluster.local")
		return err == nil && strings.TrimSpace(string(out)) == cluster4
	})
	for _, tc := range []struct{ args, want string }{
		{"+short +tcp @198.19.0.10 web.shop.svc.cluster.local AAAA", cluster6},
		{"+short @198.19.0.10 -x " + cluster4, "web.shop.svc.cluster.local."},
		{"+short @198.19.0.10 _http._tcp.web.shop.svc.cluster.local SRV", "80 web.shop.svc.cluster.local."},
		{"@198.19.0.10 nothing.shop.svc.cluster.local", "NXDOMAIN"},
		{"@198.19.0.10 example.org", "REFUSED"},
	} {
		if out := n.command(n.client, "dig", strings.Fields(tc.args)...); !strings.Contains(out, tc.want) {
			t.Errorf("dig %s: no %q in\n%s", tc.args, tc.want, out)
		}
	}
}

const dnsService = `
[[service]]
namespace = "kube-system"
name = "kube-dns"
cluster_ips = ["198.19.0.10"]

  [[service.port]]
  name = "dns"
  protocol = "UDP"
  port = 53
  target_port = 5353
  [[service.port]]
  name = "dns-tcp"
  port = 53
  target_port = 5353

  [[service.endpoint]]
  address = "198.18.1.11"
  [[service.endpoint]]
  address = "198.18.1.12"

[dns]
address = "none"
`
