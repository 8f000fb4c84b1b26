package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// route returns a route t/name with a listener and one backend.
func route(name string, change func(*RouteInput)) RouteInput {
	b := RouteBackendInput{Service: "t/s", Port: int64(80)}
	b.SetDefaults()
	in := RouteInput{Namespace: "t", Name: name, Listen: []string{"203.0.113.5:443"}, Backends: []RouteBackendInput{b}}
	if change != nil {
		change(&in)
	}
	return in
}

// routes returns an input with service t/s and routes.
func routes(tcp, udp []RouteInput) *Input {
	in := input("10.96.0.0/16")
	addService(in, "s", nil)
	in.TCPRoutes, in.UDPRoutes = tcp, udp
	return in
}

func TestRouteFaults(t *testing.T) {
	listen := func(l ...string) func(*RouteInput) { return func(in *RouteInput) { in.Listen = l } }
	backend := func(change func(*RouteBackendInput)) func(*RouteInput) {
		return func(in *RouteInput) { change(&in.Backends[0]) }
	}
	for _, c := range []struct {
		name   string
		change func(*RouteInput)
		want   []string
	}{
		{"good", nil, nil},
		{"IPv6", listen("[2001:db8:ee::5]:443"), nil},
		{"name of a subdomain", func(in *RouteInput) { in.Name = "a.b" }, nil},
		{"no names", func(in *RouteInput) { in.Namespace, in.Name, in.Backends[0].Service = "", "", "t/s" },
			[]string{"tcp_route[0].namespace: missing", "tcp_route[0].name: not a DNS name"}},
		{"no listener", listen(), []string{"tcp_route[0].listen: missing"}},
		{"no port", listen("203.0.113.5", "203.0.113.5:0", "203.0.113.5:65536", "x:1", "[::ffff:203.0.113.5]:1", "[fe80::1%eth0]:1"),
			[]string{"tcp_route[0].listen[0]: not an address with a port", "tcp_route[0].listen[1]: not an address with a port",
				"tcp_route[0].listen[2]: not an address with a port", "tcp_route[0].listen[3]: not an address with a port",
				"tcp_route[0].listen[4]: not an address with a port", "tcp_route[0].listen[5]: not an address with a port"}},
		{"loopback, link", listen("127.0.0.1:80", "[fe80::1]:80", "0.0.0.0:80", "224.0.0.1:80"),
			[]string{"tcp_route[0].listen[0]: cannot be the address", "tcp_route[0].listen[1]: cannot be the address",
				"tcp_route[0].listen[2]: cannot be the address", "tcp_route[0].listen[3]: cannot be the address"}},
		{"address of a node", listen("198.18.0.10:80"), []string{"tcp_route[0].listen[0]: an address of node"}},
		{"ClusterIP", listen("10.96.0.7:80"), []string{"tcp_route[0].listen[0]: inside the service range"}},
		{"listener twice", listen("203.0.113.5:443", "203.0.113.5:443"), []string{"tcp_route[0].listen[1]: there twice"}},
		{"no backend", func(in *RouteInput) { in.Backends = nil }, []string{"tcp_route[0].backend: 0 backends"}},
		{"16 backends", func(in *RouteInput) { in.Backends = slices.Repeat(in.Backends, 16) }, nil},
		{"17 backends", func(in *RouteInput) { in.Backends = slices.Repeat(in.Backends, 17) }, []string{"tcp_route[0].backend: 17 backends"}},
		{"least weight", backend(func(b *RouteBackendInput) { b.Weight = 0 }), nil},
		{"most weight", backend(func(b *RouteBackendInput) { b.Weight = 1_000_000 }), nil},
		{"too much weight", backend(func(b *RouteBackendInput) { b.Weight = 1_000_001 }), []string{"tcp_route[0].backend[0].weight: out of range"}},
		{"negative weight", backend(func(b *RouteBackendInput) { b.Weight = -1 }), []string{"tcp_route[0].backend[0].weight: out of range"}},
		{"service without namespace", backend(func(b *RouteBackendInput) { b.Service = "s" }), []string{"tcp_route[0].backend[0].service: not a service"}},
		{"service with port", backend(func(b *RouteBackendInput) { b.Service = "t/s:80" }), []string{"tcp_route[0].backend[0].service: not a service"}},
		{"port missing", backend(func(b *RouteBackendInput) { b.Port = nil }), []string{"tcp_route[0].backend[0].port: missing"}},
		{"port of a wrong type", backend(func(b *RouteBackendInput) { b.Port = true }), []string{"tcp_route[0].backend[0].port: expected the name"}},
		{"port 0", backend(func(b *RouteBackendInput) { b.Port = int64(0) }), []string{"tcp_route[0].backend[0].port: out of range"}},
		{"port name in capitals", backend(func(b *RouteBackendInput) { b.Port = "WEB" }), []string{"tcp_route[0].backend[0].port: not a DNS label"}},
	} {
		t.Run(c.name, func(t *testing.T) { expectFaults(t, routes([]RouteInput{route("r", c.change)}, nil), c.want...) })
	}
	t.Run("name twice", func(t *testing.T) {
		expectFaults(t, routes([]RouteInput{route("r", nil), route("r", listen("203.0.113.6:443"))}, []RouteInput{route("r", nil)}),
			"tcp_route[1].name: there twice")
	})
	t.Run("external_ip_cidrs", func(t *testing.T) {
		in := routes([]RouteInput{route("r", nil)}, nil)
		r := &resolver{in: in, out: &Topology{}, owners: newOwners()}
		for cidr, ok := range map[string]bool{"203.0.113.0/24": true, "203.0.114.0/24": false} {
			r.out.Cluster.ExternalIPCIDRs = []netip.Prefix{netip.MustParsePrefix(cidr)}
			if got := r.listenAddr("x", netip.MustParseAddr("203.0.113.5")); got != ok {
				t.Errorf("with %s: allowed %v", cidr, got)
			}
		}
	})
}

