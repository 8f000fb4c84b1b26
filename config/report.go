package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"

	"sluice/config/topology"
)

// Report is what "sluice check" says of a topology. Its JSON form is stable; fields may be added.
type Report struct {
	OK       bool            `json:"ok"`
	Services []ServiceReport `json:"services"`
	Routes   []RouteReport   `json:"routes"` // in order of precedence
	Errors   []Fault         `json:"errors"`
}

// ServiceReport is one service as resolved.
type ServiceReport struct {
	Namespace             string               `json:"namespace"`
	Name                  string               `json:"name"`
	Type                  topology.ServiceType `json:"type"`
	ClusterIPs            []string             `json:"cluster_ips"`
	ExternalIPs           []netip.Addr         `json:"external_ips"`
	LoadBalancerIPs       []netip.Addr         `json:"load_balancer_ips"`
	LoadBalancerHostnames []string             `json:"load_balancer_hostnames"`
	ExternalName          string               `json:"external_name,omitempty"`
	HealthCheckNodePort   uint16               `json:"health_check_node_port"` // 0: none
	ExternalTrafficPolicy topology.Policy      `json:"external_traffic_policy"`
	InternalTrafficPolicy topology.Policy      `json:"internal_traffic_policy"`
	TrafficDistribution   string               `json:"traffic_distribution"`
	SessionAffinity       string               `json:"session_affinity"`         // "None" or "ClientIP"
	AffinityTimeout       int                  `json:"session_affinity_timeout"` // seconds; 0 without affinity
	Ports                 []PortReport         `json:"ports"`
	Endpoints             []EndpointReport     `json:"endpoints"`
	Slices                []SliceReport        `json:"slices"`
	Hints                 HintsReport          `json:"hints"`

	settings []string // what is not as by default, for people
}

// SliceReport is one EndpointSlice of a service.
type SliceReport struct {
	Name      string            `json:"name"`
	Family    string            `json:"family"`
	Ports     map[string]uint16 `json:"ports"` // by service port name
	Endpoints []string          `json:"endpoints"`
	Ready     int               `json:"ready"` // how many of the endpoints are
}

// HintsReport says how topology hints were computed: see topology.HintsStatus.
type HintsReport struct {
	Mode   string `json:"mode"`
	Reason string `json:"reason"`
}

// PortReport is one port of a service.
type PortReport struct {
	Name       string            `json:"name"`
	Protocol   topology.Protocol `json:"protocol"`
	Port       uint16            `json:"port"`
	TargetPort any               `json:"target_port"` // a number, or the name of a port of pods
	NodePort   uint16            `json:"node_port"`
}

// EndpointReport is one endpoint on one service port.
type EndpointReport struct {
	Address     netip.Addr `json:"address"`
	PortName    string     `json:"port_name"`
	Port        uint16     `json:"port"`
	Ready       bool       `json:"ready"`
	Serving     bool       `json:"serving"`
	Terminating bool       `json:"terminating"`
	Node        string     `json:"node"`
	Zone        string     `json:"zone"`
	Hostname    string     `json:"hostname"`
	Weight      int        `json:"weight"`
	ForZones    []string   `json:"for_zones"`
	ForNodes    []string   `json:"for_nodes"`
}

// NewReport describes a topology, or the faults that kept it from being one.
func NewReport(t *topology.Topology, faults Faults) *Report {
	r := &Report{OK: len(faults) == 0, Services: []ServiceReport{}, Routes: []RouteReport{},
		Errors: append([]Fault{}, faults...)}
	if t == nil {
		return r
	}
	for i := range t.Services {
		r.Services = append(r.Services, reportService(&t.Services[i]))
	}
	for i := range t.Routes {
		r.Routes = append(r.Routes, reportRoute(&t.Routes[i]))
	}
	return r
}

func reportService(s *topology.Service) ServiceReport {
	out := ServiceReport{Namespace: s.Namespace, Name: s.Name, Type: s.Type, ClusterIPs: []string{}, ExternalName: s.ExternalName,
		ExternalIPs: append([]netip.Addr{}, s.ExternalIPs...), LoadBalancerIPs: append([]netip.Addr{}, s.LoadBalancerIPs...),
		LoadBalancerHostnames: append([]string{}, s.LoadBalancerHostnames...), HealthCheckNodePort: s.HealthCheckNodePort,
		ExternalTrafficPolicy: s.ExternalTrafficPolicy, InternalTrafficPolicy: s.InternalTrafficPolicy,
		TrafficDistribution: s.TrafficDistribution, SessionAffinity: "None",
		Ports: reportPorts(s), Endpoints: reportEndpoints(s), Slices: reportSlices(s),
		Hints: HintsReport{cmp.Or(s.Hints.Mode, "none"), s.Hints.Reason}, settings: settings(s)}
	if s.SessionAffinity {
		out.SessionAffinity, out.AffinityTimeout = "ClientIP", int(s.AffinityTimeout.Seconds())
	}
	for _, a := range s.ClusterIPs {
		out.ClusterIPs = append(out.ClusterIPs, a.String())
	}
	if s.Headless {
		out.ClusterIPs = []string{"None"}
	}
	return out
}

func reportPorts(s *topology.Service) []PortReport {
	out := []PortReport{}
	for _, p := range s.Ports {
		var target any = p.TargetPort
		if p.TargetName != "" {
			target = p.TargetName
		}
		out = append(out, PortReport{p.Name, p.Protocol, p.Port, target, p.NodePort})
	}
	return out
}

