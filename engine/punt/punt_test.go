package punt_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/engine/punt"
	"sluice/xdp"
	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// bed is a gateway that punts everything that the XDP program gives it, and a peer.
type bed struct {
	t        *testing.T
	gw, peer *lab.Host
	set      *punt.Set
	seen     chan struct{} // closed when the worker has ended
	received int           // frames that the worker saw; valid once seen is closed
}

func (b *bed) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// newBed takes every packet to the gateway's addresses with a destination port above 1023 off the wire.
func newBed(t *testing.T, mode xdp.Mode) (*bed, context.CancelFunc) {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	b := &bed{t: t, seen: make(chan struct{})}
	var err error
	b.gw, err = l.Host("gateway")
	b.check(err)
	b.peer, err = l.Host("peer")
	b.check(err)
	b.check(l.Link(lab.End{Host: b.gw, Name: "eth0"}, lab.End{Host: b.peer, Name: "eth0"}, lab.LinkOptions{}))
	b.check(b.gw.Addr("eth0", "198.18.0.1/24", "2001:db8::1/64"))
	b.check(b.peer.Addr("eth0", "198.18.0.2/24", "2001:db8::2/64"))
	// Strict source validation has to be content with where the frames come in.
	b.check(b.gw.Sysctl(map[string]string{"net/ipv4/conf/all/rp_filter": "1"}))
	if mode == xdp.ModeGeneric { // sends what no wire would carry: one segment for many
		_, err := b.peer.Output(context.Background(), "ethtool", "-K", "eth0", "tso", "off", "gso", "off")
		b.check(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.run(ctx, mode)
	return b, cancel
}

func (b *bed) run(ctx context.Context, mode xdp.Mode) {
	rules := &xdp.Rules{
		SNATAddrs: []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("2001:db8::1")},
		SNATPorts: xdp.PortRange{First: 1024, Last: 65535},
	}
	var sockets *xdp.Sockets
	var attachment *xdp.Attachment
	b.check(b.gw.Do(func() (err error) {
		if sockets, err = xdp.Open(xdp.Options{Interfaces: []string{"eth0"}, Mode: mode}); err != nil {
			return err
		}
		if b.set, err = punt.Open(sockets.Interfaces); err != nil {
			return err
		}
		attachment, err = xdp.Attach(sockets, rules)
		return err
	}))
	go b.work(ctx, sockets.Ports[0])
	b.t.Cleanup(func() {
		<-b.seen
		b.check(attachment.Close())
		b.check(b.set.Close())
		b.check(sockets.Close())
	})
}

// work punts all frames.
func (b *bed) work(ctx context.Context, port xdp.Port) {
	defer close(b.seen)
	p := b.set.Punter()
	frames := make([]xdp.Frame, 64)
	for ctx.Err() == nil {
		n := port.Receive(frames)
		b.received += n
		for i := range frames[:n] {
			p.Punt(frames[i].Iface, frames[i].Bytes())
		}
		port.Release(frames[:n])
		if err := port.Flush(); err != nil {
			b.t.Error(err)
			return
		}
		if n == 0 {
			if err := port.Wait(10 * time.Millisecond); err != nil {
				b.t.Error(err)
				return
			}
		}
	}
}

// TestOwnConnections runs the gateway's own TCP connections over the punt: every packet to the gateway makes the detour.
func TestOwnConnections(t *testing.T) {
	for _, mode := range []xdp.Mode{xdp.ModeNative, xdp.ModeGeneric} {
		for _, tc := range []struct{ name, addr, offload string }{
			{"IPv4 with checksum offload", "198.18.0.2:7", "on"},
			{"IPv6 with checksum offload", "[2001:db8::2]:7", "on"},
			{"IPv4 with complete checksums", "198.18.0.2:7", "off"},
			{"IPv6 with complete checksums", "[2001:db8::2]:7", "off"},
		} {
			t.Run(string(mode)+" "+tc.name, func(t *testing.T) {
				b, cancel := newBed(t, mode)
				defer cancel()
				_, err := b.peer.Output(context.Background(), "ethtool", "-K", "eth0", "tx", tc.offload)
				b.check(err)
				var server net.Listener
				b.check(b.peer.Do(func() (err error) { server, err = net.Listen("tcp", tc.addr); return err }))
				defer server.Close()
				go echo(server)
				var client net.Conn
				b.check(b.gw.Do(func() (err error) { client, err = net.DialTimeout("tcp", tc.addr, 3*time.Second); return err }))
				defer client.Close()
				b.check(client.SetDeadline(time.Now().Add(10 * time.Second)))
				sent := bytes.Repeat([]byte("sluice"), 100_000)
				go client.Write(sent)
				got := make([]byte, len(sent))
				if _, err := io.ReadFull(client, got); err != nil || !bytes.Equal(got, sent) {
					t.Fatalf("%v, equal %v", err, bytes.Equal(got, sent))
				}
				client.Close()
				cancel()
				<-b.seen
				punted, failed := b.set.Punted()
				if punted < 100 || failed != 0 || punted != uint64(b.received) {
					t.Errorf("punted %d, failed %d of %d received", punted, failed, b.received)
				}
				if punted > 5000 { // 600 kB are 411 segments
					t.Errorf("punted %d frames: they come around again", punted)
				}
			})
		}
	}
}

// echo serves one connection.
func echo(l net.Listener) {
	c, err := l.Accept()
	if err != nil {
		return
	}
	defer c.Close()
	// The deadline of the client ends it.
	_, _ = io.Copy(c, c)
}

// TestComesInOnItsInterface listens on a socket bound to the interface that the frame was taken from.
func TestComesInOnItsInterface(t *testing.T) {
	b, cancel := newBed(t, xdp.ModeNative)
	defer cancel()
	out, err := b.gw.Output(context.Background(), "ip", "-o", "link", "show")
	b.check(err)
	if !strings.Contains(string(out), "slp") {
		t.Fatalf("no device:\n%s", out)
	}
	lc := net.ListenConfig{Control: bindToDevice("eth0")}
	var server net.PacketConn
	b.check(b.gw.Do(func() (err error) {
		server, err = lc.ListenPacket(context.Background(), "udp", "198.18.0.1:5000")
		return err
	}))
	defer server.Close()
	b.check(b.peer.Do(func() error {
		c, err := net.Dial("udp", "198.18.0.1:5000")
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = c.Write([]byte("hello"))
		return err
	}))
	b.check(server.SetReadDeadline(time.Now().Add(3 * time.Second)))
	buf := make([]byte, 10)
	if n, _, err := server.ReadFrom(buf); err != nil || string(buf[:n]) != "hello" {
		t.Fatalf("%q, %v", buf[:n], err)
	}
	cancel()
	<-b.seen // the datagram may be here before it is counted
	if punted, _ := b.set.Punted(); punted == 0 {
		t.Error("it did not come by the punt")
	}
}

func TestPuntRefuses(t *testing.T) {
	p := (&punt.Set{}).Punter()
	if p.Punt(0, make([]byte, 60)) || p.Punt(-1, nil) {
		t.Error("took a frame for an interface that is not attached")
	}
}

func TestPuntDoesNotAllocate(t *testing.T) {
	b, cancel := newBed(t, xdp.ModeNative)
	cancel()
	<-b.seen
	p, frame := b.set.Punter(), make([]byte, 60)
	if n := testing.AllocsPerRun(100, func() { p.Punt(0, frame) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
