package e2e

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"
)

// routes spreads connections to one address over three services: one on each backend, and one that there is not.
func routes() string {
	text := `
[[tcp_route]]
namespace = "shop"
name = "split"
listen = ["198.19.200.30:80", "[2001:db8:97::30]:80"]
  [[tcp_route.backend]]
  service = "shop/v1"
  port = "http"
  weight = 3
  [[tcp_route.backend]]
  service = "shop/v2"
  port = 80

[[tcp_route]]
namespace = "shop"
name = "broken"
listen = ["198.19.200.31:80"]
  [[tcp_route.backend]]
  service = "shop/v3"
  port = 80

[[udp_route]]
namespace = "shop"
name = "echo"
listen = ["198.19.200.30:80"]
  [[udp_route.backend]]
  service = "shop/v2"
  port = 7
`
	for i := range backends {
		text += fmt.Sprintf(`
[[service]]
namespace = "shop"
name = "v%d"
ip_family_policy = "RequireDualStack"
  [[service.port]]
  name = "http"
  port = 80
  target_port = 8080
  [[service.port]]
  name = "echo"
  protocol = "UDP"
  port = 7
  target_port = 7007
  [[service.endpoint]]
  address = %q
  [[service.endpoint]]
  address = %q
`, i+1, backend4(i), backend6(i))
	}
	return text
}

// TestRoutes sends real connections and datagrams to the listeners of routes.
func TestRoutes(t *testing.T) {
	n := start(t, setup{extra: routes()})
	n.serveNames()
	n.serveEcho()
	for _, url := range []string{"http://198.19.200.30/", "http://[2001:db8:97::30]/"} {
		// Exact shares are a matter of package nat; here both services answer, the one with more weight more often.
		seen := n.ask(url, 80)
		if seen["error"] != 0 || seen["wk-1"] < seen["wk-2"] || seen["wk-2"] == 0 {
			t.Errorf("%s: %v", url, seen)
		}
	}
	n.check(n.echo("198.19.200.30:80", []byte("datagram")))
	for _, addr := range []string{"198.19.200.31:80", "198.19.200.30:81"} {
		err := n.client.Do(func() error {
			c, err := net.DialTimeout("tcp", addr, 3*time.Second)
			if err == nil {
				c.Close()
			}
			return err
		})
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v, want connection refused", addr, err)
		}
	}
	if out := n.command(n.client, "ping", "-c", "1", "-W", "2", "198.19.200.30"); !strings.Contains(out, "1 received") {
		t.Errorf("ping: %s", out)
	}
}
