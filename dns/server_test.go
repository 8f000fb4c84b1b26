package dns_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/dnstest"
	"sluice/dns/wire"
	"sluice/dns/zone"
)

func open(t *testing.T, listen string, change func(*dns.Options)) *dns.Server {
	t.Helper()
	o := dns.Options{Listen: netip.MustParseAddrPort(listen), Sockets: 2}
	if change != nil {
		change(&o)
	}
	s, err := dns.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// exchange asks a server over a real socket.
func exchange(t *testing.T, network, addr, name string, qtype uint16, edns uint16) *mdns.Msg {
	t.Helper()
	m := new(mdns.Msg).SetQuestion(name, qtype)
	if edns > 0 {
		m.SetEdns0(edns, false)
	}
	c := mdns.Client{Net: network, Timeout: 5 * time.Second}
	reply, _, err := c.Exchange(m, addr)
	if err != nil {
		t.Fatalf("%s %s: %v", network, name, err)
	}
	return reply
}

func TestServerAnswers(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(listen, func(t *testing.T) {
			s := open(t, listen, nil)
			s.Serve(dnstest.Zones(t), nil)
			addr := s.Addr().String()
			for _, network := range []string{"udp", "tcp"} {
				m := exchange(t, network, addr, "cart.shop.svc.grid.example.", mdns.TypeA, 0)
				if got := dnstest.Text(m.Answer); len(got) != 1 || got[0] != "cart.shop.svc.grid.example. 5 IN A 10.96.4.10" {
					t.Errorf("%s: %v", network, m)
				}
				if m := exchange(t, network, addr, "no.shop.svc.grid.example.", mdns.TypeA, 0); m.Rcode != mdns.RcodeNameError || len(m.Ns) != 1 {
					t.Errorf("%s: %v", network, m)
				}
			}
			c := s.Counters()
			for name, p := range map[string]dns.ProtocolCounters{"udp": c.UDP, "tcp": c.TCP} {
				if p.Queries() != 2 || p.Replies[wire.NoError] != 1 || p.Replies[wire.NXDomain] != 1 {
					t.Errorf("%s: %+v", name, p)
				}
			}
		})
	}
}

// TestServerLargeAnswers asks for 300 addresses: cut by UDP, whole by TCP.
func TestServerLargeAnswers(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	s.Serve(dnstest.Zones(t), nil)
	const name = "swarm.shop.svc.grid.example."
	for _, tt := range []struct {
		network string
		edns    uint16
		want    int
	}{{"udp", 0, 29}, {"udp", 4096, 73}, {"tcp", 0, 300}, {"tcp", 512, 300}} {
		t.Run(fmt.Sprint(tt.network, tt.edns), func(t *testing.T) {
			m := exchange(t, tt.network, s.Addr().String(), name, mdns.TypeA, tt.edns)
			if len(m.Answer) != tt.want || m.Truncated != (tt.want < 300) {
				t.Errorf("%d records, TC %v, want %d", len(m.Answer), m.Truncated, tt.want)
			}
		})
	}
	if c := s.Counters(); c.UDP.Truncated != 2 || c.TCP.Truncated != 0 {
		t.Errorf("%+v", c)
	}
	// Every host of the service with its address.
	m := exchange(t, "tcp", s.Addr().String(), "_swarm._tcp.swarm.shop.svc.grid.example.", mdns.TypeSRV, 0)
	if len(m.Answer) != 300 || len(m.Extra) != 300 || m.Truncated {
		t.Errorf("SRV: %d records, %d additional, TC %v", len(m.Answer), len(m.Extra), m.Truncated)
	}
}

// TestServerWildcard asks at an address that is not the first of its interface: the reply must come from there, else a client with
// a connected socket does not see it.
func TestServerWildcard(t *testing.T) {
	for _, tt := range []struct{ listen, ask string }{
		{"0.0.0.0:0", "127.0.0.1"}, {"0.0.0.0:0", "127.0.0.77"}, {"[::]:0", "127.0.0.77"}, {"[::]:0", "::1"},
	} {
		t.Run(tt.listen+" "+tt.ask, func(t *testing.T) {
			s := open(t, tt.listen, nil)
			s.Serve(dnstest.Zones(t), nil)
			addr := netip.AddrPortFrom(netip.MustParseAddr(tt.ask), s.Addr().Port()).String()
			if m := exchange(t, "udp", addr, "cart.shop.svc.grid.example.", mdns.TypeA, 0); len(m.Answer) != 1 {
				t.Error(m)
			}
		})
	}
}

