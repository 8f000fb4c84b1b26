package fib

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
	"sluice/xdp/packet"
)

// TestOverrun loses messages of the kernel, and expects the snapshot to be right in the end all the same.
func TestOverrun(t *testing.T) {
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	gw, err := l.Host("gateway")
	check(err)
	peer, err := l.Host("peer")
	check(err)
	check(l.Link(lab.End{Host: gw, Name: "eth0"}, lab.End{Host: peer, Name: "eth0"}, lab.LinkOptions{}))
	check(gw.Addr("eth0", "198.18.0.1/24"))
	link, err := gw.Netlink().LinkByName("eth0")
	check(err)
	var w *Watcher
	check(gw.Do(func() (err error) {
		w, err = Watch([]int{link.Attrs().Index}, slog.New(slog.DiscardHandler))
		return err
	}))
	t.Cleanup(func() { check(w.Close()) })
	check(w.socket.SetReceiveBufferSize(1, false)) // the kernel makes the least of it that it allows
	const routes, neighbours = 2000, 200
	var batch strings.Builder
	for i := range routes {
		fmt.Fprintf(&batch, "route add 198.19.%d.%d/32 via 198.18.0.2\n", i/250, i%250)
	}
	for i := range neighbours {
		fmt.Fprintf(&batch, "neigh add 198.18.0.%d lladdr 02:00:00:00:00:%02x dev eth0\n", 2+i, 2+i)
	}
	file := t.TempDir() + "/batch"
	check(os.WriteFile(file, []byte(batch.String()), 0o600))
	_, err = gw.Output(context.Background(), "ip", "-batch", file)
	check(err)
	wrong := func() (n int) {
		s := w.Current()
		for i := range routes {
			a := netip.AddrFrom4([4]byte{198, 19, byte(i / 250), byte(i % 250)})
			if hop := s.Lookup(packet.AddrFrom(a)); hop.State != Ready || hop.DstMAC[5] != 2 {
				n++
			}
		}
		for i := range neighbours {
			if hop := s.Lookup(packet.AddrFrom(netip.AddrFrom4([4]byte{198, 18, 0, byte(2 + i)}))); hop.DstMAC[5] != byte(2+i) {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(5 * time.Second); wrong() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d of %d next hops are wrong after 5 s", wrong(), routes+neighbours)
		}
	}
}
