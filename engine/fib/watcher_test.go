package fib_test

import (
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/engine/fib"
	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
	"sluice/xdp/packet"
)

// bed is a gateway and a peer with one link between them, and a Watcher on the gateway.
type bed struct {
	t        *testing.T
	gw, peer *lab.Host
	w        *fib.Watcher
}

func newBed(t *testing.T) *bed {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	b := &bed{t: t}
	var err error
	b.gw, err = l.Host("gateway")
	b.check(err)
	b.peer, err = l.Host("peer")
	b.check(err)
	b.check(l.Link(lab.End{Host: b.gw, Name: "eth0"}, lab.End{Host: b.peer, Name: "eth0"}, lab.LinkOptions{}))
	b.check(b.gw.Addr("eth0", "198.18.0.1/24", "2001:db8::1/64"))
	b.check(b.peer.Addr("eth0", "198.18.0.2/24", "2001:db8::2/64"))
	b.check(b.gw.Do(func() (err error) {
		b.w, err = fib.Watch([]int{b.link(b.gw).Attrs().Index}, slog.New(slog.DiscardHandler))
		return err
	}))
	t.Cleanup(func() { b.check(b.w.Close()) })
	return b
}

func (b *bed) check(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bed) link(h *lab.Host) netlink.Link {
	b.t.Helper()
	l, err := h.Netlink().LinkByName("eth0")
	b.check(err)
	return l
}

func (b *bed) lookup(dst string) fib.NextHop {
	return b.w.Current().Lookup(packet.AddrFrom(netip.MustParseAddr(dst)))
}

// await waits until the next hop of dst is as wanted, and returns it.
func (b *bed) await(what, dst string, ok func(fib.NextHop) bool) fib.NextHop {
	b.t.Helper()
	for end := time.Now().Add(8 * time.Second); ; time.Sleep(time.Millisecond) {
		hop := b.lookup(dst)
		if ok(hop) {
			return hop
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: after 8 s %s is still %+v", what, dst, hop)
		}
	}
}

func in(s fib.State) func(fib.NextHop) bool { return func(h fib.NextHop) bool { return h.State == s } }

func TestWatcherResolves(t *testing.T) {
	b := newBed(t)
	for _, dst := range []string{"198.18.0.2", "2001:db8::2"} {
		hop := b.lookup(dst)
		if hop.State != fib.Incomplete || hop.Gateway.String() != dst || hop.Iface != 0 || hop.MTU != 1500 {
			t.Fatalf("before: %+v", hop)
		}
		began := time.Now()
		b.w.Resolve(hop)
		hop = b.await("resolved", dst, in(fib.Ready))
		t.Logf("%s resolved in %v", dst, time.Since(began))
		if want := b.link(b.peer).Attrs().HardwareAddr.String(); net.HardwareAddr(hop.DstMAC[:]).String() != want {
			t.Errorf("DstMAC is %x, want %s", hop.DstMAC, want)
		}
		if want := b.link(b.gw).Attrs().HardwareAddr.String(); net.HardwareAddr(hop.SrcMAC[:]).String() != want {
			t.Errorf("SrcMAC is %x, want %s", hop.SrcMAC, want)
		}
	}
	if hop := b.lookup("198.18.0.1"); hop.State != fib.Local {
		t.Errorf("own address: %+v", hop)
	}
}

func TestWatcherFollowsRoutes(t *testing.T) {
	b := newBed(t)
	b.await("no route yet", "198.19.0.1", in(fib.NoRoute))
	before := b.w.Current().Generation()
	b.check(b.gw.Route("198.19.0.0/24", "198.18.0.2"))
	hop := b.await("route", "198.19.0.1", in(fib.Incomplete))
	if hop.Gateway.String() != "198.18.0.2" {
		t.Errorf("gateway %s", hop.Gateway)
	}
	if g := b.w.Current().Generation(); g != before+1 {
		t.Errorf("generation went from %d to %d for one route", before, g)
	}
	b.w.Resolve(hop)
	b.await("router resolved", "198.19.0.1", in(fib.Ready))
	_, prefix, err := net.ParseCIDR("198.19.0.0/24")
	b.check(err)
	b.check(b.gw.Netlink().RouteDel(&netlink.Route{Dst: prefix}))
	b.await("route deleted", "198.19.0.1", in(fib.NoRoute))
	b.check(b.gw.Netlink().RouteAdd(&netlink.Route{Dst: prefix, Type: 6}))
	b.check(b.gw.Route("198.19.0.0/16", "198.18.0.2"))
	b.await("under the blackhole's cover", "198.19.1.1", in(fib.Ready))
	if hop := b.lookup("198.19.0.1"); hop.State != fib.NoRoute {
		t.Errorf("blackhole: %+v", hop)
	}
	b.check(b.gw.Route("2001:db8:5::/48", "2001:db8::2"))
	b.await("IPv6 route", "2001:db8:5::1", in(fib.Incomplete))
}

