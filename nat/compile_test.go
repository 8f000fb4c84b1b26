package nat_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/config/topology"
	"sluice/nat"
	"sluice/nat/maglev"
)

// candidates asks table about a packet of a pod to the ClusterIP of cart and returns the verdict and candidates as
// text.
func candidates(table *nat.Table) string {
	tu := tuple(overTCP, anyPod, 40123, clusterIP, 8088)
	d := table.Decide(&tu, nat.Origin{})
	text := []string{d.Verdict.String()}
	for _, b := range d.Candidates {
		text = append(text, b.AddrPort.String())
	}
	return strings.Join(text, " ")
}

func TestCompileEndpoints(t *testing.T) {
	with := func(addr string, edit func(*topology.Endpoint)) topology.Endpoint {
		e := endpoint(addr, "wk-7")
		edit(&e)
		return e
	}
	terminating := func(e *topology.Endpoint) { e.Ready, e.Terminating = false, true }
	gone := func(e *topology.Endpoint) { e.Ready, e.Serving, e.Terminating = false, false, true }
	unready := func(e *topology.Endpoint) { e.Ready, e.Serving = false, false }
	weightless := func(e *topology.Endpoint) { e.Weight = 0 }
	noPort := func(e *topology.Endpoint) { e.Ports = map[string]uint16{"dns": 53} }
	portZero := func(e *topology.Endpoint) { e.Ports["web"] = 0 }
	otherPort := func(e *topology.Endpoint) { e.Ports["web"] = 80 }
	a, b := endpoint("10.64.0.11", "gw-a"), endpoint("10.66.1.9", "wk-7")
	tests := []struct {
		name string
		list []topology.Endpoint
		down string // address of the endpoint that is down
		want string
	}{
		{"sorted by text, then port", []topology.Endpoint{b, with("10.66.1.12", noop), with("10.66.1.12", otherPort), a}, "",
			"forward 10.64.0.11:9090 10.66.1.12:80 10.66.1.12:9090 10.66.1.9:9090"},
		{"unready", []topology.Endpoint{a, with("10.66.1.12", unready)}, "", "forward 10.64.0.11:9090"},
		{"unready only", []topology.Endpoint{with("10.66.1.12", unready)}, "", "reject"},
		{"unready but serving", []topology.Endpoint{with("10.66.1.12", func(e *topology.Endpoint) { e.Ready = false })}, "", "reject"},
		{"terminating beside ready", []topology.Endpoint{a, with("10.66.1.12", terminating)}, "", "forward 10.64.0.11:9090"},
		{"terminating only", []topology.Endpoint{with("10.66.1.12", gone), with("10.66.1.13", terminating)}, "",
			"forward 10.66.1.13:9090"},
		{"no weight", []topology.Endpoint{a, with("10.66.1.12", weightless)}, "", "forward 10.64.0.11:9090"},
		{"no weight at all", []topology.Endpoint{with("10.66.1.12", weightless)}, "", "reject"},
		{"no weight, others leaving", []topology.Endpoint{with("10.66.1.12", weightless), with("10.66.1.13", terminating)}, "",
			"forward 10.66.1.13:9090"},
		{"does not serve the port", []topology.Endpoint{a, with("10.66.1.12", noPort), with("10.66.1.13", portZero)}, "",
			"forward 10.64.0.11:9090"},
		{"down", []topology.Endpoint{a, b}, "10.64.0.11", "forward 10.66.1.9:9090"},
		{"all down", []topology.Endpoint{a}, "10.64.0.11", "reject"},
		{"down, others leaving", []topology.Endpoint{a, with("10.66.1.13", terminating)}, "10.64.0.11", "forward 10.66.1.13:9090"},
		{"down and leaving", []topology.Endpoint{with("10.66.1.13", terminating)}, "10.66.1.13", "reject"},
		{"twice, ghost first", []topology.Endpoint{with("10.64.0.11", gone), a}, "", "forward 10.64.0.11:9090"},
		{"twice, ghost last", []topology.Endpoint{a, with("10.64.0.11", gone)}, "", "forward 10.64.0.11:9090"},
		{"twice, later wins", []topology.Endpoint{a, with("10.64.0.11", unready)}, "", "reject"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			svc.Endpoints = tt.list
			top.Services = []topology.Service{svc}
			down := func(service, port string, addr netip.AddrPort) bool {
				return service == "shop/cart" && port == "web" && addr.Addr().String() == tt.down
			}
			if got := candidates(compile(t, top, nat.CompileOptions{Down: down})); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func noop(*topology.Endpoint) {}

// TestCompileSets looks at which sets are built: those that a policy of the service asks for.
func TestCompileSets(t *testing.T) {
	tests := []struct {
		name           string
		itp, etp       topology.Policy
		external       bool
		cluster, local int
	}{
		{"cluster, cluster", topology.PolicyCluster, topology.PolicyCluster, true, 2, 0},
		{"etp local", topology.PolicyCluster, topology.PolicyLocal, true, 2, 1},
		{"etp local, not external", topology.PolicyCluster, topology.PolicyLocal, false, 2, 0},
		{"itp local", topology.PolicyLocal, topology.PolicyCluster, true, 2, 1},
		{"itp local, not external", topology.PolicyLocal, topology.PolicyCluster, false, 0, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top, svc := gateway(), cart()
			svc.InternalTrafficPolicy, svc.ExternalTrafficPolicy = tt.itp, tt.etp
			if !tt.external {
				svc.LoadBalancerIPs, svc.ExternalIPs, svc.Ports[0].NodePort = nil, nil, 0
			}
			top.Services = []topology.Service{svc}
			p := ports(compile(t, top, nat.CompileOptions{}))["shop/cart:web"]
			if c, l := nat.ClusterSize(p), nat.LocalSize(p); c != tt.cluster || l != tt.local {
				t.Errorf("cluster set of %d, local set of %d, want %d and %d", c, l, tt.cluster, tt.local)
			}
		})
	}
}

func TestCompileFaults(t *testing.T) {
	sctp, twice, vipTwice, nodePort, weight, size := cart(), cart(), cart(), cart(), cart(), cart()
	sctp.Ports[1].Protocol = "DCCP"
	twice.Name = "copy"
	vipTwice.LoadBalancerIPs = addrs([]string{clusterIP})
	nodePort.Name, nodePort.ClusterIPs = "copy", addrs([]string{"10.112.3.21"})
	nodePort.LoadBalancerIPs, nodePort.ExternalIPs = nil, nil
	weight.Endpoints[0].Weight = -1
	tests := []struct {
		name string
		list []topology.Service
		size int
		want string
	}{
		{"protocol", []topology.Service{sctp}, 0, `service shop/cart: port 53/DCCP: protocol "DCCP": must be TCP, UDP or SCTP`},
		{"address twice", []topology.Service{cart(), twice}, 0,
			"service shop/copy: port 8088/TCP: address 10.112.3.20 is taken by shop/cart:web"},
		{"vip is the clusterip", []topology.Service{vipTwice}, 0,
			"service shop/cart: port 8088/TCP: address 10.112.3.20 is taken by shop/cart:web"},
		{"node port twice", []topology.Service{cart(), nodePort}, 0,
			"service shop/copy: port 8088/TCP: node port 31234 is taken by shop/cart:web"},
		{"weight", []topology.Service{weight}, 0,
			"service shop/cart: port 8088/TCP: backend 10.64.0.11:9090: weight -1: must be 0 to 2147483647"},
		{"table size", []topology.Service{size}, 4,
			"service shop/cart: port 8088/TCP: table size 4: must be a prime number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			top := gateway()
			top.Services = tt.list
			_, err := nat.Compile(top, nat.CompileOptions{TableSize: tt.size})
			if err == nil || err.Error() != tt.want {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestCompileReusesTables(t *testing.T) {
	top := gateway()
	top.Services = []topology.Service{cart()}
	svc := &top.Services[0]
	svc.ExternalTrafficPolicy = topology.PolicyLocal
	svc.Ports = append(svc.Ports, topology.Port{Name: "alt", Protocol: topology.TCP, Port: 8089})
	svc.Endpoints[1].Node = "gw-a" // both local: the two sets are equal
	for i := range svc.Endpoints {
		svc.Endpoints[i].Ports["alt"] = 9090
	}
	first := compile(t, top, nat.CompileOptions{})
	web, alt := ports(first)["shop/cart:web"], ports(first)["shop/cart:alt"]
	shared := nat.ClusterTable(web)
	if shared == nil || nat.LocalTable(web) != shared || nat.ClusterTable(alt) != shared {
		t.Error("equal sets of one generation do not share their table")
	}
	if nat.ClusterTable(ports(first)["shop/cart:dns"]) == shared {
		t.Error("sets of other transport ports share a table")
	}
	again := compile(t, top, nat.CompileOptions{Previous: first})
	if nat.ClusterTable(ports(again)["shop/cart:web"]) != shared {
		t.Error("an unchanged set was built anew")
	}
	if third := compile(t, top, nat.CompileOptions{Previous: again}); nat.ClusterTable(ports(third)["shop/cart:web"]) != shared {
		t.Error("a table taken over is not taken over again")
	}
	if larger := compile(t, top, nat.CompileOptions{Previous: first, TableSize: 251}); nat.ClusterTable(
		ports(larger)["shop/cart:web"]).Size() != 251 {
		t.Error("a table of another size was taken over")
	}
	changed := *top
	changed.Services = []topology.Service{cart()}
	changed.Services[0].Endpoints[0].Weight = 3
	if nat.ClusterTable(ports(compile(t, &changed, nat.CompileOptions{Previous: first}))["shop/cart:web"]) == shared {
		t.Error("the table of other weights was taken over")
	}
	svc.Endpoints = svc.Endpoints[:1]
	if nat.ClusterTable(ports(compile(t, top, nat.CompileOptions{Previous: first}))["shop/cart:web"]) != nil {
		t.Error("a single backend has a table")
	}
}

func TestCompileDefaultSize(t *testing.T) {
	top := gateway()
	top.Services = []topology.Service{cart()}
	table, err := nat.Compile(top, nat.CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := nat.ClusterTable(ports(table)["shop/cart:web"]).Size(); got != maglev.DefaultSize {
		t.Errorf("tables of %d slots, want %d", got, maglev.DefaultSize)
	}
}

// ids returns the numbers of all ports and backends by name.
func ids(table *nat.Table) map[string]uint32 {
	out := map[string]uint32{}
	for p := range table.Ports() {
		out[p.String()] = p.ID
		for _, b := range p.Backends() {
			out[p.String()+" "+b.AddrPort.String()] = b.ID
		}
	}
	return out
}

func TestCompileNumbers(t *testing.T) {
	top := gateway()
	top.Services = []topology.Service{cart()}
	first := compile(t, top, nat.CompileOptions{})
	want := map[string]uint32{"shop/cart:web": 1, "shop/cart:dns": 2,
		"shop/cart:web 10.64.0.11:9090": 1, "shop/cart:web 10.66.1.12:9090": 2, "shop/cart:web [fd64:10::11]:9090": 3,
		"shop/cart:dns 10.64.0.11:5353": 4, "shop/cart:dns 10.66.1.12:5353": 5, "shop/cart:dns [fd64:10::11]:5353": 6}
	if got := ids(first); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("numbers %v, want %v", got, want)
	}

	second := gateway()
	second.Services = []topology.Service{cart()}
	svc := &second.Services[0]
	slices.Reverse(svc.Ports)
	svc.Ports[0].Protocol = topology.TCP // dns over TCP is another port than dns over UDP
	svc.Endpoints = append(svc.Endpoints[1:], endpoint("10.66.1.13", "wk-7"))
	changed := compile(t, second, nat.CompileOptions{Previous: first})
	got := ids(changed)
	for name, id := range map[string]uint32{"shop/cart:web": 1, "shop/cart:dns": 3, "shop/cart:web 10.66.1.12:9090": 2,
		"shop/cart:web 10.66.1.13:9090": 10} {
		if got[name] != id {
			t.Errorf("%s has number %d, want %d", name, got[name], id)
		}
	}
	if p, b := changed.MaxIDs(); p != 3 || b != 10 {
		t.Errorf("largest numbers %d and %d, want 3 and 10", p, b)
	}
	if b := changed.BackendByID(1); b != nil {
		t.Errorf("number 1 is %v, want none: its endpoint has gone", b.AddrPort)
	}
	if b := changed.BackendByID(10); b == nil || b.AddrPort.String() != "10.66.1.13:9090" {
		t.Errorf("number 10 is %v, want 10.66.1.13:9090", b)
	}
	if p := changed.PortByID(3); p == nil || p.String() != "shop/cart:dns" {
		t.Errorf("number 3 is %v, want shop/cart:dns", p)
	}
	if back := compile(t, top, nat.CompileOptions{Previous: changed}); fmt.Sprint(ids(back)) != fmt.Sprint(want) {
		t.Errorf("numbers after a return %v, want %v", ids(back), want)
	}
}

func TestRegistryForgets(t *testing.T) {
	var r nat.Registry
	r = r.Next()
	for i := range nat.RetiredLimit + 1 {
		r.ID(fmt.Sprint(i))
	}
	r = r.Next() // all are out of use, and one more than is remembered
	kept := r.ID("kept")
	if again := r.ID("kept"); again != kept {
		t.Errorf("one name has numbers %d and %d", kept, again)
	}
	r = r.Next()
	if got := r.ID("kept"); got != kept {
		t.Errorf("name in use has number %d, want %d", got, kept)
	}
	if got, want := r.ID("7"), uint32(nat.RetiredLimit+3); got != want {
		t.Errorf("forgotten name has number %d, want %d: no number is given twice", got, want)
	}
}

func TestRegistryRemembers(t *testing.T) {
	var r nat.Registry
	name := func(i int) string { return fmt.Sprint(i) }
	r = r.Next()
	for i := range nat.RetiredLimit + 1 {
		r.ID(name(i))
	}
	r = r.Next()
	for i := range nat.RetiredLimit { // all but one return: they are not out of use any more
		r.ID(name(i))
	}
	r = r.Next()
	if got, want := r.ID(name(nat.RetiredLimit)), uint32(nat.RetiredLimit+1); got != want {
		t.Errorf("number %d, want %d as before", got, want)
	}
}

func TestServices(t *testing.T) {
	top, headless, named := gateway(), cart(), cart()
	headless.Name, headless.Headless, headless.ClusterIPs = "headless", true, nil
	named.Name, named.Type, named.ExternalName = "named", topology.ExternalName, "db.example"
	other := many(1, 2).Services[0]
	top.Services = []topology.Service{other, cart(), headless, named}
	table := compile(t, top, nat.CompileOptions{})
	var got []string
	for svc, list := range table.Services() {
		got = append(got, fmt.Sprint(svc.Key(), list))
	}
	if want := []string{"load/s0000[load/s0000]", "shop/cart[shop/cart:web shop/cart:dns]"}; !slices.Equal(got, want) {
		t.Errorf("services %v, want %v", got, want)
	}
	for range table.Services() {
		break
	}
	for p := range table.Ports() {
		if p.String() != "load/s0000" {
			t.Errorf("first port %s, want load/s0000", p)
		}
		break
	}
}

func BenchmarkCompile(b *testing.B) {
	top := many(1000, 10)
	first, err := nat.Compile(top, nat.CompileOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for name, previous := range map[string]*nat.Table{"fresh": nil, "unchanged": first} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := nat.Compile(top, nat.CompileOptions{Previous: previous}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
