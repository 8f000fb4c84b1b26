package topology

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// serviceAt is a service on its way through the resolver.
type serviceAt struct {
	in   *ServiceInput
	out  *Service
	path string

	allocates bool   // it can have addresses and ports
	families  []bool // of its addresses, whether IPv4, the primary one first; known once it allocates
}

// allocatesNodePorts reports whether the ports of a service that ask for no node port get one.
func (s serviceAt) allocatesNodePorts() bool {
	return s.out.Type == NodePort || s.out.Type == LoadBalancer && s.in.AllocateNodePorts
}

// services resolves every service. Addresses and ports that are asked for are taken before any are allocated, so that
// an allocation never takes what a later service asks for.
func (r *resolver) services() {
	r.reserve()
	r.out.Services = make([]Service, 0, len(r.in.Services))
	seen := map[string]bool{}
	var all []serviceAt
	for i := range r.in.Services {
		s := serviceAt{in: &r.in.Services[i], path: fmt.Sprintf("service[%d]", i)}
		r.serviceName(s, seen)
		r.out.Services = append(r.out.Services, Service{Namespace: s.in.Namespace, Name: s.in.Name})
		s.out = &r.out.Services[len(r.out.Services)-1]
		all = append(all, s)
	}
	for _, s := range all {
		r.service(s)
	}
	for _, s := range all {
		r.requested(s)
	}
	r.requestedDNSAddress()
	r.readRoutes()
	for i := range all {
		all[i].families, all[i].allocates = r.allocatedFamilies(all[i])
	}
	for _, s := range all {
		r.keep(s)
	}
	for _, s := range all {
		r.allocate(s)
	}
	r.defaultDNSAddress()
	r.resolveRoutes()
	if len(r.faults) == 0 {
		r.endpointsAndSlices(all)
	}
}

// serviceName checks the name and that it is the only service of this name. A service with a bad name is looked at all the
// same, for its other faults.
func (r *resolver) serviceName(s serviceAt, seen map[string]bool) {
	okNS := r.label(s.path+".namespace", "namespace", s.in.Namespace)
	okName := r.label(s.path+".name", "service name", s.in.Name)
	if key := s.in.Namespace + "/" + s.in.Name; okNS && okName {
		if seen[key] {
			r.fault(s.path+".name", "service %s is there twice", key)
		}
		seen[key] = true
	}
}

// service resolves all of a service but addresses and node ports.
func (r *resolver) service(s serviceAt) {
	in, out := s.in, s.out
	r.oneOf(s.path+".type", in.Type, string(ClusterIP), string(NodePort), string(LoadBalancer), string(ExternalName))
	r.oneOf(s.path+".load_balancer_ip_mode", in.LoadBalancerIPMode, "VIP", "Proxy")
	r.oneOf(s.path+".external_traffic_policy", in.ExternalTrafficPolicy, string(PolicyCluster), string(PolicyLocal))
	r.oneOf(s.path+".internal_traffic_policy", in.InternalTrafficPolicy, string(PolicyCluster), string(PolicyLocal))
	out.Type = ServiceType(in.Type)
	out.LoadBalancerProxyMode = in.LoadBalancerIPMode == "Proxy"
	out.ExternalTrafficPolicy, out.InternalTrafficPolicy = Policy(in.ExternalTrafficPolicy), Policy(in.InternalTrafficPolicy)
	out.PublishNotReady, out.Labels, out.Annotations = in.PublishNotReady, in.Labels, in.Annotations
	out.Headless = len(in.ClusterIPs) == 1 && in.ClusterIPs[0] == "None"
	r.selector(s)
	r.ports(s)
	r.labels(s.path+".labels", in.Labels)
	r.labels(s.path+".selector", in.Selector)
	r.annotationKeys(s.path+".annotations", in.Annotations)
	r.typeRules(s)
	r.sourceRanges(s)
	r.affinity(s)
	r.distribution(s)
	r.endpoints(s)
	r.healthCheck(s)
}

