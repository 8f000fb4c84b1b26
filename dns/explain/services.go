package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/config/topology"
)

// hiddenNamespace is why nothing of a namespace has a name.
const hiddenNamespace = "dns.namespaces does not list it, and hides it"

// services adds the names of namespaces and services.
func (t *tree) services() {
	domain := mustName(t.top.Cluster.Domain)
	svc := t.level(under(domain, "svc"), "label", "names of services are below it")
	pod := t.level(under(domain, "pod"), "label", "names of pods are below it")
	for _, parent := range []*node{svc, pod} {
		parent.below = missingNamespace
	}
	for i := range t.top.Services {
		t.servicesOf[t.top.Services[i].Namespace]++
	}
	for _, ns := range t.top.Namespaces {
		t.namespace(svc, ns.Name, count(t.servicesOf[ns.Name], "service"), missingService(ns.Name))
		t.namespace(pod, ns.Name, fmt.Sprintf("dns.pods is %q", t.top.DNS.Pods), t.missingPod(ns.Name))
	}
	for i := range t.top.Services {
		if s := &t.top.Services[i]; t.top.DNS.Shows(s.Namespace) {
			t.service(s, under(svc.text, s.Namespace, s.Name))
		}
	}
	t.clusterPTRs(svc.text)
}

func missingNamespace(label string) string { return fmt.Sprintf("namespace %q does not exist", label) }

// missingService returns what is said of services missing in a namespace.
func missingService(namespace string) func(string) string {
	return func(label string) string { return fmt.Sprintf("service %q does not exist", namespace+"/"+label) }
}

// namespace adds a namespace below svc, pod or the external zone, with what is said of names that are missing in it.
func (t *tree) namespace(parent *node, name, note string, below func(string) string) {
	text := under(parent.text, name)
	if !t.top.DNS.Shows(name) {
		t.absent[text] = fmt.Sprintf("namespace %q: %s", name, hiddenNamespace)
		return
	}
	n := t.level(text, "namespace", note)
	n.below = below
}

// service adds the names of a service.
func (t *tree) service(s *topology.Service, text string) {
	if s.Type == topology.ExternalName {
		n := t.describe(text, s)
		n.offer("CNAME", s.ExternalName, "external_name of service "+s.Key())
		n.below = func(string) string {
			return "a service of type ExternalName is an alias: nothing is below it, neither endpoints nor ports"
		}
		return
	}
	hosts := t.endpoints(s, text)
	if why := t.nameless(s); why != "" {
		t.absent[text] = fmt.Sprintf("service %q has no name: %s", s.Key(), why)
		return
	}
	n := t.describe(text, s)
	n.below = t.missingBelow(s)
	if !s.Headless {
		hosts = addressHosts(text, s, s.ClusterIPs, "ClusterIP of service "+s.Key())
	}
	for _, h := range hosts {
		n.address(h.addr, h.what)
	}
	n.srv(s.Ports, hosts)
	t.ports(s, text, hosts)
	t.zonal(s, text, hosts)
}

// nameless says why a service has no name, "" if it has one.
func (t *tree) nameless(s *topology.Service) string {
	some := slices.ContainsFunc(s.Endpoints, published(s))
	switch {
	case s.Headless && t.top.DNS.NoEndpoints:
		return "it is headless, and dns.no_endpoints is set"
	case s.Headless && !some:
		return "it is headless, and " + noneReady(s)
	case !s.Headless && t.top.DNS.IgnoreEmpty && !some:
		return "dns.ignore_empty_services is set, and " + noneReady(s)
	}
	return ""
}

// noneReady says what endpoints a service has of which none is ready.
func noneReady(s *topology.Service) string {
	if len(s.Endpoints) == 0 {
		return "there is no endpoint"
	}
	var addrs []string
	for i := range s.Endpoints {
		addrs = append(addrs, s.Endpoints[i].Address.String())
	}
	return fmt.Sprintf("no endpoint is ready (not ready: %s)", abridged(addrs))
}

// abridged returns a list that is not too long to be read.
func abridged(words []string) string {
	const most = 8
	if len(words) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(words[:most], ", "), len(words)-most)
	}
	return strings.Join(words, ", ")
}

// published returns what tells endpoints that have names from those that have none.
func published(s *topology.Service) func(topology.Endpoint) bool {
	return func(e topology.Endpoint) bool { return e.Ready || s.PublishNotReady }
}

// describe adds the name of a service with what the service is.
func (t *tree) describe(text string, s *topology.Service) *node {
	n := t.ensure(text)
	n.kind, n.object = "service", s.Key()
	if s.Type == topology.ExternalName {
		n.note = "ExternalName: an alias of " + s.ExternalName
		return n
	}
	ready := 0
	for i := range s.Endpoints {
		if s.Endpoints[i].Ready {
			ready++
		}
	}
	what := "headless"
	if !s.Headless {
		what = strings.TrimSpace(string(s.Type) + " " + addresses(s.ClusterIPs))
	}
	n.note = fmt.Sprintf("%s; %d of %s ready", what, ready, count(len(s.Endpoints), "endpoint"))
	if s.PublishNotReady {
		n.note += ", or published all the same (publish_not_ready_addresses)"
	}
	return n
}

func addresses(addrs []netip.Addr) string {
	var out []string
	for _, a := range addrs {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}
