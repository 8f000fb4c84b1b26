package dns

import (
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// udp opens a socket on loopback.
func udp(t *testing.T) *net.UDPConn {
	t.Helper()
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestBatch takes more messages than a batch holds, one of them cut off, and echoes them; one has no client to go back to.
func TestBatch(t *testing.T) {
	server, client := udp(t), udp(t)
	const sent, long, lost = batchLen + 8, 5, 7
	for i := range sent {
		message := fmt.Appendf(nil, "message %d", i)
		if i == long {
			message = make([]byte, maxQuery+1)
		}
		if _, err := client.WriteTo(message, server.LocalAddr()); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(false)
	var sizes []int
	unsent, at := 0, 0
	for at < sent {
		n, err := b.receive(raw)
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, n)
		for i := range n {
			query, whole := b.query(i)
			if whole != (at != long) {
				t.Errorf("message %d: whole %v", at, whole)
			}
			if at == lost {
				b.clients[i] = unix.RawSockaddrInet6{Family: unix.AF_INET} // port 0: the kernel refuses it
			}
			if whole {
				b.add(i, copy(b.reply(), query))
			}
			at++
		}
		unsent += b.send(raw)
	}
	if want := []int{batchLen, sent - batchLen}; !slices.Equal(sizes, want) || unsent != 1 {
		t.Errorf("batches of %v, want %v; %d unsent, want 1", sizes, want, unsent)
	}
	for i := range sent {
		if i == long || i == lost {
			continue
		}
		buf := make([]byte, 64)
		n, from, err := client.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(buf[:n]), fmt.Sprintf("message %d", i); got != want || from != server.LocalAddr().(*net.UDPAddr).AddrPort() {
			t.Errorf("got %q from %v, want %q", got, from, want)
		}
	}
}

// TestBatchAllocatesNothing takes and answers queries again and again.
func TestBatchAllocatesNothing(t *testing.T) {
	server, client := udp(t), udp(t)
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(false)
	query, to := []byte("query"), server.LocalAddr().(*net.UDPAddr).AddrPort()
	got := testing.AllocsPerRun(100, func() {
		if _, err := client.WriteToUDPAddrPort(query, to); err != nil {
			t.Fatal(err)
		}
		if _, err := b.receive(raw); err != nil {
			t.Fatal(err)
		}
		b.add(0, 5)
		if unsent := b.send(raw); unsent != 0 {
			t.Fatalf("%d unsent", unsent)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations a query, want 0", got)
	}
}

// TestBatchEndsWithTheSocket: what waits for queries is told when the socket is closed.
func TestBatchEndsWithTheSocket(t *testing.T) {
	server := udp(t)
	raw, err := server.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	b := newBatch(false)
	if _, err := b.receive(raw); err == nil || transient(err) {
		t.Errorf("receive: %v, want net.ErrClosed", err)
	}
	b.add(0, 1)
	if unsent := b.send(raw); unsent != 1 {
		t.Errorf("%d unsent, want 1", unsent)
	}
}
