package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"sluice/xdp/lab"
)

// narrowMTU is the MTU of the link between the two routers of a path.
const narrowMTU = 1400

// The subnets of the path to the client and of that to the backend: the first of three each, from the gateway outwards.
const (
	frontNet = 0
	backNet  = 10
)

// path is the way from the gateway to a host over two routers. The address of the host ends in 11 on the third subnet.
type path struct {
	net    int    // its first subnet
	iface  string // of the gateway
	narrow bool   // the link between the routers has narrowMTU
}

// in4 and in6 return address last on the subnet number add of the path.
func (p path) in4(add, last int) string { return fmt.Sprintf("198.18.%d.%d", p.net+add, last) }
func (p path) in6(add, last int) string { return fmt.Sprintf("2001:db8:%d::%d", p.net+add, last) }

// lay connects gateway, two routers and host, with addresses and routes.
func (n *network) lay(l *lab.Lab, p path, name string) *lab.Host {
	n.t.Helper()
	add := func(name string) *lab.Host {
		h, err := l.Host(name)
		n.check(err)
		return h
	}
	near, far, host := add(name+"-r1"), add(name+"-r2"), add(name)
	middle := lab.LinkOptions{}
	if p.narrow {
		middle.MTU = narrowMTU
	}
	n.check(l.Link(lab.End{Host: n.gateway, Name: p.iface}, lab.End{Host: near, Name: "in"}, lab.LinkOptions{}))
	n.check(l.Link(lab.End{Host: near, Name: "out"}, lab.End{Host: far, Name: "in"}, middle))
	n.check(l.Link(lab.End{Host: far, Name: "out"}, lab.End{Host: host, Name: "eth0"}, lab.LinkOptions{}))
	n.check(n.gateway.Addr(p.iface, p.in4(0, 1)+"/24", p.in6(0, 1)+"/64"))
	n.check(near.Addr("in", p.in4(0, 2)+"/24", p.in6(0, 2)+"/64"))
	n.check(near.Addr("out", p.in4(1, 1)+"/24", p.in6(1, 1)+"/64"))
	n.check(far.Addr("in", p.in4(1, 2)+"/24", p.in6(1, 2)+"/64"))
	n.check(far.Addr("out", p.in4(2, 1)+"/24", p.in6(2, 1)+"/64"))
	n.check(host.Addr("eth0", p.in4(2, 11)+"/24", p.in6(2, 11)+"/64"))
	for _, r := range []*lab.Host{near, far} {
		n.check(r.Sysctl(map[string]string{"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1"}))
	}
	n.toGateway(near, p.in4(0, 1), p.in6(0, 1))
	n.toGateway(far, p.in4(1, 1), p.in6(1, 1))
	n.toGateway(host, p.in4(2, 1), p.in6(2, 1))
	n.check(near.Route(p.in4(2, 0)+"/24", p.in4(1, 2)))
	n.check(near.Route(fmt.Sprintf("2001:db8:%d::/64", p.net+2), p.in6(1, 2)))
	for _, add := range []int{1, 2} {
		n.check(n.gateway.Route(p.in4(add, 0)+"/24", p.in4(0, 2)))
		n.check(n.gateway.Route(fmt.Sprintf("2001:db8:%d::/64", p.net+add), p.in6(0, 2)))
	}
	return host
}

// toGateway routes everything of the test network by way of the next hop towards the gateway.
func (n *network) toGateway(h *lab.Host, via4, via6 string) {
	n.t.Helper()
	for _, prefix := range []string{"198.18.0.0/16", "198.19.0.0/16"} {
		n.check(h.Route(prefix, via4))
	}
	n.check(h.Route("2001:db8::/32", via6))
}

// routed starts a gateway with a path to the client and one to the only backend.
func routed(t *testing.T, front, back path) *network {
	t.Helper()
	n := &network{t: t, log: &lab.Buffer{}}
	l := newLab(t)
	gateway, err := l.Host("gateway")
	n.check(err)
	n.gateway = gateway
	n.client = n.lay(l, front, "client")
	n.backend = []*lab.Host{n.lay(l, back, "wk-1")}
	dir := t.TempDir()
	n.admin, n.config = filepath.Join(dir, "admin.sock"), filepath.Join(dir, "topology.toml")
	text := fmt.Sprintf(routedTopology, n.admin, front.in4(0, 1), front.in6(0, 1), back.in4(2, 11), back.in6(2, 11),
		back.in4(2, 11), back.in6(2, 11))
	n.check(os.WriteFile(n.config, []byte(text), 0o600))
	n.run(binary(t))
	return n
}

