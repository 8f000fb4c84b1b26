package explain

import (
	"slices"
	"strings"

	"sluice/dns/wire"
)

// maxSuggested is how many names are suggested for one reason.
const maxSuggested = 3

// suggest notes those of some names that exist.
func (e *explainer) suggest(names []string, why string) {
	n := 0
	for _, text := range names {
		said := slices.ContainsFunc(e.steps, func(s Step) bool { return s.Stage == "perhaps" && s.Result == dotted(text) })
		if n < maxSuggested && !said && e.exists(e.names[text]) {
			e.step("perhaps", dotted(text), why)
			n++
		}
	}
}

// searched returns a name with the domains behind it in which a pod would look for it.
func (t *tree) searched(text string) (out []string) {
	head := reversed(labelsOf(text))
	domain := mustName(t.top.Cluster.Domain)
	svc := under(domain, "svc")
	for _, parent := range []string{domain, svc} {
		out = append(out, under(parent, head...))
	}
	for _, ns := range t.top.Namespaces {
		out = append(out, under(under(svc, ns.Name), head...))
	}
	return out
}

// suggestInside suggests names for one that is missing in the domain of the cluster.
func (e *explainer) suggestInside(text string) {
	labels := labelsOf(text)
	for n := len(labels) - 1; n > 1; n-- {
		if whole := under("\x00", reversed(labels[:n])...); e.exists(e.names[whole]) {
			e.suggest([]string{whole}, "the name without the domain that stands behind it once more")
			return
		}
	}
	domain := mustName(e.top.Cluster.Domain)
	head, inside := strings.CutSuffix(text, domain)
	if !inside {
		return
	}
	labels = labelsOf(head + "\x00")
	svc := under(domain, "svc")
	if n := len(labels) - 1; n >= 0 && labels[n] == "svc" {
		labels = labels[:n]
	} else {
		e.suggest([]string{under(svc, reversed(labels)...)}, "services are below svc")
	}
	e.suggest(e.inNamespaces(svc, labels, text), "a service of that name in another namespace")
}

// inNamespaces returns the name whose labels stand before svc with each namespace behind them, and in the place of the last.
func (t *tree) inNamespaces(svc string, labels []string, except string) (out []string) {
	for _, ns := range t.top.Namespaces {
		parent := under(svc, ns.Name)
		if n := len(labels) - 1; n > 0 {
			out = append(out, under(parent, reversed(labels[:n])...))
		}
		if len(labels) > 0 {
			out = append(out, under(parent, reversed(labels)...))
		}
	}
	return slices.DeleteFunc(out, func(text string) bool { return text == except || text == wire.Parent(except) })
}
