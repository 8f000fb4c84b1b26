package nat_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
	"sluice/config/topology"
	"sluice/nat"
)

// gatewayCase is one entry of testdata/gateway_cases.json: routes as the Gateway API has them, and what becomes of them.
type gatewayCase struct {
	ID    string
	Input struct {
		Proto    string
		Backends []struct {
			N string
			W *int
		}
		Routes    []struct{ Name, Created string }
		Listeners []struct {
			Name, Proto string
			Port        int
		}
		Rules     int
		W         *int
		BackendNS string `json:"backend_ns"`
		Grant     bool
	}
	Expected struct {
		Share     map[string]float64
		Rejected  float64
		Verdict   string
		Winner    string
		Both      string
		Conflict  *bool
		OK        *bool
		Why       string
		Condition string
	}
}

// TestGatewayCases writes each case as a topology file, and loads and compiles that.
func TestGatewayCases(t *testing.T) {
	data, err := os.ReadFile("testdata/gateway_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []gatewayCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) != 10 {
		t.Errorf("%d cases", len(file.Cases))
	}
	for _, c := range file.Cases {
		t.Run(c.ID, func(t *testing.T) { c.run(t) })
	}
}

// run does what the case is about.
func (c *gatewayCase) run(t *testing.T) {
	in, want := &c.Input, &c.Expected
	switch {
	case len(in.Backends) > 0:
		var text strings.Builder
		for _, b := range in.Backends {
			text.WriteString(backendTOML(in.Proto, "shop/"+b.N, b.W))
		}
		c.expectShares(t, routeTOML(in.Proto, "shop", "r", "", listen4+":443")+text.String())
	case len(in.Routes) > 0:
		var text string
		for _, r := range in.Routes {
			ns, name, _ := strings.Cut(r.Name, "/")
			text += routeTOML("TCP", ns, name, r.Created+"T00:00:00Z", listen4+":443") + backendTOML("TCP", ns+"/b", nil)
		}
		routes := mustLoadRoutes(t, text).Routes
		if routes[0].Key() != want.Winner || len(routes[0].Listen) != 1 || len(routes[1].Listen) != 0 || routes[1].Lost[0].Winner != want.Winner {
			t.Errorf("%+v, want %s to win", routes, want.Winner)
		}
	case len(in.Listeners) > 0:
		// Listeners of one Gateway that are in conflict serve nothing, whose counterpart is a fault.
		byProto := map[string][]string{}
		for _, l := range in.Listeners {
			byProto[l.Proto] = append(byProto[l.Proto], fmt.Sprintf("%s:%d", listen4, l.Port))
		}
		var text string
		for proto, list := range byProto {
			text += routeTOML(proto, "shop", "r", "", list...) + backendTOML(proto, "shop/b", nil)
		}
		_, err := loadRoutes(t, text)
		if conflict := err != nil && strings.Contains(err.Error(), "in conflict"); conflict == (want.Both == "") {
			t.Errorf("%v", err)
		}
		if want.Conflict != nil && (err != nil) != *want.Conflict {
			t.Errorf("%v, want conflict %v", err, *want.Conflict)
		}
	case in.Rules > 0:
		_, err := loadRoutes(t, routeTOML("TCP", "shop", "r", "", listen4+":443")+strings.Repeat("  [[tcp_route.rule]]\n", in.Rules))
		if (err == nil) != *want.OK || !strings.Contains(err.Error(), "unknown key") {
			t.Errorf("%v, want ok %v: %s", err, *want.OK, want.Why)
		}
	case in.W != nil:
		_, err := loadRoutes(t, routeTOML("TCP", "shop", "r", "", listen4+":443")+backendTOML("TCP", "shop/b", in.W))
		if (err == nil) != *want.OK || !strings.Contains(err.Error(), "0 to 1000000") {
			t.Errorf("%v, want ok %v: %s", err, *want.OK, want.Why)
		}
	case in.BackendNS != "" && !in.Grant:
		for _, proto := range []string{"TCP", "UDP"} {
			c.expectRefused(t, proto)
		}
	default:
		t.Error("nothing is tested here")
	}
}

