package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// churnService is a service, on its own addresses and ports, that each reload has otherwise.
func churnService(i int) string {
	return fmt.Sprintf(`
[[service]]
namespace = "churn"
name = "s%d"
type = "NodePort"
cluster_ips = ["198.19.1.%d"]
  [[service.port]]
  name = "x"
  protocol = "UDP"
  port = %d
  node_port = %d
  [[service.endpoint]]
  address = "198.18.1.%d"
  node = "wk-1"
`, i%7, 1+i%200, 1000+i, 31000+i%500, 100+i%100)
}

// TestConnectionsOutliveReloads: connections of services that do not change go on through as many reloads as SIGHUP can
// have made, one of which in four has faults, while other services come and go: an idle one, one that echoes, one that is
// half closed, and datagrams. New ones are served all along, from ports that are used again at once. Nothing reaches the
// client from a backend's own address.
func TestConnectionsOutliveReloads(t *testing.T) {
	n := start(t, setup{})
	n.serveEcho()
	for i := range backends {
		echo := n.listen(n.backend[i], "tcp4", backend4(i)+":8080")
		go accept(echo, func(c net.Conn) { io.Copy(c, c) })
		slow := n.listen(n.backend[i], "tcp4", backend4(i)+":5201")
		go accept(slow, halfClosed)
	}
	leaks := n.watchLeaks()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	dial := func(network, addr string) (conn net.Conn) {
		t.Helper()
		n.check(n.client.Do(func() (err error) { conn, err = net.DialTimeout(network, addr, 3*time.Second); return err }))
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	idle, busy := dial("tcp", cluster4+":80"), dial("tcp", vip4+":80")
	datagrams, half := dial("udp", cluster4+":7"), dial("tcp", cluster4+":5201")
	n.check(echoOn(idle, []byte("first")))
	_, err := half.Write([]byte("all that I have to say"))
	n.check(err)
	n.check(half.(*net.TCPConn).CloseWrite())
	received := make(chan int64, 1)
	go func() {
		size, _ := io.Copy(io.Discard, half)
		received <- size
	}()
	var rounds atomic.Int64
	failed := make(chan error, 3)
	repeat := func(what string, f func() error) {
		go func() {
			for ctx.Err() == nil {
				if err := f(); err != nil && ctx.Err() == nil {
					failed <- fmt.Errorf("%s, after %d rounds: %w", what, rounds.Load(), err)
					return
				}
				rounds.Add(1)
			}
			failed <- nil
		}()
	}
	repeat("an open connection", func() error { return echoOn(busy, []byte("again")) })
	repeat("datagrams", func() error { return echoOn(datagrams, []byte("again")) })
	repeat("a port used again", func() error { return n.shortLived(cluster4+":80", 40123) })

	base, err := os.ReadFile(n.config)
	n.check(err)
	const reloads = 200
	for i := range reloads {
		text := string(base) + churnService(i)
		if i%4 == 3 {
			text += "\n[[service]]\nnmae = \"fault\"\n"
		}
		n.check(os.WriteFile(n.config, []byte(text), 0o600))
		n.check(n.sluice.Signal(syscall.SIGHUP))
		time.Sleep(20 * time.Millisecond)
	}
	cancel()
	for range 3 {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	n.check(echoOn(idle, []byte("last")))
	select {
	case size := <-received:
		t.Fatalf("the half-closed connection ended after %d bytes", size)
	default:
	}
	half.Close()
	stats, err := n.stats()
	n.check(err)
	t.Logf("%d rounds; generation %v, reloads %v, memory %v", rounds.Load(), stats["generation"], stats["reloads"], stats["memory"])
	t.Logf("packets %v", stats["packets"])
	if r := stats["reloads"].(map[string]any); r["done"].(float64) < 10 || r["failed"].(float64) < 5 {
		t.Errorf("reloads %v", r)
	}
	if seen := leaks(); len(seen) != 0 {
		t.Errorf("packets that were not translated: %v", seen)
	}
}

// accept serves connections until the listener is closed.
func accept(l net.Listener, serve func(net.Conn)) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			serve(c)
		}()
	}
}

// halfClosed reads to the end of what the client sends, and then sends a little now and then.
func halfClosed(c net.Conn) {
	if _, err := io.Copy(io.Discard, c); err != nil {
		return
	}
	for {
		if _, err := c.Write([]byte("more")); err != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// shortLived opens a connection from a fixed port, echoes and aborts it, so that the port is free at once.
func (n *network) shortLived(addr string, port int) error {
	return n.client.Do(func() error {
		d := net.Dialer{LocalAddr: &net.TCPAddr{Port: port}, Timeout: 3 * time.Second}
		conn, err := d.Dial("tcp4", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
			return err
		}
		return echoOn(conn, []byte("short"))
	})
}

// watchLeaks counts what reaches the client from addresses of backends, until the function that it returns is called.
func (n *network) watchLeaks() (stop func() map[string]int) {
	n.t.Helper()
	fd := -1
	const all = 0x0300 // ETH_P_ALL in network order
	n.check(n.client.Do(func() (err error) {
		fd, err = syscall.Socket(syscall.AF_PACKET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, all)
		return err
	}))
	n.check(syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &syscall.Timeval{Usec: 100_000}))
	seen, done, stopping := map[string]int{}, make(chan struct{}), atomic.Bool{}
	inside := netip.MustParsePrefix(backend4(0) + "/24").Masked()
	go func() {
		defer close(done)
		buf := make([]byte, 64)
		for !stopping.Load() {
			size, _, err := syscall.Recvfrom(fd, buf, 0)
			if err != nil || size < 28 || buf[0] != 0x45 {
				continue
			}
			if src := netip.AddrFrom4([4]byte(buf[12:16])); inside.Contains(src) {
				seen[fmt.Sprintf("proto %d %v:%d flags %#x", buf[9], src, uint16(buf[20])<<8|uint16(buf[21]), buf[33])]++
			}
		}
	}()
	return func() map[string]int {
		stopping.Store(true)
		<-done
		syscall.Close(fd)
		return seen
	}
}
