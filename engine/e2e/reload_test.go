package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// endpointText is one endpoint in the gateway's file, as topologyText writes it.
func endpointText(address string, backend int) string {
	return fmt.Sprintf("  [[service.endpoint]]\n  address = %q\n  node = \"wk-%d\"\n", address, backend+1)
}

// edit changes the gateway's file, has it read again, and waits until the log says so.
func (n *network) edit(change func(text string) string, says string) {
	n.t.Helper()
	text, err := os.ReadFile(n.config)
	n.check(err)
	n.check(os.WriteFile(n.config, []byte(change(string(text))), 0o600))
	before := strings.Count(n.log.String(), says)
	n.check(n.sluice.Signal(syscall.SIGHUP))
	for end := time.Now().Add(10 * time.Second); strings.Count(n.log.String(), says) == before; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			n.t.Fatalf("the log does not say %q", says)
		}
	}
}

// remove takes a backend's IPv4 endpoint out of the file.
func remove(backend int) func(string) string {
	return func(text string) string {
		return strings.Replace(text, endpointText(backend4(backend), backend), "", 1)
	}
}

// nameDatagrams answers every datagram on UDP port 7007 of a backend with the number of the backend, and then once more for as
// long as the test runs, every few milliseconds: a server that does not know that it has been taken out.
func (n *network) nameDatagrams(ctx context.Context, backend int) {
	var conn net.PacketConn
	n.check(n.backend[backend].Do(func() (err error) { conn, err = net.ListenPacket("udp4", backend4(backend)+":7007"); return err }))
	n.t.Cleanup(func() { conn.Close() })
	go func() {
		buf := make([]byte, 64)
		for {
			_, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			go func() {
				for range 100 {
					if _, err := conn.WriteTo([]byte{'0' + byte(backend)}, from); err != nil || ctx.Err() != nil {
						return
					}
					time.Sleep(5 * time.Millisecond)
				}
			}()
		}
	}()
}

// TestReloadMovesUDP removes the endpoint that a client keeps sending to from one socket: soon it hears of the other one only,
// though the old one goes on sending.
func TestReloadMovesUDP(t *testing.T) {
	for _, s := range []setup{{mode: "native"}, {mode: "generic"}} {
		t.Run(s.mode, func(t *testing.T) {
			n := start(t, s)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			for i := range backends {
				n.nameDatagrams(ctx, i)
			}
			var conn net.Conn
			n.check(n.client.Do(func() (err error) { conn, err = net.Dial("udp", cluster4+":7"); return err }))
			defer conn.Close()
			who := func() byte {
				t.Helper()
				n.check(conn.SetDeadline(time.Now().Add(time.Second)))
				_, err := conn.Write([]byte("?"))
				n.check(err)
				buf := make([]byte, 64)
				_, err = conn.Read(buf)
				n.check(err)
				return buf[0]
			}
			old := who()
			for range 5 {
				if now := who(); now != old {
					t.Fatalf("from %c to %c without a change", old, now)
				}
			}
			n.edit(remove(int(old-'0')), "msg=reloaded")
			// The client's buffer holds what the old endpoint has answered before.
			moved := time.Now()
			for who() == old {
				if time.Since(moved) > 10*time.Second {
					t.Fatal("the client stays on the endpoint that was removed")
				}
			}
			t.Logf("moved after %v", time.Since(moved).Round(time.Millisecond))
			for range 50 {
				if now := who(); now == old {
					t.Fatal("an answer of the endpoint that was removed, after one of the other")
				}
			}
		})
	}
}

