package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// variants are the ways to get at the packets; every one must behave the same.
func variants() []setup {
	return []setup{
		{driver: "afxdp", mode: "native"},
		{driver: "afxdp", mode: "generic"},
		{driver: "asavie", mode: "native"},
		{driver: "asavie", mode: "generic"},
	}
}

// each runs a test on a network of every variant.
func each(t *testing.T, f func(t *testing.T, n *network)) {
	for _, s := range variants() {
		t.Run(s.driver+"/"+s.mode, func(t *testing.T) { f(t, start(t, s)) })
	}
}

// addresses are the ways to address the service, without a port: VIP, ClusterIP and node, of both families.
func addresses() map[string][2]string {
	return map[string][2]string{
		"vip":       {vip4, "[" + vip6 + "]"},
		"clusterip": {cluster4, "[" + cluster6 + "]"},
		"nodeport":  {front4, "[" + front6 + "]"},
	}
}

// portOn is where a service port is found on a kind of address.
func portOn(kind string, port, nodePort int) int {
	if kind == "nodeport" {
		return nodePort
	}
	return port
}

func TestHTTPOnEveryAddress(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		n.serveNames()
		for kind, addrs := range addresses() {
			for _, a := range addrs {
				url := fmt.Sprintf("http://%s:%d/", a, portOn(kind, 80, 30080))
				if seen := n.ask(url, 24); len(seen) != backends || seen["error"] > 0 {
					t.Errorf("%s: answers came from %v", url, seen)
				}
			}
		}
	})
}

func TestUDPOfEverySize(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		n.serveEcho()
		random := rand.NewChaCha8([32]byte{1})
		payload := make([]byte, 1472)
		random.Read(payload)
		for kind, addrs := range addresses() {
			for i, a := range addrs {
				target := fmt.Sprintf("%s:%d", a, portOn(kind, 7, 30007))
				largest := []int{1472, 1452}[i] // an MTU of 1500 less IP and UDP headers
				for size := 1; size <= largest; size += 1 + 15*(size/64) {
					n.check(n.echo(target, payload[:size]))
				}
				n.check(n.echo(target, payload[:largest-1]))
				n.check(n.echo(target, payload[:largest]))
			}
		}
	})
}

// TestLargeDownloadIsIdentical moves 100 MiB by TCP and compares every byte.
func TestLargeDownloadIsIdentical(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		blob := make([]byte, 100<<20)
		rand.NewChaCha8([32]byte{2}).Read(blob)
		sum := sha256.Sum256(blob)
		n.serveHTTP(func(int) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(blob) })
		})
		for _, a := range []string{vip4, "[" + vip6 + "]"} {
			file := filepath.Join(t.TempDir(), "blob")
			n.command(n.client, "curl", "-sS", "--max-time", "55", "-g", "-o", file, "http://"+a+"/")
			got, err := os.ReadFile(file)
			n.check(err)
			if gotSum := sha256.Sum256(got); gotSum != sum {
				t.Errorf("%s: %d bytes with hash %s, want %s", a, len(got), hex.EncodeToString(gotSum[:8]), hex.EncodeToString(sum[:8]))
			}
		}
	})
}

// TestUpload sends 16 MiB the other way.
func TestUpload(t *testing.T) {
	n := start(t, setup{})
	blob := make([]byte, 16<<20)
	rand.NewChaCha8([32]byte{3}).Read(blob)
	n.serveHTTP(func(int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h := sha256.New()
			var b bytes.Buffer
			if _, err := b.ReadFrom(r.Body); err == nil {
				h.Write(b.Bytes())
			}
			fmt.Fprint(w, hex.EncodeToString(h.Sum(nil)))
		})
	})
	file := filepath.Join(t.TempDir(), "blob")
	n.check(os.WriteFile(file, blob, 0o600))
	got := n.command(n.client, "curl", "-sS", "--max-time", "30", "--data-binary", "@"+file, "http://"+vip4+"/")
	sum := sha256.Sum256(blob)
	if want := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

func TestPingOfServiceAddresses(t *testing.T) {
	each(t, func(t *testing.T, n *network) {
		for _, a := range []string{vip4, cluster4, vip6, cluster6} {
			out := n.command(n.client, "ping", "-c", "3", "-i", "0.2", "-W", "2", a)
			if !strings.Contains(out, "3 received") {
				t.Errorf("ping %s:\n%s", a, out)
			}
		}
	})
}

// TestChecksumOffload lets the peers leave their checksums to the network card, which a veth does not have, and not.
func TestChecksumOffload(t *testing.T) {
	for _, offload := range []string{"on", "off"} {
		t.Run("tx-checksum "+offload, func(t *testing.T) {
			each(t, func(t *testing.T, n *network) {
				n.command(n.client, "ethtool", "-K", "eth0", "tx", offload)
				for _, b := range n.backend {
					n.command(b, "ethtool", "-K", "eth0", "tx", offload)
				}
				n.serveNames()
				n.serveEcho()
				for _, a := range []string{vip4, "[" + vip6 + "]"} {
					n.command(n.client, "curl", "-sS", "--max-time", "5", "-g", "http://"+a+"/")
					for size := 1; size < 40; size++ {
						n.check(n.echo(a+":7", bytes.Repeat([]byte{0xff}, size)))
					}
				}
			})
		})
	}
}