// reportEndpoints lists the endpoints of each service port that they serve.
func reportEndpoints(s *topology.Service) []EndpointReport {
	out := []EndpointReport{}
	for _, p := range s.Ports {
		for _, e := range s.Endpoints {
			number, serves := e.Ports[p.Name]
			if !serves {
				continue
			}
			out = append(out, EndpointReport{e.Address, p.Name, number,
				e.Ready, e.Serving, e.Terminating, e.Node, e.Zone, e.Hostname, e.Weight,
				append([]string{}, e.ForZones...), append([]string{}, e.ForNodes...)})
		}
	}
	slices.SortStableFunc(out, func(a, b EndpointReport) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.PortName, b.PortName))
	})
	return out
}

func reportSlices(s *topology.Service) []SliceReport {
	list := []SliceReport{}
	for _, l := range s.Slices {
		r := SliceReport{Name: l.Name, Family: l.Family, Ports: map[string]uint16{}, Endpoints: []string{}}
		maps.Copy(r.Ports, l.Ports)
		for _, i := range l.Endpoints {
			r.Endpoints = append(r.Endpoints, s.Endpoints[i].Address.String())
			if s.Endpoints[i].Ready {
				r.Ready++
			}
		}
		list = append(list, r)
	}
	return list
}

// settings lists what of a service is not as by default: policies, affinity, preferences and the health check port.
func settings(s *topology.Service) (out []string) {
	add := func(set bool, text string) {
		if set {
			out = append(out, text)
		}
	}
	add(s.ExternalTrafficPolicy == topology.PolicyLocal, "external=Local")
	add(s.InternalTrafficPolicy == topology.PolicyLocal, "internal=Local")
	add(s.HealthCheckNodePort != 0, fmt.Sprintf("health=%d", s.HealthCheckNodePort))
	if s.SessionAffinity {
		scope := ""
		if s.AffinityPerService {
			scope = "/service"
		}
		add(true, fmt.Sprintf("affinity=ClientIP/%ds%s", int(s.AffinityTimeout.Seconds()), scope))
	}
	add(s.TrafficDistribution != "", "distribution="+s.TrafficDistribution)
	add(s.LoadBalancerProxyMode, "mode=Proxy")
	add(s.RemovedReset, "removed=reset")
	if n := len(s.SourceRanges); n > 0 {
		policy, scope := "allow", "vip"
		if s.SourceRangesDeny {
			policy = "deny"
		}
		if s.SourceRangesAll {
			scope = "all"
		}
		add(true, fmt.Sprintf("ranges=%s/%s/%d", policy, scope, n))
	}
	add(s.Hints.Reason != "", "hints=none")
	return out
}

// JSON writes the report for programs.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// Text writes the report for people: a table of services, or the faults.
func (r *Report) Text(w io.Writer) error {
	if !r.OK {
		return r.faults(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tTYPE\tCLUSTER-IP\tEXTERNAL\tPORTS\tENDPOINTS\tSETTINGS")
	for _, s := range r.Services {
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, s.Type, dash(s.ClusterIPs), dash(s.external()),
			dash(s.ports()), s.ready(), dash(s.settings))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if err := r.routesText(w); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s, no faults\n", plural(len(r.Services), "service"))
	return err
}

// faults writes the faults, one a line.
func (r *Report) faults(w io.Writer) error {
	for _, f := range r.Errors {
		fmt.Fprintln(w, f)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", plural(len(r.Errors), "fault"))
	return err
}

// SlicesText writes for people which slices the services have, and their topology hints; or the faults.
func (r *Report) SlicesText(w io.Writer) error {
	if !r.OK {
		return r.faults(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tSLICE\tFAMILY\tPORTS\tENDPOINTS\tREADY")
	for _, s := range r.Services {
		for _, l := range s.Slices {
			fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\t%d\t%d\n", s.Namespace, s.Name, l.Name, l.Family, dash(l.ports()),
				len(l.Endpoints), l.Ready)
		}
	}
	fmt.Fprintln(t, "\nSERVICE\tHINTS\tREASON")
	for _, s := range r.Services {
		fmt.Fprintf(t, "%s/%s\t%s\t%s\n", s.Namespace, s.Name, s.Hints.Mode, cmp.Or(s.Hints.Reason, "-"))
	}
	return t.Flush()
}

// ports lists the ports of a slice by name; the port without a name by its number alone.
func (l *SliceReport) ports() (out []string) {
	for _, name := range slices.Sorted(maps.Keys(l.Ports)) {
		number := fmt.Sprint(l.Ports[name])
		if name != "" {
			number = name + "=" + number
		}
		out = append(out, number)
	}
	return out
}

// external lists the addresses that are reached from outside, or the external name.
func (s *ServiceReport) external() (out []string) {
	for _, a := range slices.Concat(s.LoadBalancerIPs, s.ExternalIPs) {
		out = append(out, a.String())
	}
	out = append(out, s.LoadBalancerHostnames...)
	if s.ExternalName != "" {
		out = append(out, s.ExternalName)
	}
	return out
}

// ports lists the ports as kubectl does: port:node-port/protocol.
func (s *ServiceReport) ports() (out []string) {
	for _, p := range s.Ports {
		text := fmt.Sprint(p.Port)
		if p.NodePort != 0 {
			text += fmt.Sprintf(":%d", p.NodePort)
		}
		out = append(out, text+"/"+string(p.Protocol))
	}
	return out
}

// ready says how many of the endpoint addresses are ready.
func (s *ServiceReport) ready() string {
	all, ready := map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, e := range s.Endpoints {
		all[e.Address] = true
		if e.Ready {
			ready[e.Address] = true
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d of %d ready", len(ready), len(all))
}

// dash joins a list, "-" for an empty one.
func dash(list []string) string {
	if len(list) == 0 {
		return "-"
	}
	return strings.Join(list, ",")
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