// routedTopology has one service whose clients' addresses are rewritten, and one that keeps them.
const routedTopology = `
[gateway]
node = "gw-a"
interfaces = ["front", "back"]
admin = "unix:%s"
state_file = ""

[cluster]
service_cidrs = ["198.19.0.0/17", "2001:db8:96::/112"]

[[node]]
name = "gw-a"
addresses = [%q, %q]

[[service]]
namespace = "shop"
name = "rewritten"
type = "LoadBalancer"
ip_family_policy = "RequireDualStack"
load_balancer_ips = ["198.19.200.10", "2001:db8:97::10"]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  [[service.port]]
  name = "echo"
  protocol = "UDP"
  port = 7
  target_port = 7007

  [[service.endpoint]]
  address = %q
  [[service.endpoint]]
  address = %q

[[service]]
namespace = "shop"
name = "kept"
type = "LoadBalancer"
external_traffic_policy = "Local"
ip_family_policy = "RequireDualStack"
load_balancer_ips = ["198.19.200.11", "2001:db8:97::11"]

  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  [[service.port]]
  name = "echo"
  protocol = "UDP"
  port = 7
  target_port = 7007

  [[service.endpoint]]
  address = %q
  node = "gw-a"
  [[service.endpoint]]
  address = %q
  node = "gw-a"
`

// TestPathMTU has a narrow link between client and gateway, or between gateway and backend. Whoever sends too much learns so from
// a router that knows only the translated packets.
func TestPathMTU(t *testing.T) {
	for _, where := range []string{"front", "back"} {
		t.Run(where, func(t *testing.T) {
			n := routed(t, path{frontNet, "front", where == "front"}, path{backNet, "back", where == "back"})
			blob := make([]byte, 4<<20)
			rand.NewChaCha8([32]byte{4}).Read(blob)
			n.serve(0, transfer(blob))
			n.echoAt(0, "198.18.12.11", "2001:db8:10::11", "2001:db8:12::11")
			for _, a := range []string{"198.19.200.10", "[2001:db8:97::10]", "198.19.200.11", "[2001:db8:97::11]"} {
				n.crossNarrow(a, blob, where == "back")
			}
		})
	}
}

// crossNarrow moves a blob each way, by TCP, and datagrams of many sizes. The way on which only a translated error tells the sender
// comes first: once the other end has learned of the narrow link too, it asks for small segments.
func (n *network) crossNarrow(addr string, blob []byte, uploadFirst bool) {
	n.t.Helper()
	before := n.count("related_icmp")
	url := "http://" + addr + "/"
	if uploadFirst {
		n.upload(url, blob)
	}
	n.download(url, blob)
	n.upload(url, blob)
	if n.count("related_icmp") == before {
		n.t.Errorf("%s: nobody was told of the narrow link: no ICMP error was translated", addr)
	}
	for _, size := range []int{1000, 1390, 3000, 8000} {
		n.eventually(fmt.Sprintf("%s: %d bytes by UDP", addr, size), func() error {
			return n.echo(addr+":7", bytes.Repeat([]byte{byte(size)}, size))
		})
	}
}

// transfer serves a blob, and answers what is posted with its hash.
func transfer(blob []byte) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			w.Write(blob)
			return
		}
		h := sha256.New()
		if _, err := io.Copy(h, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprint(w, hex.EncodeToString(h.Sum(nil)))
	})
}

// download fetches a URL and compares every byte.
func (n *network) download(url string, want []byte) {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "blob")
	n.command(n.client, "curl", "-sS", "--max-time", "30", "-g", "-o", file, url)
	got, err := os.ReadFile(file)
	n.check(err)
	if !bytes.Equal(got, want) {
		n.t.Errorf("%s: %d bytes, not the %d that were sent", url, len(got), len(want))
	}
}

// upload posts a blob and compares the hash of what arrived.
func (n *network) upload(url string, blob []byte) {
	n.t.Helper()
	file := filepath.Join(n.t.TempDir(), "blob")
	n.check(os.WriteFile(file, blob, 0o600))
	got := n.command(n.client, "curl", "-sS", "--max-time", "30", "-g", "--data-binary", "@"+file, url)
	sum := sha256.Sum256(blob)
	if want := hex.EncodeToString(sum[:]); got != want {
		n.t.Errorf("%s: the server got bytes of hash %q, want %q", url, got, want)
	}
}
