package xdp_test

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/xdp"
	"sluice/xdp/lab"
)

// TestMain turns the test binary into a daemon that attaches and sleeps, when TestKill starts it so.
func TestMain(m *testing.M) {
	if os.Getenv("SLUICE_TEST_ATTACH") == "" {
		os.Exit(m.Run())
	}
	s, err := xdp.Open(xdp.Options{Interfaces: []string{"left", "right"}, Ring: 64})
	if err == nil {
		_, err = xdp.Attach(s, rules)
	}
	fmt.Println("attached:", err)
	time.Sleep(time.Minute)
}

// programs returns for which interfaces of h an XDP program is attached.
func programs(t *testing.T, h *lab.Host) (out []string) {
	t.Helper()
	links, err := h.Netlink().LinkList()
	check(t, err)
	for _, l := range links {
		if x := l.Attrs().Xdp; x != nil && x.Attached {
			out = append(out, l.Attrs().Name)
		}
	}
	return out
}

// TestKill kills a process with SIGKILL: its program goes with it, and the queues can be taken by the next one.
func TestKill(t *testing.T) {
	n := newNetwork(t, 1)
	t.Setenv("SLUICE_TEST_ATTACH", "1")
	var out strings.Builder
	p, err := n.gw.Start(&out, os.Args[0])
	check(t, err)
	waitFor(t, "the process to attach", func() bool { return len(programs(t, n.gw)) == 2 })
	check(t, p.Signal(syscall.SIGKILL))
	<-p.Done()
	waitFor(t, "the program to be detached", func() bool { return len(programs(t, n.gw)) == 0 })

	s, _ := n.open(t, xdp.Options{}, rules)
	startForwarders(t, s)
	left, right := newWire(t, n.left, "eth0"), newWire(t, n.right, "eth0")
	left.send(udpFrame(t, client, service, []byte("x")))
	if got := right.recv(service.Port(), 3*time.Second); got == nil || got[0] != 0xfe {
		t.Errorf("after the restart: got %x", got)
	}
}

// TestNoLeak opens and closes everything and counts descriptors.
func TestNoLeak(t *testing.T) {
	n := newNetwork(t, 1)
	cycle := func() error {
		s, err := xdp.Open(xdp.Options{Interfaces: []string{"left", "right"}, Ring: 64})
		if err != nil {
			return err
		}
		a, err := xdp.Attach(s, rules)
		if err != nil {
			return err
		}
		if err := a.Close(); err != nil {
			return err
		}
		return s.Close()
	}
	check(t, n.gw.Do(cycle)) // opens what the libraries keep open
	before := descriptors(t)
	for range 3 {
		check(t, n.gw.Do(cycle))
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	check(t, err)
	return len(entries)
}

// TestWake ends a wait on real sockets from another goroutine, and finds Wake harmless after Close.
func TestWake(t *testing.T) {
	for _, driver := range []string{xdp.DriverAFXDP, xdp.DriverAsavie} {
		t.Run(driver, func(t *testing.T) {
			n := newNetwork(t, 1)
			s, _ := n.open(t, xdp.Options{Driver: driver, Ring: 64}, &xdp.Rules{})
			p := s.Ports[0]
			time.AfterFunc(20*time.Millisecond, p.Wake)
			start := time.Now()
			check(t, p.Wait(10*time.Second))
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("Wait took %v although Wake was called", took)
			}
			var longest time.Duration
			for range 5 { // a signal may end one early
				start = time.Now()
				check(t, p.Wait(30*time.Millisecond))
				longest = max(longest, time.Since(start))
			}
			if longest < 20*time.Millisecond {
				t.Errorf("waits after that took %v at most: Wake was not used up", longest)
			}
			check(t, p.Close())
			p.Wake()
			p.Stats()
		})
	}
}
