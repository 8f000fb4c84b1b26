package lab_test

import (
	"net"
	"testing"
	"time"

	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

func TestHostsTalkOverABridge(t *testing.T) {
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	host := func(name string) *lab.Host {
		h, err := l.Host(name)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b, sw := host("a"), host("b"), host("switch")
	check(l.Link(lab.End{Host: a, Name: "eth0"}, lab.End{Host: sw, Name: "p0"}, lab.LinkOptions{Queues: 2}))
	check(l.Link(lab.End{Host: b, Name: "eth0"}, lab.End{Host: sw, Name: "p1"}, lab.LinkOptions{MTU: 1400}))
	check(sw.Bridge("br0", "p0", "p1"))
	check(a.Addr("eth0", "198.18.9.1/24", "2001:db8:9::1/64"))
	check(b.Addr("eth0", "198.18.9.2/24", "2001:db8:9::2/64"))

	for _, addr := range []string{"198.18.9.2:7", "[2001:db8:9::2]:7"} {
		var server net.Listener
		check(b.Do(func() (err error) { server, err = net.Listen("tcp", addr); return err }))
		check(a.Do(func() error {
			c, err := net.DialTimeout("tcp", addr, 3*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		}))
		server.Close()
	}
	link, err := b.Netlink().LinkByName("eth0")
	check(err)
	if link.Attrs().MTU != 1400 {
		t.Errorf("MTU is %d, want 1400", link.Attrs().MTU)
	}
}
