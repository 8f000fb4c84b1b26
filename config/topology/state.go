package topology

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// StateVersion is the version of State that this program writes, and the only one that it reads.
const StateVersion = 1

// State is what has to be remembered of a resolved topology so that the next one keeps what services were given: addresses,
// ports, and which endpoint is in which slice. It is plain data.
type State struct {
	Version  int                     `json:"version"`
	Services map[string]ServiceState `json:"services"` // by "namespace/name"
}

// ServiceState is what a service was given, on request or not.
type ServiceState struct {
	ClusterIPs          []netip.Addr    `json:"cluster_ips,omitempty"` // the primary one first
	LoadBalancerIPs     []netip.Addr    `json:"load_balancer_ips,omitempty"`
	NodePorts           []NodePortState `json:"node_ports,omitempty"`
	HealthCheckNodePort uint16          `json:"health_check_node_port,omitempty"`
	Labels              string          `json:"labels,omitempty"`      // hash of the labels, which slices share
	SliceNames          int             `json:"slice_names,omitempty"` // how many names slices have had
	Slices              []SliceState    `json:"slices,omitempty"`
}

// NodePortState is the node port of a service port.
type NodePortState struct {
	Name     string   `json:"name,omitempty"`
	Protocol Protocol `json:"protocol"`
	Port     uint16   `json:"port"`
	NodePort uint16   `json:"node_port"`
}

// SliceState is an EndpointSlice.
type SliceState struct {
	Name      string          `json:"name"`
	Family    string          `json:"family"`
	Ports     string          `json:"ports,omitempty"` // name/protocol/number of each port, sorted, separated by commas
	Endpoints []SliceEndpoint `json:"endpoints,omitempty"`
}

// ParseState reads the JSON form of a State. Only its form is checked: what does not fit the topology any more is dropped when
// it is resolved.
func ParseState(text []byte) (*State, error) {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, fmt.Errorf("not a state file, or damaged: %w", err)
	}
	if head.Version == nil {
		return nil, errors.New("not a state file: it has no version")
	}
	if *head.Version != StateVersion {
		return nil, fmt.Errorf("version %d of the state is unknown: this program reads version %d", *head.Version, StateVersion)
	}
	s := &State{}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("damaged: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("damaged: there is more behind its end")
	}
	return s, nil
}

// Encode returns the JSON form, the same for equal states.
func (s *State) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), nil
}

// keepAllocations remembers what a service has.
func (s *ServiceState) keepAllocations(out *Service) {
	s.ClusterIPs, s.LoadBalancerIPs, s.HealthCheckNodePort = out.ClusterIPs, out.LoadBalancerIPs, out.HealthCheckNodePort
	for _, p := range out.Ports {
		if p.NodePort != 0 {
			s.NodePorts = append(s.NodePorts, NodePortState{p.Name, p.Protocol, p.Port, p.NodePort})
		}
	}
}

// packs returns the remembered slices of a family. A name or an endpoint that cannot be the service's own is left out.
func (s *ServiceState) packs(service *Service, family string) (out []*pack) {
	seen := map[string]bool{}
	for i := range s.Slices {
		k := &s.Slices[i]
		suffix, own := strings.CutPrefix(k.Name, service.Name+"-")
		if k.Family != family || seen[k.Name] || !own || !isLabel(suffix) {
			continue
		}
		seen[k.Name] = true
		p := &pack{name: k.Name, ports: k.Ports}
		for j := range k.Endpoints {
			e := k.Endpoints[j]
			p.endpoints = append(p.endpoints, &e)
		}
		out = append(out, p)
	}
	return out
}

// labelsHash is a short form of labels, to tell whether they have changed; "" for none.
func labelsHash(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		fmt.Fprintf(&b, "%q=%q,", k, labels[k])
	}
	return strconv.FormatUint(hash(b.String()), 16)
}