// TestServerPipelining sends many queries in one write, the last one in two halves, and reads the replies in order.
func TestServerPipelining(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	s.Serve(dnstest.Zones(t), nil)
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	const n = 200
	var stream []byte
	for i := range n {
		m := new(mdns.Msg).SetQuestion("cart.shop.svc.grid.example.", mdns.TypeA)
		m.Id = uint16(i)
		b, _ := m.Pack()
		stream = append(binary.BigEndian.AppendUint16(stream, uint16(len(b))), b...)
	}
	half := len(stream) - 20
	if _, err := conn.Write(stream[:half]); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if i == n-1 { // all replies but the last have come: half a query holds back none
			if _, err := conn.Write(stream[half:]); err != nil {
				t.Fatal(err)
			}
		}
		var length [2]byte
		if _, err := io.ReadFull(conn, length[:]); err != nil {
			t.Fatalf("reply %d: %v", i, err)
		}
		reply := make([]byte, binary.BigEndian.Uint16(length[:]))
		if _, err := io.ReadFull(conn, reply); err != nil {
			t.Fatal(err)
		}
		if id := binary.BigEndian.Uint16(reply); int(id) != i {
			t.Fatalf("reply %d has id %d", i, id)
		}
	}
}

func TestServerConnectionLimits(t *testing.T) {
	s := open(t, "127.0.0.1:0", func(o *dns.Options) { o.MaxConnections, o.IdleTimeout = 2, 300*time.Millisecond })
	dial := func() net.Conn {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ended := func(c net.Conn) bool {
		if err := c.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
			t.Fatal(err)
		}
		_, err := c.Read(make([]byte, 1))
		return err == io.EOF || strings.Contains(fmt.Sprint(err), "reset")
	}
	first, second := dial(), dial()
	time.Sleep(50 * time.Millisecond) // both are accepted
	start := time.Now()
	if !ended(dial()) || time.Since(start) > 200*time.Millisecond {
		t.Error("a third connection stays")
	}
	if s.Counters().TCP.Refused != 1 {
		t.Errorf("%+v", s.Counters().TCP)
	}
	// One sends a byte now and then: it must not live longer for that.
	if _, err := first.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if !ended(first) || !ended(second) {
		t.Error("idle connections stay")
	}
}

func TestServerIgnoresWhatIsNoQuery(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	s.Serve(dnstest.Zones(t), nil)
	conn, err := net.Dial("udp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, msg := range [][]byte{{}, {1, 2, 3}, make([]byte, 5000), append([]byte{0, 1, 0x80, 0}, make([]byte, 8)...)} {
		if _, err := conn.Write(msg); err != nil {
			t.Fatal(err)
		}
	}
	if m := exchange(t, "udp", s.Addr().String(), "cart.shop.svc.grid.example.", mdns.TypeA, 0); len(m.Answer) != 1 {
		t.Error(m)
	}
	deadline := time.Now().Add(5 * time.Second)
	for s.Counters().UDP.Ignored < 4 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if c := s.Counters().UDP; c.Ignored != 4 || c.Queries() != 1 {
		t.Errorf("%+v", c)
	}
}

// TestServerSwapsZones changes the zones 1000 times and more under load: each reply is of the one or the other generation, whole.
func TestServerSwapsZones(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	generations := make([]*zone.Zones, 2)
	for i := range generations {
		in := dnstest.Input()
		for j := range in.Services {
			if in.Services[j].Name == "dual" {
				in.Services[j].ClusterIPs = []string{fmt.Sprintf("10.96.7.%d", 1+i)}
				in.Services[j].Ports = in.Services[j].Ports[:1]
				in.Services[j].Ports[0].Port = 8001 + i
			}
		}
		z, err := zone.Compile(dnstest.Resolve(t, in), dnstest.Serial)
		if err != nil {
			t.Fatal(err)
		}
		generations[i] = z
	}
	s.Serve(generations[0], nil)
	stop := make(chan struct{})
	var swapper sync.WaitGroup
	var swaps atomic.Int64
	swapper.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				s.Serve(generations[swaps.Add(1)%2], nil)
			}
		}
	})
	for asked := 0; asked < 200 || swaps.Load() < 1000; asked++ {
		m := exchange(t, "udp", s.Addr().String(), "_http._tcp.dual.shop.svc.grid.example.", mdns.TypeSRV, 0)
		port, addr := m.Answer[0].(*mdns.SRV).Port, m.Extra[0].(*mdns.A).A.String()
		if want := fmt.Sprintf("10.96.7.%d", port-8000); addr != want {
			t.Fatalf("port %d with address %s", port, addr)
		}
	}
	close(stop)
	swapper.Wait()
}

func TestServerClose(t *testing.T) {
	s := open(t, "127.0.0.1:0", nil)
	addr := s.Addr().String()
	idle, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer idle.Close()
	if m := exchange(t, "udp", addr, "cart.shop.svc.grid.example.", mdns.TypeA, 0); m.Rcode != mdns.RcodeServerFailure {
		t.Errorf("without zones: %v", m)
	}
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("closing took %v", d)
	}
	if again, err := dns.Open(dns.Options{Listen: netip.MustParseAddrPort(addr)}); err != nil {
		t.Errorf("the address is not free: %v", err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
}

func TestOpenTakenAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	s, err := dns.Open(dns.Options{Listen: l.Addr().(*net.TCPAddr).AddrPort()})
	if err == nil {
		s.Close()
		t.Fatal("no error")
	}
	if !strings.Contains(err.Error(), "listening on tcp "+l.Addr().String()) {
		t.Error(err)
	}
}
