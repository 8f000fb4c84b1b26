// Package nattest holds packets with services, endpoints and a node, and what kube-proxy does with them: for the tests of
// every package that decides about packets.
package nattest

import (
	"bytes"
	_ "embed" // for the cases
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

//go:embed packet_cases.json
var packetCases []byte

//go:embed packet_cases_more.json
var moreCases []byte

// PacketCases returns the cases that are derived from kube-proxy's own tests, in the order of the file.
func PacketCases() ([]PacketCase, error) { return parse(packetCases) }

// MoreCases returns the cases that are derived rule by rule from the description of kube-proxy's behaviour, and from where
// this project's settings and decisions differ from it. Their expectations name the service too.
func MoreCases() ([]PacketCase, error) { return parse(moreCases) }

func parse(text []byte) (cases []PacketCase, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&cases)
	return cases, err
}

// PacketCase is one entry of packet_cases.json: services, endpoints and a node as Kubernetes describes them,
// a packet, and what kube-proxy in nftables mode (Kubernetes 1.37.2) does with it.
type PacketCase struct {
	ID        string
	Services  []caseService
	Endpoints map[string][]caseEndpoint // by "namespace/name"
	Node      caseNode
	Packet    struct {
		From, Src, Dst, Proto string
		Interface             string // that which it comes in on; "" for one that is no pod's
		Sport, Dport          uint16
	}
	Expected struct {
		Verdict  string
		DstAnyOf []string `json:"dst_any_of"`
		SNAT     bool
		ICMP     string // the error that answers a rejected packet
		Service  string // "namespace/name:port"; not in the cases of PacketCases
		Reason   string // in words
	}
}

type caseService struct {
	Namespace, Name, Type string
	ClusterIPs            []string                    `json:"cluster_ips"`
	ExternalIPs           []string                    `json:"external_ips"`
	LBIngress             []struct{ IP, Mode string } `json:"lb_ingress"`
	SourceRanges          []string                    `json:"source_ranges"`
	SourceRangesPolicy    string                      `json:"source_ranges_policy"`
	SourceRangesScope     string                      `json:"source_ranges_scope"`
	ETP, ITP              string
	TrafficDistribution   string            `json:"traffic_distribution"`
	HealthCheckNodePort   uint16            `json:"health_check_node_port"`
	AllocateNodePorts     *bool             `json:"allocate_node_ports"`
	PublishNotReady       bool              `json:"publish_not_ready"`
	ExternalName          string            `json:"external_name"`
	Labels                map[string]string `json:"labels"`
	Ports                 []struct {
		Name, Proto  string
		Port, Target uint16
		NodePort     uint16 `json:"node_port"`
	}
}

type caseEndpoint struct {
	Addr, Node                  string
	Ready, Serving, Terminating bool
	Port                        uint16
	PortName                    string   `json:"port_name"`
	ZoneHints                   []string `json:"zone_hints"`
	NodeHints                   []string `json:"node_hints"`
	Weight                      *int     // nil: 1
}

type caseNode struct {
	Name, Zone        string
	PrimaryIPs        []string        `json:"primary_ips"`
	OtherLocalIPs     []string        `json:"other_local_ips"`
	PodCIDRs          []string        `json:"pod_cidrs"`
	NodePortAddresses json.RawMessage `json:"nodeport_addresses"`
	MasqueradeAll     bool            `json:"masquerade_all"`
	LocalDetector     string          `json:"local_detector"`
	ServiceCIDRs      []string        `json:"service_cidrs"`
	PodInterfaces     []string        `json:"pod_interfaces"`
	UnknownPort       string          `json:"unknown_port"`
	Unallocated       string          `json:"unallocated"`
}

// Primary returns the node's primary address of a family.
func (c *PacketCase) Primary(v4 bool) string {
	for _, a := range c.Node.PrimaryIPs {
		if netip.MustParseAddr(a).Is4() == v4 {
			return a
		}
	}
	return ""
}