// typeRules checks what a service of its type may have (Kubernetes' validation of core/v1 Service).
func (r *resolver) typeRules(s serviceAt) {
	in, out := s.in, s.out
	external := out.Type == LoadBalancer || out.Type == NodePort || len(in.ExternalIPs) > 0
	if out.ExternalTrafficPolicy == PolicyLocal && !external {
		r.fault(s.path+".external_traffic_policy", "Local on a service that is not reachable from outside: expected type NodePort or LoadBalancer, or external_ips")
	}
	if out.Type == LoadBalancer {
		r.hostnames(s)
	} else {
		r.onlyLoadBalancer(s)
	}
	if out.Headless && (out.Type == NodePort || out.Type == LoadBalancer) {
		r.fault(s.path+".cluster_ips", "a headless service cannot be of type %s", out.Type)
	}
	if out.Headless && len(in.ExternalIPs) > 0 {
		r.fault(s.path+".external_ips", "a headless service has no addresses of its own")
	}
	if out.Type == ExternalName {
		r.externalName(s)
		return
	}
	if in.ExternalName != "" {
		r.fault(s.path+".external_name", "only for type ExternalName, this is %s", out.Type)
	}
	if len(in.Ports) == 0 && !out.Headless {
		r.fault(s.path+".port", "no port: expected at least one [[service.port]]")
	}
}

// distribution resolves what a service prefers among its endpoints by topology. Its annotations have two names, and both given
// must say the same.
func (r *resolver) distribution(s serviceAt) {
	in, path := s.in, s.path+".traffic_distribution"
	if in.TrafficDistribution != "" && r.oneOf(path, in.TrafficDistribution, "PreferSameZone", "PreferSameNode", "PreferClose") {
		s.out.TrafficDistribution = in.TrafficDistribution
	}
	const mode, older = "service.kubernetes.io/topology-mode", "service.kubernetes.io/topology-aware-hints"
	a, hasA := in.Annotations[mode]
	b, hasB := in.Annotations[older]
	if hasA && hasB && a != b {
		r.fault(s.path+".annotations", "%s = %q and %s = %q: expected the same", mode, a, older, b)
	}
	r.rangesAnnotation(s)
}

// onlyLoadBalancer refuses the keys that other types cannot have.
func (r *resolver) onlyLoadBalancer(s serviceAt) {
	for _, k := range []struct {
		key string
		set bool
	}{
		{"load_balancer_ips", len(s.in.LoadBalancerIPs) > 0},
		{"load_balancer_hostnames", len(s.in.LoadBalancerHostnames) > 0},
		{"load_balancer_ip_mode", s.in.LoadBalancerIPMode == "Proxy"},
		{"allocate_load_balancer_node_ports", !s.in.AllocateNodePorts},
		{"health_check", s.in.HealthCheck != nil},
	} {
		if k.set {
			r.fault(s.path+"."+k.key, "only for type LoadBalancer, this is %s", s.in.Type)
		}
	}
}

// hostnames resolves the names of a load balancer that has names instead of, or beside, addresses. They are for DNS alone.
func (r *resolver) hostnames(s serviceAt) {
	for i, name := range s.in.LoadBalancerHostnames {
		path := fmt.Sprintf("%s.load_balancer_hostnames[%d]", s.path, i)
		h := strings.ToLower(strings.TrimSuffix(name, "."))
		_, notAddress := netip.ParseAddr(h)
		switch {
		case notAddress == nil:
			r.hinted(path, "put it under load_balancer_ips", "%q is an address: expected a DNS name like \"lb.example.org\"", name)
		case !isSubdomain(h):
			r.fault(path, "%q is not a DNS name: expected one like \"lb.example.org\"", name)
		case slices.Contains(s.out.LoadBalancerHostnames, h):
			r.fault(path, "%q is there twice", name)
		default:
			s.out.LoadBalancerHostnames = append(s.out.LoadBalancerHostnames, h)
		}
	}
}

func (r *resolver) externalName(s serviceAt) {
	in := s.in
	name := strings.ToLower(strings.TrimSuffix(in.ExternalName, "."))
	if in.ExternalName == "" {
		r.fault(s.path+".external_name", "missing: expected a DNS name like \"db.example.org\"")
	} else if !isSubdomain(name) {
		r.fault(s.path+".external_name", "%q is not a DNS name: expected one like \"db.example.org\"", in.ExternalName)
	}
	s.out.ExternalName = name
	if len(in.ClusterIPs) > 0 {
		r.fault(s.path+".cluster_ips", "an ExternalName service has no addresses")
	}
	if len(in.IPFamilies) > 0 || in.IPFamilyPolicy != "" {
		r.fault(s.path+".ip_families", "an ExternalName service has no address families")
	}
	if len(in.Endpoints) > 0 {
		r.fault(s.path+".endpoint", "an ExternalName service has no endpoints")
	}
	if len(in.ExternalIPs) > 0 {
		r.fault(s.path+".external_ips", "an ExternalName service has no addresses")
	}
	for i, p := range in.Ports {
		if p.NodePort != 0 {
			r.fault(fmt.Sprintf("%s.port[%d].node_port", s.path, i), "only for types NodePort and LoadBalancer, this is %s", in.Type)
		}
	}
}

