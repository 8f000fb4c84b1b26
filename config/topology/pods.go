package topology

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// pods reads the pods. A pod may be on a node that is not listed, as an endpoint may: its zone is unknown then.
func (r *resolver) pods() {
	seen := map[string]bool{}
	r.out.Pods = slices.Grow(r.out.Pods, len(r.in.Pods))
	for i := range r.in.Pods {
		in, path := &r.in.Pods[i], fmt.Sprintf("pod[%d]", i)
		r.podName(path, in, seen)
		r.oneOf(path+".phase", in.Phase, "Pending", "Running", "Succeeded", "Failed", "Unknown")
		if in.Hostname != "" {
			r.label(path+".hostname", "hostname", in.Hostname)
		}
		if in.Subdomain != "" {
			r.label(path+".subdomain", "subdomain", in.Subdomain)
		}
		r.out.Pods = append(r.out.Pods, Pod{
			Namespace: in.Namespace, Name: in.Name, Node: in.Node, Labels: r.share.sharedLabels(in.Labels), Phase: in.Phase,
			Ready: in.Ready, Terminating: in.Terminating, Hostname: in.Hostname, Subdomain: in.Subdomain,
			Addresses: r.podAddresses(path+".addresses", in.Addresses), Ports: r.share.sharedPorts(r.podPorts(path+".ports", in.Ports)),
		})
	}
	together(r.out.Pods)
}

// podName checks the name of a pod, a DNS name in Kubernetes, and that it is the only one of its namespace.
func (r *resolver) podName(path string, in *PodInput, seen map[string]bool) {
	ok := r.label(path+".namespace", "namespace", in.Namespace)
	switch {
	case in.Name == "":
		r.fault(path+".name", "missing: expected the name of the pod")
	case !isSubdomain(in.Name):
		r.fault(path+".name", "pod name %q is not a DNS name: expected lower-case labels", in.Name)
	case ok && seen[in.Namespace+"/"+in.Name]:
		r.fault(path+".name", "pod %s/%s is there twice", in.Namespace, in.Name)
	}
	seen[in.Namespace+"/"+in.Name] = true
}

// podAddresses reads the addresses of a pod: none as long as it has not started, one, or one of each family. Two pods may have
// the same, as one that has ended and its successor do.
func (r *resolver) podAddresses(path string, list []string) []netip.Addr {
	addrs, paths := r.addrs(path, list)
	for i, a := range addrs {
		if !hostAddr(a) {
			r.fault(paths[i], "%v cannot be the address of a pod: expected an address of a host", a)
		}
		if slices.ContainsFunc(addrs[:i], func(b netip.Addr) bool { return a.Is4() == b.Is4() }) {
			r.fault(paths[i], "%v is the second %s address: expected one of each family at most", a, familyName(a.Is4()))
		}
	}
	return addrs
}

// podPorts reads the named ports of a pod's containers.
func (r *resolver) podPorts(path string, in map[string]int) map[string]uint16 {
	out := make(map[string]uint16, len(in))
	for _, name := range slices.Sorted(maps.Keys(in)) {
		if !r.label(path+"."+name, "port name", name) {
			continue
		}
		if p, ok := r.port(path+"."+name, int64(in[name])); ok {
			out[name] = p
		}
	}
	return out
}

// familyName is what Kubernetes calls a family.
func familyName(four bool) string {
	if four {
		return "IPv4"
	}
	return "IPv6"
}

// podIndex finds pods by namespace and label: a list of indices into Topology.Pods for each label that some pod has.
type podIndex map[[3]string][]int

func indexPods(pods []Pod) podIndex {
	index := podIndex{}
	for i, p := range pods {
		for k, v := range p.Labels {
			key := [3]string{p.Namespace, k, v}
			index[key] = append(index[key], i)
		}
	}
	return index
}

// matching returns the pods of a namespace that have all labels of a selector, in the order of the source. It looks through
// those with the rarest of its labels.
func (x podIndex) matching(pods []Pod, namespace string, selector map[string]string) (out []*Pod) {
	var rarest []int
	first := true
	for k, v := range selector {
		if list := x[[3]string{namespace, k, v}]; first || len(list) < len(rarest) {
			rarest, first = list, false
		}
	}
	for _, i := range rarest {
		if p := &pods[i]; hasLabels(p.Labels, selector) {
			out = append(out, p)
		}
	}
	return out
}

func hasLabels(labels, wanted map[string]string) bool {
	for k, v := range wanted {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// selector takes over the selector of a service. Its endpoints come from one place: pods, or the topology's own list. That an
// ExternalName service has one is of no consequence, as in Kubernetes.
func (r *resolver) selector(s serviceAt) {
	s.out.Selector = r.share.sharedLabels(s.in.Selector)
	if len(s.in.Selector) > 0 && len(s.in.Endpoints) > 0 && s.out.Type != ExternalName {
		r.hinted(s.path+".endpoint", "remove the selector, or the endpoints",
			"a service with a selector gets its endpoints from [[pod]], and cannot list any")
	}
}

// podEndpoints computes the endpoints of a service with a selector, as Kubernetes' EndpointSlice controller does
// (k8s.io/endpointslice, podToEndpoint): one for each address of a pod whose family the service has.
func (r *resolver) podEndpoints(s serviceAt) {
	matching := r.podsByLabel.matching(r.out.Pods, s.out.Namespace, s.out.Selector)
	s.out.Endpoints = slices.Grow(s.out.Endpoints, len(matching))
	for _, p := range matching {
		if p.Ended() {
			continue // it has ended, and its address may be another's by now
		}
		ports := r.share.sharedPorts(resolvedPorts(s.out.Ports, p))
		for _, a := range p.Addresses {
			if len(s.families) > 0 && !slices.Contains(s.families, a.Is4()) {
				continue
			}
			e := Endpoint{Address: a, Ports: ports, Pod: p.Name, Node: p.Node, Weight: 1,
				Ready: s.out.PublishNotReady || p.Ready && !p.Terminating, Serving: p.Ready, Terminating: p.Terminating}
			if n := r.nodes[p.Node]; n != nil {
				e.Zone = n.Zone
			}
			if p.Subdomain == s.out.Name {
				e.Hostname = p.Hostname // else the name would not be below this service (Kubernetes' DNS specification)
			}
			s.out.Endpoints = append(s.out.Endpoints, e)
		}
	}
}

// resolvedPorts returns the port of each service port on a pod. One whose target is a name that the pod does not have is left
// out; a pod without any stays an endpoint, without ports: DNS lists it, no flow goes there.
func resolvedPorts(ports []Port, p *Pod) map[string]uint16 {
	out := make(map[string]uint16, len(ports))
	for _, sp := range ports {
		number := sp.TargetPort
		if sp.TargetName != "" {
			number = p.Ports[sp.TargetName]
		}
		if number != 0 {
			out[sp.Name] = number
		}
	}
	return out
}

// portKey is the resolved port list of an endpoint as text: what its slice has in common. The protocol is part of it.
func portKey(ports []Port, resolved map[string]uint16) string {
	var list []string
	for _, p := range ports {
		if n, ok := resolved[p.Name]; ok {
			list = append(list, fmt.Sprintf("%s/%s/%d", p.Name, p.Protocol, n))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
