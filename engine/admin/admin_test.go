package admin_test

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sluice/engine/admin"
	"sluice/xdp"
)

// fixed answers always the same.
type fixed struct{}

func (fixed) Stats() admin.Stats {
	return admin.Stats{Uptime: 1.5, Generation: 3, Packets: map[string]uint64{"established": 7},
		Sockets: []xdp.SocketStats{{Interface: "eth0", RxPackets: 9}}, Conntrack: admin.Conntrack{Live: 4}}
}

func (fixed) Services() []admin.Service {
	return []admin.Service{{Namespace: "shop", Name: "cart", Type: "ClusterIP", ClusterIPs: []netip.Addr{netip.MustParseAddr("198.19.0.10")},
		Ports: []admin.Port{{Name: "web", Protocol: "TCP", Port: 80, Backends: 2}}}}
}

func (fixed) Endpoints() []admin.Endpoint {
	return []admin.Endpoint{{Service: "shop/cart", Port: "web", Protocol: "TCP", Address: netip.MustParseAddrPort("198.18.1.11:8080"),
		Ready: true, Serving: true, Weight: 1, Health: admin.HealthDown, Reason: "connection refused"}}
}

func listen(t *testing.T, path string) *admin.Server {
	t.Helper()
	s, err := admin.Listen(path, fixed{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestServer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "admin.sock")
	s := listen(t, path)
	go s.Serve()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, mode %v, want 0660", err, info.Mode())
	}
	c, ctx := admin.NewClient("unix:"+path), context.Background()
	if got, err := c.Stats(ctx); err != nil || !reflect.DeepEqual(got, fixed{}.Stats()) {
		t.Errorf("stats %+v, %v", got, err)
	}
	if got, err := c.Services(ctx); err != nil || !reflect.DeepEqual(got, fixed{}.Services()) {
		t.Errorf("services %+v, %v", got, err)
	}
	if got, err := c.Endpoints(ctx); err != nil || !reflect.DeepEqual(got, fixed{}.Endpoints()) {
		t.Errorf("endpoints %+v, %v", got, err)
	}
	if _, err := admin.Listen(path, fixed{}, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second server: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("the socket is still there: %v", err)
	}
	if _, err := c.Stats(ctx); err == nil {
		t.Error("an answer after Close")
	}
}

func TestStaleSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	s := listen(t, path)
	if err := s.Close(); err != nil { // before Serve
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Listen(path, fixed{}, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("took the place of a file")
	}
}