// ports resolves the ports of a service.
func (r *resolver) ports(s serviceAt) {
	names, targets := map[string]bool{}, map[Protocol]map[uint16]bool{TCP: {}, UDP: {}, SCTP: {}}
	for i := range s.in.Ports {
		in, path := &s.in.Ports[i], fmt.Sprintf("%s.port[%d]", s.path, i)
		if !r.oneOf(path+".protocol", in.Protocol, string(TCP), string(UDP), string(SCTP)) {
			continue
		}
		p := Port{Name: in.Name, Protocol: Protocol(in.Protocol)}
		r.portName(path, p.Name, len(s.in.Ports), names)
		if in.Port == 0 {
			r.fault(path+".port", "0 or missing: expected a port, 1 to 65535")
			continue
		}
		var ok bool
		if p.Port, ok = r.port(path+".port", int64(in.Port)); !ok {
			continue
		}
		if targets[p.Protocol][p.Port] {
			r.fault(path+".port", "%d/%s is there twice", p.Port, p.Protocol)
		}
		targets[p.Protocol][p.Port] = true
		if !r.targetPort(path+".target_port", in.TargetPort, &p) {
			continue
		}
		s.out.Ports = append(s.out.Ports, p)
	}
}

// targetPort reads a target port: none, a number, or the name of a port of pods.
func (r *resolver) targetPort(path string, v any, p *Port) (ok bool) {
	switch v := v.(type) {
	case nil:
		p.TargetPort, ok = p.Port, true
	case int:
		p.TargetPort, ok = r.port(path, int64(v))
	case int64:
		p.TargetPort, ok = r.port(path, v)
	case string:
		p.TargetName, ok = v, r.containerPortName(path, v)
	default:
		r.fault(path, "expected a whole number, without quotes, like 80, or the name of a port of pods, in quotes")
	}
	return ok
}

// portName checks that the ports of a service can be told apart by name.
func (r *resolver) portName(path, name string, ports int, seen map[string]bool) {
	switch {
	case name == "" && ports > 1:
		r.fault(path+".name", "no name: the ports of a service with several must have names")
	case name != "" && !r.label(path+".name", "port name", name):
	case seen[name]:
		r.fault(path+".name", "port name %q is there twice", name)
	}
	seen[name] = true
}

func (r *resolver) endpoints(s serviceAt) {
	s.out.Endpoints = slices.Grow(s.out.Endpoints, len(s.in.Endpoints))
	for i := range s.in.Endpoints {
		in, path := &s.in.Endpoints[i], fmt.Sprintf("%s.endpoint[%d]", s.path, i)
		a := r.endpointAddress(path+".address", in.Address)
		e := Endpoint{Address: a, Hostname: in.Hostname, Pod: in.Pod, Node: in.Node, Zone: in.Zone,
			Ready: isReady(in) || s.in.PublishNotReady, Serving: in.Serving, Terminating: in.Terminating, Weight: in.Weight,
			ForZones: in.ForZones, ForNodes: in.ForNodes}
		if in.Hostname != "" {
			r.label(path+".hostname", "hostname", in.Hostname)
		}
		if e.Weight < 0 || e.Weight > maxWeight {
			r.fault(path+".weight", "%d is out of range: expected 0 to %d", e.Weight, maxWeight)
		}
		if n := r.nodes[e.Node]; n != nil && e.Zone == "" {
			e.Zone = n.Zone
		}
		e.ForZones = r.hints(path+".for_zones", "zone", in.ForZones, isLabelValue)
		e.ForNodes = r.hints(path+".for_nodes", "node", in.ForNodes, isSubdomain)
		e.Ports = r.share.sharedPorts(r.endpointPorts(s, in, path))
		s.out.Endpoints = append(s.out.Endpoints, e)
	}
}

