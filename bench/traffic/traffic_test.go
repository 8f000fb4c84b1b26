package traffic_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"sluice/bench/traffic"
	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// pair is a link between two hosts, with the ends' indexes and MACs.
type pair struct {
	a, b       *lab.Host
	ia, ib     int
	macA, macB [6]byte
}

func newPair(t *testing.T) pair {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	var p pair
	var err error
	if p.a, err = l.Host("a"); err != nil {
		t.Fatal(err)
	}
	if p.b, err = l.Host("b"); err != nil {
		t.Fatal(err)
	}
	if err := l.Link(lab.End{Host: p.a, Name: "eth0"}, lab.End{Host: p.b, Name: "eth0"}, lab.LinkOptions{}); err != nil {
		t.Fatal(err)
	}
	p.ia, p.macA = end(t, p.a)
	p.ib, p.macB = end(t, p.b)
	return p
}

func end(t *testing.T, h *lab.Host) (index int, mac [6]byte) {
	t.Helper()
	link, err := h.Netlink().LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	copy(mac[:], link.Attrs().HardwareAddr)
	return link.Attrs().Index, mac
}

func (p pair) stream(flows, size int) traffic.Stream {
	return traffic.Stream{SrcMAC: p.macA, DstMAC: p.macB, Src: netip.MustParseAddr("198.18.20.1"),
		Dst: netip.MustParseAddrPort("198.18.21.1:9"), Flows: flows, Size: size, CPU: -1}
}

func TestEveryFrameReachesTheSink(t *testing.T) {
	p := newPair(t)
	sink, err := traffic.NewSink(p.b, p.ib, 9)
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	gen, err := traffic.NewGenerator(p.a, p.ia, p.stream(1024, 60))
	if err != nil {
		t.Fatal(err)
	}
	defer gen.Close()
	const n = 10_000
	if err := gen.Send(n); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, err := sink.Received()
		if err != nil {
			t.Fatal(err)
		}
		if got == n {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the sink counted %d of %d", got, n)
		}
	}
}

// TestDatagramsAreValid lets the kernel judge: a socket gets a datagram only if both checksums are right.
func TestDatagramsAreValid(t *testing.T) {
	for _, size := range []int{60, 61, 512, 1514} {
		p := newPair(t)
		if err := p.b.Addr("eth0", "198.18.21.1/32"); err != nil {
			t.Fatal(err)
		}
		if err := p.b.Sysctl(map[string]string{"net/ipv4/conf/all/rp_filter": "0", "net/ipv4/conf/eth0/rp_filter": "0"}); err != nil {
			t.Fatal(err)
		}
		if err := p.b.Addr("eth0", "198.18.20.254/16"); err != nil { // so that the sources have a route back
			t.Fatal(err)
		}
		ready, err := traffic.Prepare(p.b, p.ib)
		if err != nil {
			t.Fatal(err)
		}
		defer ready.Close()
		var conn net.PacketConn
		if err := p.b.Do(func() (err error) { conn, err = net.ListenPacket("udp4", "198.18.21.1:9"); return err }); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const flows = 32 // each frame takes a page of the socket buffer, which holds about 50
		gen, err := traffic.NewGenerator(p.a, p.ia, p.stream(flows, size))
		if err != nil {
			t.Fatal(err)
		}
		defer gen.Close()
		if err := gen.Send(flows); err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		buf := make([]byte, 2048)
		for len(seen) < flows {
			conn.SetReadDeadline(time.Now().Add(2 * time.Second))
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				t.Fatalf("size %d: %d of %d flows arrived: %v", size, len(seen), flows, err)
			}
			if n != size-42 {
				t.Fatalf("payload of %d bytes, want %d", n, size-42)
			}
			seen[from.String()] = true
		}
	}
}

