// Package nattest holds packets with services, endpoints and a node, and what kube-proxy does with them: for the tests of
// every package that decides about packets.
package nattest

import (
	_ "embed" // for the cases
	"encoding/json"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

//go:embed packet_cases.json
var packetCases []byte

// PacketCases returns the cases, in the order of the file.
func PacketCases() ([]PacketCase, error) {
	var cases []PacketCase
	err := json.Unmarshal(packetCases, &cases)
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
		Sport, Dport          uint16
	}
	Expected struct {
		Verdict  string
		DstAnyOf []string `json:"dst_any_of"`
		SNAT     bool
	}
}

type caseService struct {
	Namespace, Name, Type string
	ClusterIPs            []string                    `json:"cluster_ips"`
	ExternalIPs           []string                    `json:"external_ips"`
	LBIngress             []struct{ IP, Mode string } `json:"lb_ingress"`
	SourceRanges          []string                    `json:"source_ranges"`
	ETP, ITP              string
	TrafficDistribution   string `json:"traffic_distribution"`
	Ports                 []struct {
		Name, Proto string
		Port        uint16
		NodePort    uint16 `json:"node_port"`
	}
}

type caseEndpoint struct {
	Addr, Node                  string
	Ready, Serving, Terminating bool
	Port                        uint16
	PortName                    string   `json:"port_name"`
	ZoneHints                   []string `json:"zone_hints"`
	NodeHints                   []string `json:"node_hints"`
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
	top := &topology.Topology{Gateway: gw, Cluster: topology.Cluster{ServiceCIDRs: cidrs(n.ServiceCIDRs)}}
	for i := range c.Services {
		top.Services = append(top.Services, c.service(&c.Services[i]))
	}
	return top, nil
}

// nodePortAddresses resolves the setting: "primary", or a list of CIDRs where a family without any takes all its
// addresses.
func (c *PacketCase) nodePortAddresses(local []netip.Addr) ([]netip.Addr, error) {
	if string(c.Node.NodePortAddresses) == `"primary"` {
		return addrs(c.Node.PrimaryIPs), nil
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
		TrafficDistribution:   s.TrafficDistribution,
	}
	if !svc.Headless {
		svc.ClusterIPs = addrs(s.ClusterIPs)
	}
	for _, in := range s.LBIngress {
		svc.LoadBalancerIPs = append(svc.LoadBalancerIPs, netip.MustParseAddr(in.IP))
	}
	for _, p := range s.Ports {
		svc.Ports = append(svc.Ports, topology.Port{Name: p.Name, Protocol: topology.Protocol(p.Proto), Port: p.Port,
			NodePort: p.NodePort})
	}
	for _, e := range c.Endpoints[svc.Key()] {
		svc.Endpoints = append(svc.Endpoints, topology.Endpoint{
			Address: netip.MustParseAddr(e.Addr), Ports: map[string]uint16{e.PortName: e.Port}, Node: e.Node,
			Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Weight: 1,
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