// TestRouteAndServices holds routes and services off each other's addresses.
func TestRouteAndServices(t *testing.T) {
	external := func(port int) func(*ServiceInput) {
		return func(s *ServiceInput) { s.ExternalIPs, s.Ports[0].Port = []string{"203.0.113.5"}, port }
	}
	in := routes([]RouteInput{route("r", nil)}, []RouteInput{route("r", nil)})
	addService(in, "other", external(443))
	expectFaults(t, in, "tcp_route[0].listen[0]: belongs to service t/other already")
	in = routes([]RouteInput{route("r", nil)}, nil)
	addService(in, "other", external(444))
	expectFaults(t, in)
	// An address of a pool that a route listens on is given to no service.
	in = routes([]RouteInput{route("r", nil)}, nil)
	in.Cluster.LoadBalancerPools = []string{"203.0.113.5/32"}
	addService(in, "other", loadBalancer)
	expectFaults(t, in, "service[1].load_balancer_ips: no free address left")
}

func TestRouteBackends(t *testing.T) {
	for _, c := range []struct {
		service string
		port    any
		want    RouteBackend
	}{
		{"t/s", int64(80), RouteBackend{"t/s", "", 1, ""}},
		{"t/named", "web", RouteBackend{"t/named", "web", 1, ""}},
		{"t/named", int64(80), RouteBackend{"t/named", "web", 1, ""}},
		{"t/named", "dns", RouteBackend{"t/named", "dns", 1, BackendNotFound}}, // UDP
		{"t/named", int64(81), RouteBackend{"t/named", "81", 1, BackendNotFound}},
		{"t/none", "web", RouteBackend{"t/none", "web", 1, BackendNotFound}},
		{"t/headless", int64(80), RouteBackend{"t/headless", "80", 1, BackendNotFound}},
		{"t/alias", int64(80), RouteBackend{"t/alias", "80", 1, BackendNotFound}},
		{"u/other", int64(80), RouteBackend{"u/other", "80", 1, RefNotPermitted}},
		{"u/none", "web", RouteBackend{"u/none", "web", 1, RefNotPermitted}}, // whether it is there is not told
	} {
		t.Run(fmt.Sprint(c.service, ":", c.port), func(t *testing.T) {
			in := routes([]RouteInput{route("r", func(r *RouteInput) { r.Backends[0].Service, r.Backends[0].Port = c.service, c.port })}, nil)
			addService(in, "named", func(s *ServiceInput) {
				s.Ports = []PortInput{{Name: "web", Protocol: "TCP", Port: 80}, {Name: "dns", Protocol: "UDP", Port: 81}}
			})
			addService(in, "headless", func(s *ServiceInput) { s.ClusterIPs = []string{"None"} })
			addService(in, "alias", func(s *ServiceInput) { s.Type, s.ExternalName = "ExternalName", "db.example.org" })
			addService(in, "other", func(s *ServiceInput) { s.Namespace = "u" })
			if got := resolve(t, in).Routes[0].Backends; !slices.Equal(got, []RouteBackend{c.want}) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

// TestRoutePrecedence gives one listener to the oldest of its routes.
func TestRoutePrecedence(t *testing.T) {
	old, young := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 1, 1, 0, 0, 1, 0, time.UTC)
	at := func(ns, name string, created time.Time) RouteInput {
		return route(name, func(r *RouteInput) {
			r.Namespace, r.Created, r.Listen = ns, created, append(r.Listen, "203.0.113.5:444")
		})
	}
	for _, c := range []struct {
		name string
		list []RouteInput
		want []string // in order of precedence
	}{
		{"older first", []RouteInput{at("a", "a", young), at("b", "b", old)}, []string{"b/b", "a/a"}},
		{"tie: namespace", []RouteInput{at("ns-b", "r", old), at("ns-a", "r", old)}, []string{"ns-a/r", "ns-b/r"}},
		{"tie: name", []RouteInput{at("a", "y", old), at("a", "x", old)}, []string{"a/x", "a/y"}},
		{"no time is the youngest", []RouteInput{at("a", "a", time.Time{}), at("b", "b", young)}, []string{"b/b", "a/a"}},
		{"two without", []RouteInput{at("b", "b", time.Time{}), at("a", "a", time.Time{})}, []string{"a/a", "b/b"}},
		{"in another zone", []RouteInput{at("a", "a", old), at("b", "b", old.Add(-time.Second).In(time.FixedZone("", 3600)))}, []string{"b/b", "a/a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.list[0].Listen[1] = "203.0.113.5:445" // one listener in common, one of its own each
			got := resolve(t, routes(c.list, nil)).Routes
			if got[0].Key() != c.want[0] || got[1].Key() != c.want[1] {
				t.Fatalf("%s before %s", got[0].Key(), got[1].Key())
			}
			both := netip.MustParseAddrPort("203.0.113.5:443")
			if len(got[0].Listen) != 2 || got[0].Listen[0] != both || len(got[0].Lost) != 0 {
				t.Errorf("winner: %+v", got[0])
			}
			if len(got[1].Listen) != 1 || got[1].Listen[0] == both || !slices.Equal(got[1].Lost, []LostListener{{both, c.want[0]}}) {
				t.Errorf("loser: %+v", got[1])
			}
		})
	}
	both := resolve(t, routes([]RouteInput{route("r", nil)}, []RouteInput{route("r", nil)})).Routes
	if len(both[0].Listen) != 1 || len(both[1].Listen) != 1 || both[0].Protocol == both[1].Protocol {
		t.Errorf("TCP and UDP on one port: %+v", both)
	}
}
