package topology

import (
	"encoding/json"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"testing"
)

// vector is a case of Kubernetes' allocation and validation rules (v1.37) in testdata/cases.json.
type vector struct {
	ID       string
	Kind     string
	Input    vectorInput
	Expected map[string]any
}

type vectorInput struct {
	ServiceCIDR  string `json:"service_cidr"`
	Request      string
	Requests     []string
	Used         string
	Base, Size   int
	NodePort     int `json:"node_port"`
	A, B         *vectorPort
	Type         string
	NodePorts    *bool    `json:"allocate_node_ports"`
	ExternalName string   `json:"external_name"`
	ClusterIP    string   `json:"cluster_ip"`
	ClusterIPs   []string `json:"cluster_ips"`
	ETP          string

	HealthPort     int    `json:"health_check_node_port"`
	Distribution   string `json:"traffic_distribution"`
	Affinity       string `json:"sessionAffinity"`
	TimeoutSeconds int    `json:"timeoutSeconds"`

	SourceRanges []string `json:"source_ranges"`
	ExternalIPs  []string `json:"external_ips"`
	Ports        []vectorPort
}

type vectorPort struct {
	Name     string
	Port     int
	Proto    string
	NodePort int `json:"node_port"`
}

func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []vector
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, v := range all {
		count[v.Kind]++
		t.Run(v.ID, func(t *testing.T) {
			switch {
			case v.Input.Size > 0:
				v.portBands(t)
			case v.Input.Used != "":
				v.exhausted(t)
			case v.Expected["static_band"] != nil:
				v.bands(t)
			default:
				v.resolve(t)
			}
		})
	}
	if count["alloc"] != 20 || count["validate"] != 16 {
		t.Errorf("%v", count)
	}
}

// bands compares the bands of a service range, by asking for addresses with all others taken.
func (v *vector) bands(t *testing.T) {
	p := netip.MustParsePrefix(v.Input.ServiceCIDR)
	first, n := hosts(p)
	static := bands(size(p), 16, 16, 256)
	if want := uint64(v.Expected["offset"].(float64)); static != want {
		t.Errorf("offset %d, want %d", static, want)
	}
	edges := func(key string, from, to uint64) {
		want := v.Expected[key].([]any)
		if a, b := add(first, from).String(), add(first, to).String(); a != want[0] || b != want[1] {
			t.Errorf("%s %s - %s, want %v", key, a, b, want)
		}
	}
	edges("static_band", 0, static-1)
	edges("dynamic_band", static, n-1)
}

func (v *vector) portBands(t *testing.T) {
	base, n := uint64(v.Input.Base), uint64(v.Input.Size)
	static := bands(n, 32, 16, 128)
	dynamic := v.Expected["dynamic_band"].([]any)
	if float64(static) != v.Expected["offset"] || float64(base+static) != dynamic[0] || float64(base+n-1) != dynamic[1] {
		t.Errorf("offset %d, dynamic band %d - %d, want %v", static, base+static, base+n-1, v.Expected)
	}
}

// exhausted takes all of a range by request; the next address is expected in a given band.
func (v *vector) exhausted(t *testing.T) {
	in := input(v.Input.ServiceCIDR)
	first, last, _ := strings.Cut(v.Input.Used, "-")
	for a := netip.MustParseAddr(first); !netip.MustParseAddr(last).Less(a); a = a.Next() {
		addService(in, "used-"+strconv.Itoa(int(a.As4()[3])), func(s *ServiceInput) { s.ClusterIPs = []string{a.String()} })
	}
	addService(in, "next", nil)
	band := v.Expected["next_in"].([]any)
	got := find(t, resolve(t, in), "next").ClusterIPs[0]
	if got.Less(netip.MustParseAddr(band[0].(string))) || netip.MustParseAddr(band[1].(string)).Less(got) {
		t.Errorf("%v, want one of %v", got, band)
	}
}

// resolve resolves the one or two services of a vector and compares whether there are faults.
func (v *vector) resolve(t *testing.T) {
	cidr := v.Input.ServiceCIDR
	if cidr == "" {
		cidr = "10.112.0.0/24"
	}
	in := input(cidr)
	for i, apply := range v.services() {
		addService(in, "s"+strconv.Itoa(i), apply)
	}
	top, faults := Resolve(in)
	_, failed := v.Expected["error"]
	for _, key := range []string{"second", "b"} {
		text, _ := v.Expected[key].(string)
		failed = failed || strings.HasPrefix(text, "error")
	}
	if ok, given := v.Expected["ok"].(bool); given {
		failed = !ok
	}
	if failed != (len(faults) > 0) {
		t.Fatalf("faults %v, want %v", faults, v.Expected)
	}
	if len(faults) > 1 {
		t.Errorf("one is expected: %v", faults)
	}
	if want, given := v.Expected["timeoutSeconds"].(float64); given && top.Services[0].AffinityTimeout.Seconds() != want {
		t.Errorf("affinity for %v, want %v s", top.Services[0].AffinityTimeout, want)
	}
	if v.Expected["node_port"] != nil && top.Services[0].Ports[0].NodePort != 0 {
		t.Errorf("node port %d", top.Services[0].Ports[0].NodePort)
	}
}

// services returns what makes each service of a vector.
func (v *vector) services() (out []func(*ServiceInput)) {
	x := &v.Input
	nodePort := func(n int, proto string) func(*ServiceInput) {
		return func(s *ServiceInput) {
			s.Type, s.Ports[0].NodePort, s.Ports[0].Protocol = "NodePort", n, proto
		}
	}
	switch {
	case x.A != nil:
		return append(out, nodePort(x.A.NodePort, x.A.Proto), nodePort(x.B.NodePort, x.B.Proto))
	case x.NodePort != 0:
		return append(out, nodePort(x.NodePort, "TCP"))
	case len(x.Requests) > 0:
		for _, a := range x.Requests {
			out = append(out, func(s *ServiceInput) { s.ClusterIPs = []string{a} })
		}
		return out
	}
	return append(out, x.apply)
}

// apply sets what the vector says of its one service.
func (x *vectorInput) apply(s *ServiceInput) {
	for _, a := range []string{x.Request, x.ClusterIP} {
		if a != "" {
			s.ClusterIPs = []string{a}
		}
	}
	if x.Type != "" {
		s.Type = x.Type
	}
	if x.ETP != "" {
		s.ExternalTrafficPolicy = x.ETP
	}
	if x.NodePorts != nil {
		s.AllocateNodePorts = *x.NodePorts
	}
	if x.Affinity != "" {
		s.SessionAffinity = x.Affinity
	}
	if x.TimeoutSeconds != 0 {
		s.AffinityTimeout = strconv.Itoa(x.TimeoutSeconds) + "s"
	}
	s.HealthCheckNodePort, s.TrafficDistribution = x.HealthPort, x.Distribution
	s.ClusterIPs = append(s.ClusterIPs, x.ClusterIPs...)
	s.ExternalName, s.SourceRanges, s.ExternalIPs = x.ExternalName, x.SourceRanges, x.ExternalIPs
	if len(x.Ports) == 0 {
		return
	}
	s.Ports = nil
	for _, p := range x.Ports {
		in := PortInput{Name: p.Name, Port: p.Port, Protocol: p.Proto}
		if p.Proto == "" {
			in.SetDefaults()
		}
		s.Ports = append(s.Ports, in)
	}
}