// TestReplayIsEchoed sends datagrams of several lengths to the echo and counts what comes back.
func TestReplayIsEchoed(t *testing.T) {
	p := newPair(t)
	echo, err := traffic.NewEcho(p.b, p.ib, 53)
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	counter, err := traffic.NewReplyCounter(p.a, p.ia, 53)
	if err != nil {
		t.Fatal(err)
	}
	defer counter.Close()
	frames := make([][]byte, 16)
	for i := range frames {
		message := make([]byte, 20+i)
		message[3] = byte(i % 4) // the response code, which the echo leaves as it is
		from := netip.AddrPortFrom(netip.MustParseAddr("198.18.20.1"), uint16(2000+i))
		frames[i], err = traffic.Datagram(traffic.Link{Src: p.macA, Dst: p.macB}, from, netip.MustParseAddrPort("198.18.21.1:53"), message)
		if err != nil {
			t.Fatal(err)
		}
	}
	replay, err := traffic.NewReplay(p.a, p.ia, frames, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer replay.Close()
	// The number of frames is not exact: a run ends by the clock.
	if err := replay.Run(traffic.Pace{Rate: 20_000, Burst: 16}, 200*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	sent := replay.Sent()
	if sent == 0 {
		t.Fatal("nothing was sent")
	}
	var want [traffic.RCodes]uint64
	for i := range sent {
		want[i%4]++
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		got, err := counter.Replies()
		if err != nil {
			t.Fatal(err)
		}
		if got == want {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("of %d frames replies by response code %v, want %v", sent, got, want)
		}
	}
}

// TestReplayedDatagramIsValid lets the kernel judge, as TestDatagramsAreValid does.
func TestReplayedDatagramIsValid(t *testing.T) {
	p := newPair(t)
	if err := p.b.Addr("eth0", "198.18.20.254/24"); err != nil {
		t.Fatal(err)
	}
	for _, message := range []string{"even", "odd"} {
		// A run sends several; those that are left over go with the socket.
		var conn net.PacketConn
		if err := p.b.Do(func() (err error) { conn, err = net.ListenPacket("udp4", "198.18.20.254:53"); return err }); err != nil {
			t.Fatal(err)
		}
		frame, err := traffic.Datagram(traffic.Link{Src: p.macA, Dst: p.macB}, netip.MustParseAddrPort("198.18.20.1:4000"),
			netip.MustParseAddrPort("198.18.20.254:53"), []byte(message))
		if err != nil {
			t.Fatal(err)
		}
		replay, err := traffic.NewReplay(p.a, p.ia, [][]byte{frame}, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer replay.Close()
		if err := replay.Run(traffic.Pace{Rate: 100, Burst: 1}, 100*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		if err := conn.SetReadDeadline(time.Now().Add(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 2048)
		n, from, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(buf[:n]); got != message || from.String() != "198.18.20.1:4000" {
			t.Errorf("%q from %v, want %q from 198.18.20.1:4000", got, from, message)
		}
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestReplayIsChecked(t *testing.T) {
	if _, err := traffic.NewReplay(nil, 1, make([][]byte, 3), -1); err == nil {
		t.Error("3 frames: no error")
	}
	at6 := netip.MustParseAddrPort("[2001:db8::1]:53")
	if _, err := traffic.Datagram(traffic.Link{}, at6, at6, nil); err == nil {
		t.Error("IPv6: no error")
	}
}

func TestStreamIsChecked(t *testing.T) {
	for _, tc := range []struct {
		name        string
		flows, size int
	}{
		{"no flows", 0, 60}, {"not a power of two", 3, 60}, {"too many", 1 << 21, 60}, {"short", 1, 59}, {"long", 1, 1515},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := traffic.Stream{Src: netip.MustParseAddr("198.18.20.1"), Dst: netip.MustParseAddrPort("198.18.21.1:9"),
				Flows: tc.flows, Size: tc.size, CPU: -1}
			if _, err := traffic.NewGenerator(nil, 1, s); err == nil {
				t.Error("no error")
			}
		})
	}
}
