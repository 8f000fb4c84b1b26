package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/xdp/lab"
)

// newLab returns a lab that ends with the test.
func newLab(t *testing.T) *lab.Lab {
	t.Helper()
	l := lab.New()
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// count returns how many packets have met a reason.
func (n *network) count(reason string) float64 {
	n.t.Helper()
	stats, err := n.stats()
	n.check(err)
	packets, ok := stats["packets"].(map[string]any)
	if !ok {
		n.t.Fatalf("no packets in the stats: %v", stats)
	}
	c, _ := packets[reason].(float64) // missing is none
	return c
}

// eventually repeats what may lose its first packets to a change that is under way.
func (n *network) eventually(what string, f func() error) {
	n.t.Helper()
	var err error
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	n.t.Fatalf("%s: %v", what, err)
}

// serveSources answers each request with "backend/client address".
func (n *network) serveSources() {
	n.serveHTTP(func(i int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintf(w, "%s/%s\n", n.backend[i].Name, host)
		})
	})
}

// echoAt echoes datagrams on UDP port 7007 of addresses of a backend.
func (n *network) echoAt(backend int, addrs ...string) {
	n.t.Helper()
	for _, a := range addrs {
		if !n.has(n.backend[backend], a) {
			continue
		}
		var conn net.PacketConn
		n.check(n.backend[backend].Do(func() (err error) {
			conn, err = net.ListenPacket("udp", net.JoinHostPort(a, "7007"))
			return err
		}))
		n.t.Cleanup(func() { conn.Close() })
		go echoDatagrams(conn)
	}
}

// has reports whether a host has an address.
func (n *network) has(h *lab.Host, addr string) bool {
	n.t.Helper()
	return strings.Contains(n.command(h, "ip", "-o", "addr", "show"), " "+addr+"/")
}