func TestWatcherFollowsLinks(t *testing.T) {
	b := newBed(t)
	b.w.Resolve(b.lookup("198.18.0.2"))
	b.await("resolved", "198.18.0.2", in(fib.Ready))
	b.check(b.gw.Down("eth0"))
	b.await("down", "198.18.0.2", in(fib.NoRoute))
	b.check(b.gw.Up("eth0"))
	b.await("up again", "198.18.0.2", in(fib.Incomplete))
	b.check(b.gw.Netlink().LinkSetMTU(b.link(b.gw), 1400))
	b.await("MTU", "198.18.0.2", func(h fib.NextHop) bool { return h.MTU == 1400 })
}

func TestWatcherKeeps(t *testing.T) {
	b := newBed(t)
	peer, gone := netip.MustParseAddr("198.18.0.2"), netip.MustParseAddr("198.18.0.77")
	b.w.Keep([]netip.Addr{peer, gone, netip.MustParseAddr("2001:db8::2")})
	b.await("resolved ahead", "198.18.0.2", in(fib.Ready))
	b.await("IPv6 resolved ahead", "2001:db8::2", in(fib.Ready))
	b.await("reported", "198.18.0.77", func(h fib.NextHop) bool { return h.State == fib.Incomplete && h.Failed })
	if f := b.w.Current().Failed([]netip.Addr{peer, gone}); len(f) != 1 || f[0] != gone {
		t.Errorf("failed: %v, want %v", f, gone)
	}
	// A changed address is learned although nobody announces it: the kept neighbour is verified when it goes stale. To be
	// quick, make it stale now; the kernel then waits 5 s before it asks.
	b.check(b.peer.Sysctl(map[string]string{"net/ipv4/conf/all/arp_notify": "0"}))
	b.check(b.gw.Sysctl(map[string]string{"net/ipv4/neigh/eth0/delay_first_probe_time": "1"}))
	b.check(b.gw.Sysctl(map[string]string{"net/ipv4/neigh/eth0/ucast_solicit": "1"}))
	fresh := net.HardwareAddr{2, 0, 0, 0, 0, 0x42}
	b.check(b.peer.Netlink().LinkSetHardwareAddr(b.link(b.peer), fresh))
	hop := b.lookup("198.18.0.2")
	b.check(b.gw.Netlink().NeighSet(&netlink.Neigh{LinkIndex: hop.Link, IP: peer.AsSlice(),
		HardwareAddr: hop.DstMAC[:], State: netlink.NUD_STALE}))
	b.await("new MAC", "198.18.0.2", func(h fib.NextHop) bool { return h.DstMAC == [6]byte(fresh) })
}

func TestGenerationStaysWithoutChange(t *testing.T) {
	b := newBed(t)
	b.w.Resolve(b.lookup("198.18.0.2"))
	hop := b.await("resolved", "198.18.0.2", in(fib.Ready))
	// Fresh interfaces go on to get routes and neighbours of their own for a while (duplicate address detection, router
	// solicitations), which move the generation with right. A watcher that counts what changes no answer moves it every time.
	const tries = 20
	for range tries {
		before := b.w.Current().Generation()
		b.flap(hop)
		if b.w.Current().Generation() == before {
			return
		}
	}
	t.Errorf("the generation moved in each of %d tries", tries)
}

// flap takes a neighbour from reachable to stale and back, five times: the same answer throughout.
func (b *bed) flap(hop fib.NextHop) {
	for range 5 {
		b.check(b.gw.Netlink().NeighSet(&netlink.Neigh{LinkIndex: hop.Link, IP: hop.Gateway.Netip().AsSlice(),
			HardwareAddr: hop.DstMAC[:], State: netlink.NUD_STALE}))
		b.w.Resolve(hop)
		time.Sleep(10 * time.Millisecond)
	}
}
