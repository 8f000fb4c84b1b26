package engine_test

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice/config/topology"
)

// withHealthPorts gives a bed three services with external traffic policy Local, on NodePorts of the client's side: one with a
// local endpoint of each family, one whose only local endpoint is about to end, and one without any.
func withHealthPorts(b *bed) {
	t := b.topology
	front := []netip.Addr{netip.MustParseAddr("198.18.0.1"), netip.MustParseAddr("2001:db8:a::1")}
	t.Gateway.LocalAddresses = append(front, t.Gateway.LocalAddresses...)
	t.Gateway.NodePortAddresses, t.Gateway.Healthz = front, "0.0.0.0:10256"
	t.Nodes = []topology.Node{{Name: "gw", Ready: true}}
	ready := topology.Endpoint{Node: "gw", Ready: true, Serving: true, Weight: 1, Ports: map[string]uint16{"echo": 7007}}
	leaving := ready
	leaving.Ready, leaving.Terminating = false, true
	remote := ready
	remote.Node = "wk-1"
	for i, e := range []topology.Endpoint{ready, leaving, remote} {
		s := t.Services[0]
		s.Name, s.Type, s.ExternalTrafficPolicy = fmt.Sprintf("local-%d", i), topology.LoadBalancer, topology.PolicyLocal
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{198, 19, 0, byte(30 + i)}),
			netip.MustParseAddr(fmt.Sprintf("2001:db8:96::%x", 0x30+i))}
		s.HealthCheckNodePort = uint16(30990 + i)
		s.Ports = []topology.Port{{Name: "echo", Protocol: topology.TCP, Port: 7, NodePort: uint16(30080 + i)}}
		s.Endpoints = nil
		for _, a := range []string{"198.18.1.11", "2001:db8:b::11"} {
			e.Address = netip.MustParseAddr(a)
			s.Endpoints = append(s.Endpoints, e)
		}
		t.Services = append(t.Services, s)
	}
}

// TestHealthPortsFromOutside asks the health check ports as a load balancer does, on addresses whose NodePorts XDP takes off
// the wire.
func TestHealthPortsFromOutside(t *testing.T) {
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			b := newBed(t)
			withHealthPorts(b)
			b.topology.Gateway.XDPMode = mode
			b.check(b.backend.Route("198.18.0.0/24", "198.18.1.1"))
			b.check(b.backend.Route("2001:db8:a::/64", "2001:db8:b::1"))
			b.serve()
			b.run()
			for _, host := range []string{"198.18.0.1", "[2001:db8:a::1]"} {
				b.check(b.echo(host + ":30080"))
				b.check(b.echo(host + ":30081")) // the endpoint that is about to end still gets new connections
				for i, want := range []string{"200 1", "503 0", "503 0"} {
					body := fmt.Sprintf(`{"service":{"namespace":"shop","name":"local-%d"},"localEndpoints":%s,"serviceProxyHealthy":true}`,
						i, want[4:])
					if got := b.curl(fmt.Sprintf("http://%s:%d/", host, 30990+i)); got != body+"\n"+want {
						t.Errorf("%s, service %d: got %q, want %s and %q", host, i, got, want, body)
					}
				}
				for path, want := range map[string]string{"healthz": `"nodeEligible":true,"healthy":true`, "livez": `"healthy":true`} {
					got := b.curl("http://" + host + ":10256/" + path)
					if !strings.Contains(got, want) || !strings.HasSuffix(got, "\n200 ") {
						t.Errorf("%s/%s: %q", host, path, got)
					}
				}
				if got := b.curl("http://" + host + ":10256/ready"); got != "OK200 " {
					t.Errorf("%s/ready: %q", host, got)
				}
			}
			// The addresses towards the backends serve no NodePorts, and so no health checks either.
			if got := b.curl("http://198.18.1.1:30990/"); got != "000 " {
				t.Errorf("on an address without NodePorts: %q", got)
			}
			b.stop()
			if got := b.curl("http://198.18.0.1:30990/"); got != "000 " {
				t.Errorf("after the end: %q", got)
			}
		})
	}
}

// curl asks from the client, and returns the body, the status (000 without an answer) and the weight in the headers.
func (b *bed) curl(url string) string {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := b.client.Output(ctx, "curl", "-sg", "--max-time", "5", "-w",
		"%{http_code} %header{x-load-balancing-endpoint-weight}", url)
	if err != nil && !strings.HasPrefix(string(out), "000") {
		b.t.Fatalf("curl %s: %v, %q", url, err, out)
	}
	return string(out)
}