// TestReloadDrainsTCP removes the endpoint of an open connection, and then the service: it goes on. New connections go to
// the other endpoint, and at last are refused.
func TestReloadDrainsTCP(t *testing.T) {
	n := start(t, setup{})
	for i := range backends {
		l := n.listen(n.backend[i], "tcp4", backend4(i)+":8080")
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					lines := bufio.NewScanner(c)
					for lines.Scan() {
						fmt.Fprintf(c, "%d\n", i)
					}
				}()
			}
		}()
	}
	dial := func() (conn net.Conn, err error) {
		err = n.client.Do(func() (err error) { conn, err = net.DialTimeout("tcp", vip4+":80", 3*time.Second); return err })
		return conn, err
	}
	who := func(c net.Conn) (backend int) {
		t.Helper()
		n.check(c.SetDeadline(time.Now().Add(5 * time.Second)))
		_, err := fmt.Fprintln(c, "?")
		n.check(err)
		_, err = fmt.Fscanln(c, &backend)
		n.check(err)
		return backend
	}
	conn, err := dial()
	n.check(err)
	defer conn.Close()
	old := who(conn)
	n.edit(remove(old), "msg=reloaded")
	if now := who(conn); now != old {
		t.Errorf("the connection is with %d, was with %d", now, old)
	}
	for range 8 {
		c, err := dial()
		n.check(err)
		if now := who(c); now == old {
			t.Errorf("a new connection goes to the endpoint that was removed")
		}
		n.check(c.Close())
	}
	n.edit(func(text string) string { return strings.Replace(text, vip4, "198.19.200.99", 1) }, "msg=reloaded")
	if now := who(conn); now != old {
		t.Errorf("without its address the connection is with %d, was with %d", now, old)
	}
	if c, err := dial(); err == nil {
		c.Close()
		t.Error("connects to an address that is no service's any longer")
	}
}

// TestReloadWithFaults keeps what was there, and names each fault by its line.
func TestReloadWithFaults(t *testing.T) {
	n := start(t, setup{})
	n.serveNames()
	var broken string
	n.edit(func(text string) string {
		broken = strings.Replace(text, "node_port = 30080", "node_prot = 30080", 1)
		return broken
	}, "the topology is refused")
	if want := lineOf(broken, "node_prot"); !strings.Contains(n.log.String(), want) {
		t.Errorf("no %q in\n%s", want, n.log)
	}
	n.edit(func(text string) string {
		text = strings.Replace(text, "node_prot", "node_port", 1)
		return strings.Replace(text, `interfaces = ["front", "back"]`, `interfaces = ["front"]`, 1)
	}, "gateway.interfaces: [front back] is in use")
	stats, err := n.stats()
	n.check(err)
	if r, ok := stats["reloads"].(map[string]any); !ok || r["failed"] != 2.0 || r["done"] != 0.0 || stats["generation"] != 1.0 {
		t.Errorf("reloads %v, generation %v", stats["reloads"], stats["generation"])
	}
	if seen := n.ask("http://"+vip4+"/", 8); seen["error"] > 0 {
		t.Errorf("answers %v", seen)
	}
	if err := n.sluice.Signal(0); errors.Is(err, os.ErrProcessDone) {
		t.Error("the process has ended")
	}
}

// TestTrafficBeforeTheStart: a client that has been sending from one socket since before there was a gateway is served
// as soon as there is one. Nothing remembers that it was not.
func TestTrafficBeforeTheStart(t *testing.T) {
	n := build(t, setup{})
	n.serveEcho()
	var conn net.Conn
	n.check(n.client.Do(func() (err error) { conn, err = net.Dial("udp", cluster4+":7"); return err }))
	defer conn.Close()
	ask := func() error {
		n.check(conn.SetDeadline(time.Now().Add(20 * time.Millisecond)))
		if _, err := conn.Write([]byte("?")); err != nil {
			return err // what an earlier datagram was answered with by ICMP
		}
		_, err := conn.Read(make([]byte, 64))
		return err
	}
	for range 5 {
		if ask() == nil {
			t.Fatal("an answer without a gateway")
		}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				conn.Write([]byte("?")) // refused or lost until the gateway is ready
				time.Sleep(time.Millisecond)
			}
		}
	}()
	n.run(binary(t))
	close(stop)
	<-stopped
	await(t, "the client is served", func() bool { return ask() == nil })
}