// isReady is the condition of a listed endpoint: as it says, like that of an EndpointSlice, which proxies take at its word; and
// when it says nothing, as Kubernetes' controller would write it, which has no terminating endpoint ready.
func isReady(in *EndpointInput) bool {
	if in.Ready != nil {
		return *in.Ready
	}
	return !in.Terminating
}

// maxHints bounds the hints of an endpoint of one kind, as Kubernetes' validation of EndpointSlices does.
const maxHints = 8

// hints reads the zones or nodes that an endpoint is for.
func (r *resolver) hints(path, what string, list []string, valid func(string) bool) []string {
	if len(list) > maxHints {
		r.fault(path, "%d %ss: expected at most %d", len(list), what, maxHints)
	}
	for i, name := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case !valid(name):
			r.fault(at, "%q is not the name of a %s", name, what)
		case slices.Contains(list[:i], name):
			r.fault(at, "%q is there twice", name)
		}
	}
	return list
}

// endpointAddress reads the address of an endpoint. Without a good one it is invalid, and the rest of the endpoint is looked
// at all the same.
func (r *resolver) endpointAddress(path, s string) netip.Addr {
	if s == "" {
		r.fault(path, "missing: expected an IP address like \"198.18.1.11\"")
		return netip.Addr{}
	}
	a, ok := r.addr(path, s)
	if ok && !hostAddr(a) {
		r.fault(path, "%v cannot be an endpoint: expected an address of a host", a)
	}
	return a
}

// maxWeight bounds weights, so that building a table takes a bounded number of rounds.
const maxWeight = 1000

// endpointPorts resolves the port of each service port on an endpoint: those that it does not name are the target ports. One
// whose target is the name of a port of pods means nothing to an endpoint without a pod: what it does not name it does not serve.
func (r *resolver) endpointPorts(s serviceAt, in *EndpointInput, path string) map[string]uint16 {
	ports := map[string]uint16{}
	for name, v := range in.Ports {
		if !slices.ContainsFunc(s.in.Ports, func(p PortInput) bool { return p.Name == name }) {
			r.hinted(path+".ports."+name, portNames(s.in), "the service has no port of this name")
			continue
		}
		if v == 0 {
			continue // it does not serve this port, as an EndpointSlice whose port has no number
		}
		if p, ok := r.port(path+".ports."+name, int64(v)); ok {
			ports[name] = p
		}
	}
	for _, p := range s.out.Ports {
		_, given := in.Ports[p.Name]
		switch {
		case given:
		case p.TargetName != "":
			r.hinted(path+".ports", fmt.Sprintf("add ports = { %q = 8080 } with the number", p.Name),
				"the target port of port %q is a name, and the endpoint does not say its number", p.Name)
		default:
			ports[p.Name] = p.TargetPort
		}
	}
	return ports
}

// portNames says in a hint how the ports of a service are named.
func portNames(s *ServiceInput) string {
	var names []string
	for _, p := range s.Ports {
		names = append(names, strconv.Quote(p.Name))
	}
	return "ports of the service: " + strings.Join(names, ", ")
}

func (r *resolver) healthCheck(s serviceAt) {
	in, path := s.in.HealthCheck, s.path+".health_check"
	if in == nil || in.Type == "none" {
		return
	}
	for _, later := range []string{"https", "grpc", "dns", "udp", "icmp"} {
		if in.Type == later {
			r.fault(path+".type", "%q is not supported yet: expected \"tcp\", \"http\" or \"none\"", later)
			return
		}
	}
	if !r.oneOf(path+".type", in.Type, "tcp", "http", "none") {
		return
	}
	h := &HealthCheck{Type: in.Type, Path: in.Path, Port: in.Port, Rise: in.Rise, Fall: in.Fall}
	h.Interval = r.duration(path+".interval", in.Interval, 0)
	h.Timeout = r.duration(path+".timeout", in.Timeout, 0)
	if h.Timeout > h.Interval && h.Interval > 0 {
		r.fault(path+".timeout", "%v is longer than the interval of %v", h.Timeout, h.Interval)
	}
	if h.Rise < 1 || h.Fall < 1 {
		r.fault(path, "rise %d and fall %d: expected at least 1", h.Rise, h.Fall)
	}
	if h.Type == "http" && !strings.HasPrefix(h.Path, "/") {
		r.fault(path+".path", "%q is not a path: expected one like \"/healthz\"", h.Path)
	}
	r.checkedPort(s, h, path)
	s.out.HealthCheck = h
}

