package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
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
	Namespace           string               `json:"namespace"`
	Name                string               `json:"name"`
	Type                topology.ServiceType `json:"type"`
	ClusterIPs          []string             `json:"cluster_ips"`
	ExternalIPs         []netip.Addr         `json:"external_ips"`
	LoadBalancerIPs     []netip.Addr         `json:"load_balancer_ips"`
	ExternalName        string               `json:"external_name,omitempty"`
	HealthCheckNodePort int                  `json:"health_check_node_port"`
	Ports               []PortReport         `json:"ports"`
	Endpoints           []EndpointReport     `json:"endpoints"`
	Slices              []SliceReport        `json:"slices"`
	Hints               HintsReport          `json:"hints"`
}

// SliceReport is one EndpointSlice of a service; endpoints are not packed into slices yet.
type SliceReport struct {
	Name      string   `json:"name"`
	Family    string   `json:"family"`
	Endpoints []string `json:"endpoints"`
}

// HintsReport says how topology hints were computed; both are empty when no hints are asked for.
type HintsReport struct {
	Mode   string `json:"mode"`
	Reason string `json:"reason"`
}

// PortReport is one port of a service.
type PortReport struct {
	Name       string            `json:"name"`
	Protocol   topology.Protocol `json:"protocol"`
	Port       uint16            `json:"port"`
	TargetPort uint16            `json:"target_port"`
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
		Ports: []PortReport{}, Endpoints: []EndpointReport{}, Slices: []SliceReport{}}
	for _, a := range s.ClusterIPs {
		out.ClusterIPs = append(out.ClusterIPs, a.String())
	}
	if s.Headless {
		out.ClusterIPs = []string{"None"}
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, PortReport{p.Name, p.Protocol, p.Port, p.TargetPort, p.NodePort})
		for _, e := range s.Endpoints {
			out.Endpoints = append(out.Endpoints, EndpointReport{e.Address, p.Name, e.Ports[p.Name],
				e.Ready, e.Serving, e.Terminating, e.Node, e.Zone, e.Hostname, e.Weight,
				append([]string{}, e.ForZones...), append([]string{}, e.ForNodes...)})
		}
	}
	slices.SortStableFunc(out.Endpoints, func(a, b EndpointReport) int {
		return cmp.Or(a.Address.Compare(b.Address), cmp.Compare(a.PortName, b.PortName))
	})
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
		for _, f := range r.Errors {
			fmt.Fprintln(w, f)
		}
		_, err := fmt.Fprintf(w, "\n%s\n", plural(len(r.Errors), "fault"))
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SERVICE\tTYPE\tCLUSTER-IP\tEXTERNAL\tPORTS\tENDPOINTS")
	for _, s := range r.Services {
		fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\t%s\t%s\n", s.Namespace, s.Name, s.Type, dash(s.ClusterIPs), dash(s.external()),
			dash(s.ports()), s.ready())
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

// external lists the addresses that are reached from outside, or the external name.
func (s *ServiceReport) external() (out []string) {
	for _, a := range slices.Concat(s.LoadBalancerIPs, s.ExternalIPs) {
		out = append(out, a.String())
	}
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
