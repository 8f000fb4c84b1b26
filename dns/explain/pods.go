package explain

import (
	"fmt"

	"sluice/config/topology"
)

// pods adds the names of pods.
func (t *tree) pods() {
	domain := mustName(t.top.Cluster.Domain)
	top := under(domain, "pod")
	if t.top.DNS.Pods == topology.PodsInsecure {
		for _, ns := range t.top.Namespaces {
			if n := t.names[under(top, ns.Name)]; n != nil {
				n.pods = true
			}
		}
	}
	if t.top.DNS.Pods == topology.PodsVerified {
		for i := range t.top.Pods {
			t.pod(&t.top.Pods[i], top)
		}
	}
}

// pod adds the names of a pod. One that has ended has given its addresses back.
func (t *tree) pod(p *topology.Pod, top string) {
	if !t.top.DNS.Shows(p.Namespace) {
		return
	}
	for _, a := range p.Addresses {
		text := under(top, p.Namespace, dashed(a))
		if p.Ended() {
			t.absent[text] = fmt.Sprintf("pod %s/%s has ended (%s), and has given the address back", p.Namespace, p.Name, p.Phase)
			continue
		}
		n := t.ensure(text)
		n.kind, n.object, n.note = "pod", a.String(), fmt.Sprintf("pod %s/%s", p.Namespace, p.Name)
		n.address(a, n.note)
	}
}

// missingPod returns what is said of names missing in a namespace of pods.
func (t *tree) missingPod(namespace string) func(string) string {
	return func(label string) string {
		switch a, ok := undashed(label); {
		case t.top.DNS.Pods == topology.PodsDisabled:
			return "pods have no names: dns.pods is \"disabled\""
		case !ok:
			return "pods have names that spell an address, like 172-24-4-9"
		default:
			return fmt.Sprintf("no pod of namespace %q has the address %v", namespace, a)
		}
	}
}