// iperfEnd is what iperf3 --json says at the end.
type iperfEnd struct {
	End struct {
		SumReceived struct{ Bytes float64 } `json:"sum_received"`
		Sum         struct {
			Packets     int
			LostPackets int `json:"lost_packets"`
		}
	}
}

// TestIperf runs iperf3 through the VIP: TCP both ways, and UDP at a rate that must not lose anything to speak of.
func TestIperf(t *testing.T) {
	n := start(t, setup{extra: oneBackend})
	if _, err := n.backend[0].Start(nil, "iperf3", "-s"); err != nil {
		t.Fatal(err)
	}
	await(t, "iperf3 listens", func() bool { return strings.Contains(n.command(n.backend[0], "ss", "-ltn"), ":5201") })
	iperf := func(args ...string) (out iperfEnd) {
		cmd := append([]string{"-c", "198.19.200.11", "-t", "2", "--json", "--connect-timeout", "3000"}, args...)
		n.check(json.Unmarshal([]byte(n.command(n.client, "iperf3", cmd...)), &out))
		return out
	}
	for _, args := range [][]string{{}, {"-R"}} {
		if bytes := iperf(args...).End.SumReceived.Bytes; bytes < 10<<20 {
			t.Errorf("iperf3 %v: %.0f bytes in two seconds", args, bytes)
		}
	}
	// On a busy machine a receiver may wait for a processor for longer than its buffer lasts, which is no loss of the gateway's.
	const rounds = 5
	for range rounds {
		sum := iperf("-u", "-b", "8M", "-l", "1200").End.Sum
		if sum.Packets >= 800 && sum.LostPackets*100 <= sum.Packets {
			return
		}
		t.Logf("iperf3 by UDP: %d of %d lost", sum.LostPackets, sum.Packets)
	}
	t.Errorf("iperf3 by UDP lost more than one in a hundred in each of %d rounds", rounds)
}

// oneBackend is a service with one endpoint: iperf3 needs its two connections on one server.
const oneBackend = `
[[service]]
namespace = "shop"
name = "iperf"
type = "LoadBalancer"
load_balancer_ips = ["198.19.200.11"]

  [[service.port]]
  name = "tcp"
  port = 5201
  [[service.port]]
  name = "udp"
  protocol = "UDP"
  port = 5201

  [[service.endpoint]]
  address = "198.18.1.11"
`

// TestTwoQueues uses two queues on every link: the kernel spreads flows over them, and a flow's two directions come in on
// queues of different workers.
func TestTwoQueues(t *testing.T) {
	for _, s := range variants() {
		s.queues, s.direct = 2, true
		t.Run(s.driver+"/"+s.mode, func(t *testing.T) {
			n := start(t, s)
			n.serveNames()
			n.serveEcho()
			for i := range 64 {
				n.check(n.echo(fmt.Sprintf("%s:7", vip4), bytes.Repeat([]byte{byte(i)}, 64)))
				n.check(n.echo(fmt.Sprintf("[%s]:7", vip6), bytes.Repeat([]byte{byte(i)}, 64)))
			}
			for range 16 { // the first fragment of a datagram, which has ports, comes in on another queue than the rest, or not
				n.check(n.echo(fmt.Sprintf("%s:7", vip4), bytes.Repeat([]byte{4}, 5000)))
				n.check(n.echo(fmt.Sprintf("[%s]:7", vip6), bytes.Repeat([]byte{6}, 5000)))
			}
			if seen := n.ask("http://"+vip4+"/", 32); seen["error"] > 0 {
				t.Errorf("answers: %v", seen)
			}
			if s.mode == "generic" {
				return // there the kernel takes every frame of a veth for one of its first queue
			}
			for queue, packets := range n.received() {
				if packets == 0 {
					t.Errorf("nothing came in on %s", queue)
				}
			}
		})
	}
}

// received returns the packets that each queue's socket has received, by "interface/queue".
func (n *network) received() map[string]float64 {
	n.t.Helper()
	stats, err := n.stats()
	n.check(err)
	sockets, ok := stats["sockets"].([]any)
	if !ok || len(sockets) != 4 {
		n.t.Fatalf("sockets of the stats: %v", stats["sockets"])
	}
	all := map[string]float64{}
	for _, s := range sockets {
		m := s.(map[string]any)
		all[fmt.Sprintf("%v/%v", m["interface"], m["queue"])] = m["rx_packets"].(float64)
	}
	return all
}