// Topology returns the case as the resolved model that the configuration would give.
func (c *PacketCase) Topology() (*topology.Topology, error) {
	n := &c.Node
	gw := topology.Gateway{
		Node:          n.Name,
		Zone:          n.Zone,
		SNATAddresses: addrs(n.PrimaryIPs),
		SNATPorts:     topology.PortRange{First: 32768, Last: 60999},
		MasqueradeAll: n.MasqueradeAll,
		PodInterfaces: n.PodInterfaces,
		LocalAddresses: append(addrs(n.PrimaryIPs),
			addrs(n.OtherLocalIPs)...),
	}
	if n.LocalDetector == "ClusterCIDR" {
		gw.PodCIDRs = cidrs(n.PodCIDRs)
	}
	var err error
	if gw.NodePortAddresses, err = c.nodePortAddresses(gw.LocalAddresses); err != nil {
		return nil, err
	}
	top := &topology.Topology{Gateway: gw, Cluster: topology.Cluster{ServiceCIDRs: cidrs(n.ServiceCIDRs),
		UnknownPort: n.UnknownPort, Unallocated: n.Unallocated}}
	for i := range c.Services {
		top.Services = append(top.Services, c.service(&c.Services[i]))
	}
	return top, nil
}

// nodePortAddresses resolves the setting: "primary", "all", or a list of CIDRs where a family without any takes all its
// addresses.
func (c *PacketCase) nodePortAddresses(local []netip.Addr) ([]netip.Addr, error) {
	switch string(c.Node.NodePortAddresses) {
	case `"primary"`:
		return addrs(c.Node.PrimaryIPs), nil
	case `"all"`:
		return local, nil
	}
	var list []string
	if err := json.Unmarshal(c.Node.NodePortAddresses, &list); err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, a := range local {
		family := slices.DeleteFunc(cidrs(list), func(p netip.Prefix) bool { return p.Addr().Is4() != a.Is4() })
		if len(family) == 0 || slices.ContainsFunc(family, func(p netip.Prefix) bool { return p.Contains(a) }) {
			out = append(out, a)
		}
	}
	return out, nil
}

func (c *PacketCase) service(s *caseService) topology.Service {
	svc := topology.Service{
		Namespace: s.Namespace, Name: s.Name, Type: topology.ServiceType(s.Type),
		Headless:              slices.Equal(s.ClusterIPs, []string{"None"}),
		ExternalIPs:           addrs(s.ExternalIPs),
		SourceRanges:          cidrs(s.SourceRanges),
		ExternalTrafficPolicy: topology.Policy(orCluster(s.ETP)),
		InternalTrafficPolicy: topology.Policy(orCluster(s.ITP)),
		SourceRangesDeny:      s.SourceRangesPolicy == "deny",
		SourceRangesAll:       s.SourceRangesScope == "all",
		TrafficDistribution:   s.TrafficDistribution,
		PublishNotReady:       s.PublishNotReady,
		Labels:                s.Labels,
	}
	if !svc.Headless {
		svc.ClusterIPs = addrs(s.ClusterIPs)
	}
	for _, in := range s.LBIngress {
		svc.LoadBalancerIPs = append(svc.LoadBalancerIPs, netip.MustParseAddr(in.IP))
		svc.LoadBalancerProxyMode = in.Mode == "Proxy" // of all alike, as in the configuration
	}
	for _, p := range s.Ports {
		svc.Ports = append(svc.Ports, topology.Port{Name: p.Name, Protocol: topology.Protocol(p.Proto), Port: p.Port,
			NodePort: p.NodePort})
	}
	for _, e := range c.Endpoints[svc.Key()] {
		weight := 1
		if e.Weight != nil {
			weight = *e.Weight
		}
		svc.Endpoints = append(svc.Endpoints, topology.Endpoint{
			Address: netip.MustParseAddr(e.Addr), Ports: map[string]uint16{e.PortName: e.Port}, Node: e.Node,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Weight: weight,
			ForZones: e.ZoneHints, ForNodes: e.NodeHints,
		})
	}
	return svc
}

func orCluster(policy string) string {
	if policy == "" {
		return "Cluster"
	}
	return policy
}

func addrs(list []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func cidrs(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(strings.TrimSpace(s)))
	}
	return out
}