// expectShares compares the shares, and the part that is rejected.
func (c *gatewayCase) expectShares(t *testing.T, text string) {
	const n = 20000
	got := spread(compile(t, mustLoadRoutes(t, text), nat.CompileOptions{}), overTCP, n)
	want := map[string]float64{}
	for name, part := range c.Expected.Share {
		want["shop/"+name+":web"] = part
	}
	if rejected := c.Expected.Rejected; rejected > 0 {
		want["reject route_backend_invalid"] = rejected
	}
	if c.Expected.Verdict == "reject every connection" {
		want["reject route_backend_invalid"] = 1
	}
	if len(want) == 0 {
		t.Error("nothing is expected")
	}
	expectShares(t, got, n, want)
}

// expectRefused expects that a backend in another namespace is there and refused.
func (c *gatewayCase) expectRefused(t *testing.T, proto string) {
	top := mustLoadRoutes(t, routeTOML(proto, "shop", "r", "", listen4+":443")+backendTOML(proto, c.Input.BackendNS+"/b", nil))
	if p := top.Routes[0].Backends[0].Problem; !strings.HasSuffix(c.Expected.Condition, p) || p == "" {
		t.Errorf("problem %q, want %q", p, c.Expected.Condition)
	}
	number, verdict := uint8(overTCP), nat.Reject
	if proto == "UDP" {
		number, verdict = overUDP, nat.Drop
	}
	tu := tuple(number, outside, 40000, listen4, 443)
	if d := compile(t, top, nat.CompileOptions{}).Decide(&tu, nat.Origin{}); d.Verdict != verdict || !strings.Contains(c.Expected.Verdict, d.Verdict.String()) {
		t.Errorf("%s: %s (%s), want %s", proto, d.Verdict, d.Reason, c.Expected.Verdict)
	}
}

// routeTOML returns the head of a route.
func routeTOML(proto, ns, name, created string, listen ...string) string {
	text := fmt.Sprintf("[[%s_route]]\nnamespace = %q\nname = %q\nlisten = [\"%s\"]\n",
		strings.ToLower(proto), ns, name, strings.Join(listen, `", "`))
	if created != "" {
		text += "created = " + created + "\n"
	}
	return text
}

// backendTOML returns a backend of the route before it, of the same protocol; the weight may be left out.
func backendTOML(proto, service string, weight *int) string {
	text := fmt.Sprintf("  [[%s_route.backend]]\n  service = %q\n  port = 80\n", strings.ToLower(proto), service)
	if weight != nil {
		text += fmt.Sprintf("  weight = %d\n", *weight)
	}
	return text
}

// loadRoutes loads a topology of services a and b in the namespaces of the cases, and of routes.
func loadRoutes(t *testing.T, routes string) (*topology.Topology, error) {
	t.Helper()
	text := "[gateway]\nnode = \"gw-a\"\n[cluster]\nservice_cidrs = [\"10.112.0.0/20\"]\n[[node]]\nname = \"gw-a\"\naddresses = [\"198.18.0.10\"]\n"
	for i, ns := range []string{"shop", "other", "ns-a", "ns-b"} {
		for j, name := range []string{"a", "b"} {
			text += fmt.Sprintf("[[service]]\nnamespace = %q\nname = %q\n  [[service.port]]\n  name = \"web\"\n  port = 80\n"+
				"  [[service.port]]\n  name = \"dns\"\n  protocol = \"UDP\"\n  port = 80\n"+
				"  [[service.endpoint]]\n  address = \"10.66.%d.%d\"\n", ns, name, i, j+1)
		}
	}
	path := filepath.Join(t.TempDir(), "topology.toml")
	if err := os.WriteFile(path, []byte(text+routes), 0o600); err != nil {
		t.Fatal(err)
	}
	return config.Load(path)
}

func mustLoadRoutes(t *testing.T, routes string) *topology.Topology {
	t.Helper()
	top, err := loadRoutes(t, routes)
	if err != nil {
		t.Fatal(err)
	}
	return top
}