// silent expects that a connection is neither accepted nor refused: its packets are dropped.
func (n *network) silent(addr string) {
	n.t.Helper()
	err := n.client.Do(func() error {
		c, err := net.DialTimeout("tcp", addr, 700*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	})
	var timeout net.Error
	if err == nil || !errors.As(err, &timeout) || !timeout.Timeout() {
		n.t.Errorf("connecting to %s: %v, want silence", addr, err)
	}
}

// policyServices keep traffic on this node: "local" has an endpoint here and one elsewhere, "remote" elsewhere only.
const policyServices = `
[[service]]
namespace = "shop"
name = "local"
type = "LoadBalancer"
cluster_ips = ["198.19.0.30"]
load_balancer_ips = ["198.19.200.30"]
external_traffic_policy = "Local"
internal_traffic_policy = "Local"

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  node_port = 30083

  [[service.endpoint]]
  address = "198.18.1.11"
  node = "gw-a"
  [[service.endpoint]]
  address = "198.18.1.12"
  node = "wk-2"

[[service]]
namespace = "shop"
name = "remote"
type = "LoadBalancer"
cluster_ips = ["198.19.0.31"]
load_balancer_ips = ["198.19.200.31"]
external_traffic_policy = "Local"
internal_traffic_policy = "Local"

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  node_port = 30084

  [[service.endpoint]]
  address = "198.18.1.12"
  node = "wk-2"
`

// TestTrafficPolicyLocal expects the client's own address at the endpoint of this node, the gateway's where the policy does not
// keep it, and silence where all endpoints are elsewhere.
func TestTrafficPolicyLocal(t *testing.T) {
	n := start(t, setup{extra: policyServices})
	n.serveSources()
	for url, want := range map[string]string{
		"http://198.19.200.30/":        "wk-1/" + client4,
		"http://" + front4 + ":30083/": "wk-1/" + client4,
		"http://198.19.0.30/":          "wk-1/" + client4, // no pod_cidrs: nobody's source is rewritten
	} {
		if seen := n.ask(url, 12); seen[want] != 12 {
			t.Errorf("%s: answers %v, want %s each time", url, seen, want)
		}
	}
	for source := range n.ask("http://"+vip4+"/", 12) {
		if !strings.HasSuffix(source, "/"+front4) {
			t.Errorf("policy Cluster: backend and client are %s, want the gateway's address %s", source, front4)
		}
	}
	for _, addr := range []string{"198.19.200.31:80", front4 + ":30084", "198.19.0.31:80"} {
		before := n.count("no_local_endpoints")
		n.silent(addr)
		if n.count("no_local_endpoints") == before {
			t.Errorf("%s: nothing was counted under no_local_endpoints", addr)
		}
	}
}

const rangedServices = `
[[service]]
namespace = "shop"
name = "open"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.40"]
load_balancer_source_ranges = ["198.18.0.50/32"]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080

  [[service.endpoint]]
  address = "198.18.1.11"

[[service]]
namespace = "shop"
name = "closed"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.41"]
load_balancer_source_ranges = ["198.18.0.128/25"]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  node_port = 30085

  [[service.endpoint]]
  address = "198.18.1.11"

[[service]]
namespace = "shop"
name = "denied"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.42"]
load_balancer_source_ranges = ["198.18.0.50/32"]
load_balancer_source_ranges_policy = "deny"
load_balancer_source_ranges_scope = "all"

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  node_port = 30086

  [[service.endpoint]]
  address = "198.18.1.11"
`

// TestSourceRanges expects answers for listed sources, silence for others at the VIP, and NodePorts left alone unless the scope
// says all.
func TestSourceRanges(t *testing.T) {
	n := start(t, setup{extra: rangedServices})
	n.serveNames()
	for _, url := range []string{"http://198.19.200.40/", "http://" + front4 + ":30085/"} {
		if seen := n.ask(url, 4); seen["wk-1"] != 4 {
			t.Errorf("%s: answers %v, want 4 of wk-1", url, seen)
		}
	}
	for _, addr := range []string{"198.19.200.41:80", "198.19.200.42:80", front4 + ":30086"} {
		before := n.count("source_range")
		n.silent(addr)
		if n.count("source_range") == before {
			t.Errorf("%s: nothing was counted under source_range", addr)
		}
	}
}

// hairpinService has one endpoint, which is also its client.
const hairpinService = `
[[service]]
namespace = "shop"
name = "self"
type = "LoadBalancer"
cluster_ips = ["198.19.0.50"]
load_balancer_ips = ["198.19.200.50"]
external_traffic_policy = "Local"

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080

  [[service.endpoint]]
  address = "198.18.1.11"
  node = "gw-a"
`

// TestHairpin asks from the only endpoint itself: it must see the gateway's address, since to its own it would answer directly.
func TestHairpin(t *testing.T) {
	n := start(t, setup{extra: hairpinService})
	n.serveSources()
	n.check(n.backend[0].Route("198.19.0.0/16", back4))
	for _, a := range []string{"198.19.0.50", "198.19.200.50"} {
		out := n.command(n.backend[0], "curl", "-sS", "--max-time", "3", "http://"+a+"/")
		if want := "wk-1/" + front4 + "\n"; out != want {
			t.Errorf("%s: %q, want %q", a, out, want)
		}
	}
}

// stickyService pins clients for two seconds, and takes out endpoints that fail.
const stickyService = `
[[service]]
namespace = "shop"
name = "sticky"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.60"]
session_affinity = "ClientIP"
session_affinity_timeout = "2s"

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
  interval = "100ms"
  timeout = "90ms"
  rise = 1
  fall = 2
`

// TestAffinity follows one client: it stays with one endpoint; when that fails it is pinned to the other one at once, and stays
// there although the first comes back, as long as it does not pause; after a pause of more than the timeout it is as new.
func TestAffinity(t *testing.T) {
	n := start(t, setup{extra: stickyService})
	servers := []*http.Server{n.serveName(0), n.serveName(1)}
	const url = "http://198.19.200.60/"
	await(t, "one endpoint answers all", func() bool { return len(n.ask(url, 8)) == 1 })
	// That may be the one that came up first, and not the choice for a client without a pin.
	time.Sleep(2500 * time.Millisecond)
	n.awaitHealthy()
	first, other := 0, 1
	if n.ask(url, 1)["wk-2"] == 1 {
		first, other = 1, 0
	}
	home, refuge := n.backend[first].Name, n.backend[other].Name
	n.check(servers[first].Close())
	await(t, "the client moves to "+refuge, func() bool { return n.ask(url, 8)[refuge] == 8 })
	n.serveName(first)
	n.awaitHealthy()
	for range 8 { // in all longer than the timeout: each connection renews the pin
		time.Sleep(400 * time.Millisecond)
		if seen := n.ask(url, 1); seen[refuge] != 1 {
			t.Fatalf("pinned to %s, answered by %v", refuge, seen)
		}
	}
	time.Sleep(2500 * time.Millisecond)
	if seen := n.ask(url, 8); seen[home] != 8 {
		t.Errorf("after the timeout answered by %v, want %s, the choice for a client without a pin", seen, home)
	}
}

// awaitHealthy waits until no endpoint is down.
func (n *network) awaitHealthy() {
	n.t.Helper()
	await(n.t, "all endpoints are up", func() bool {
		out := n.command(n.gateway, "curl", "-sS", "--unix-socket", n.admin, "http://sluice/v1/endpoints")
		return !strings.Contains(out, `"down"`)
	})
}

// TestFragments sends datagrams of several fragments each way, to every kind of address.
func TestFragments(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		n.serveEcho()
		for kind, addrs := range addresses() {
			for _, a := range addrs {
				target := fmt.Sprintf("%s:%d", a, portOn(kind, 7, 30007))
				for _, size := range []int{1473, 3000, 8001} {
					if err := n.echo(target, bytes.Repeat([]byte{byte(size)}, size)); err != nil {
						t.Fatalf("%s: %v", target, err)
					}
				}
			}
		}
	})
}

// TestRejectWithReset refuses TCP by a reset, and UDP by ICMP.
func TestRejectWithReset(t *testing.T) {
	n := start(t, setup{gateway: `reject_with = "tcp-reset"`})
	for _, addr := range []string{vip4 + ":81", "[" + vip6 + "]:81", cluster4 + ":81"} {
		err := n.client.Do(func() error {
			c, err := net.DialTimeout("tcp", addr, 2*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("connecting to %s: %v, want a refusal", addr, err)
		}
	}
	if icmp := n.unreachables(); icmp != "0" {
		t.Errorf("the client got %s ICMP errors, want resets only", icmp)
	}
}

// unreachables returns how many ICMP destination unreachable messages the client's kernel has had.
func (n *network) unreachables() string {
	n.t.Helper()
	var names []string
	for line := range strings.Lines(n.command(n.client, "cat", "/proc/net/snmp")) {
		fields := strings.Fields(line)
		if fields[0] != "Icmp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		return fields[slices.Index(names, "InDestUnreachs")]
	}
	n.t.Fatal("no Icmp line in /proc/net/snmp")
	return ""
}