// checkedPort checks that the probed port exists and speaks TCP.
func (r *resolver) checkedPort(s serviceAt, h *HealthCheck, path string) {
	i := slices.IndexFunc(s.out.Ports, func(p Port) bool { return p.Name == h.Port || h.Port == "" && p.Protocol == TCP })
	switch {
	case i < 0 && h.Port == "":
		r.fault(path, "the service has no TCP port to check")
	case i < 0:
		r.hinted(path+".port", portNames(s.in), "the service has no port named %q", h.Port)
	case s.out.Ports[i].Protocol != TCP:
		r.fault(path+".port", "port %q is %s: a check of type %s needs TCP", h.Port, s.out.Ports[i].Protocol, h.Type)
	default:
		h.Port = s.out.Ports[i].Name
	}
}

// families returns the families of a service's ClusterIPs, the primary one first: as listed, else as of the addresses that it
// asks for, else the one that it had before or that of the first service range; and the other one when the policy wants two.
//
// ok is false when they cannot be had, which has been reported then.
func (r *resolver) families(s serviceAt) (v4 []bool, ok bool) {
	policy := s.in.IPFamilyPolicy
	if policy != "" && !r.oneOf(s.path+".ip_family_policy", policy, "SingleStack", "PreferDualStack", "RequireDualStack") {
		return nil, false
	}
	// Kubernetes gives headless services without selector any families: nobody allocates for them, and the endpoints are given.
	given := s.out.Headless && len(s.in.Selector) == 0
	have := map[bool]bool{true: given, false: given}
	for _, p := range r.out.Cluster.ServiceCIDRs {
		have[p.Addr().Is4()] = true
	}
	if v4, ok = r.listedFamilies(s, have); !ok || !r.familiesMatch(s, v4) {
		return nil, false
	}
	if len(v4) == 0 {
		for _, a := range s.out.ClusterIPs {
			v4 = append(v4, a.Is4())
		}
	}
	if len(v4) == 0 && len(r.out.Cluster.ServiceCIDRs) > 0 {
		v4 = []bool{r.primaryFamily(s)}
	}
	switch {
	case len(v4) == 2 && policy == "SingleStack":
		r.fault(s.path+".ip_family_policy", "SingleStack with two families")
		return nil, false
	case len(v4) == 1 && (policy == "PreferDualStack" || policy == "RequireDualStack") && have[!v4[0]]:
		v4 = append(v4, !v4[0])
	case len(v4) < 2 && policy == "RequireDualStack":
		r.fault(s.path+".ip_family_policy", "RequireDualStack, and cluster.service_cidrs has one family only")
		return nil, false
	}
	return v4, true
}

// familiesMatch checks that the addresses a service asks for are of the families it lists, in their order.
func (r *resolver) familiesMatch(s serviceAt, listed []bool) bool {
	for i, a := range s.out.ClusterIPs {
		if len(listed) > 0 && (i >= len(listed) || listed[i] != a.Is4()) {
			r.fault(s.path+".cluster_ips", "%v does not go with ip_families %q: expected addresses of these families, in their order",
				a, s.in.IPFamilies)
			return false
		}
	}
	return true
}

// listedFamilies reads ip_families; have says which families the service ranges have.
func (r *resolver) listedFamilies(s serviceAt, have map[bool]bool) (v4 []bool, ok bool) {
	path := s.path + ".ip_families"
	for i, f := range s.in.IPFamilies {
		if !r.oneOf(fmt.Sprintf("%s[%d]", path, i), f, "IPv4", "IPv6") {
			return nil, false
		}
		is4 := f == "IPv4"
		if slices.Contains(v4, is4) {
			r.fault(fmt.Sprintf("%s[%d]", path, i), "%s is there twice", f)
			return nil, false
		}
		if !have[is4] {
			r.fault(fmt.Sprintf("%s[%d]", path, i), "cluster.service_cidrs has no %s range", f)
			return nil, false
		}
		v4 = append(v4, is4)
	}
	return v4, true
}