// keep gives a service what it had before, as far as that is in the ranges of now, nobody else's, and it asks for nothing else.
// It comes after all that is asked for has been taken, and before anything new is allocated.
func (r *resolver) keep(s serviceAt) {
	was, known := r.kept[s.out.Key()]
	if !known || !s.allocates {
		return
	}
	if !s.out.Headless {
		r.keepClusterIPs(s, was.ClusterIPs)
	}
	if s.out.Type == LoadBalancer && len(s.in.LoadBalancerIPs) == 0 {
		r.keepVIPs(s, was.LoadBalancerIPs)
	}
	if s.allocatesNodePorts() {
		r.keepNodePorts(s, was.NodePorts)
	}
	if needsHealthPort(s.out) && s.in.HealthCheckNodePort == 0 &&
		r.freeNumber(was.HealthCheckNodePort) {
		s.out.HealthCheckNodePort = was.HealthCheckNodePort
		r.owners.nodePort[was.HealthCheckNodePort] = s.out.Key()
	}
}

// needs reports whether a service still lacks an address of the family of a.
func needs(families []bool, have []netip.Addr, a netip.Addr) bool {
	return slices.Contains(families, a.Is4()) && !slices.ContainsFunc(have, func(b netip.Addr) bool { return b.Is4() == a.Is4() })
}

func (r *resolver) keepClusterIPs(s serviceAt, was []netip.Addr) {
	for _, a := range was {
		if needs(s.families, s.out.ClusterIPs, a) && r.isHost(a) && r.owners.clusterIP[a] == "" {
			r.owners.clusterIP[a] = s.out.Key()
			s.out.ClusterIPs = append(s.out.ClusterIPs, a)
		}
	}
}

func (r *resolver) keepVIPs(s serviceAt, was []netip.Addr) {
	for _, a := range was {
		if needs(s.families, s.out.LoadBalancerIPs, a) && r.inPool(a) && r.freeVIP(a) {
			r.claim(s, s.path+".load_balancer_ips", a)
			s.out.LoadBalancerIPs = append(s.out.LoadBalancerIPs, a)
		}
	}
}

// inPool reports whether a can be allocated from one of the pools.
func (r *resolver) inPool(a netip.Addr) bool {
	return slices.ContainsFunc(r.out.Cluster.LoadBalancerPools, func(p netip.Prefix) bool { return p.Contains(a) && usable(a, p) })
}

// keepNodePorts gives ports the numbers that ports of their name had (Kubernetes' API server does so on an update), or, for one
// that has got another name, those of their protocol and number.
func (r *resolver) keepNodePorts(s serviceAt, was []NodePortState) {
	mine := map[uint16]bool{} // numbers that were taken here: those of one port with several protocols are shared
	for i := range s.out.Ports {
		p := &s.out.Ports[i]
		n := keptNodePort(p, s.out.Ports, was)
		if p.NodePort != 0 || !mine[n] && !r.freeNumber(n) || hasNodePort(s.out.Ports, p.Protocol, n) {
			continue
		}
		p.NodePort, mine[n] = n, true
		r.owners.nodePort[n] = s.out.Key()
	}
}

// keptNodePort returns the number that a port had, 0 for none.
func keptNodePort(p *Port, ports []Port, was []NodePortState) uint16 {
	for _, k := range was {
		if k.Name == p.Name && k.Protocol == p.Protocol {
			return k.NodePort
		}
	}
	for _, k := range was {
		renamed := !slices.ContainsFunc(ports, func(o Port) bool { return o.Name == k.Name })
		if renamed && k.Protocol == p.Protocol && k.Port == p.Port {
			return k.NodePort
		}
	}
	return 0
}

// freeNumber reports whether a number is in the node port range and nobody's.
func (r *resolver) freeNumber(n uint16) bool {
	return n != 0 && r.out.Cluster.NodePortRange.Contains(n) && r.owners.nodePort[n] == ""
}

// primaryFamily returns the family of the first ClusterIP of a service that says nothing of families: the one that it had, else
// that of the first service range.
func (r *resolver) primaryFamily(s serviceAt) bool {
	for _, a := range r.kept[s.out.Key()].ClusterIPs {
		if slices.ContainsFunc(r.out.Cluster.ServiceCIDRs, func(p netip.Prefix) bool { return p.Addr().Is4() == a.Is4() }) {
			return a.Is4()
		}
	}
	return r.out.Cluster.ServiceCIDRs[0].Addr().Is4()
}
