package explain

import (
	"fmt"
	"strings"

	"sluice/dns/wire"
)

// missing notes that at, which is text or stands above it, does not exist below a name that does.
func (e *explainer) missing(above *node, at, text string) {
	label := firstLabel(at)
	why, known := e.absent[at]
	if known {
		e.step("missing", escaped(label), why)
		e.suggestInside(text)
		return
	}
	switch {
	case e.names[at] != nil:
		why = "dns.coredns_compat: a name that only has others below it does not exist"
	case label == "*":
		why = "there are no wildcards"
	case above.below != nil:
		why = above.below(label)
	default:
		why = fmt.Sprintf("nothing is called so below %s", dotted(above.text))
	}
	near := e.near(above, label)
	if len(near) > 0 {
		why += "; near: " + strings.Join(near, ", ")
	}
	e.step("missing", escaped(label), why)
	e.suggest(e.corrected(near, at, text), "the same with the name that is near")
	e.suggestInside(text)
}

// corrected returns text with each of the near labels in the place of the first label of at, as far as these names exist.
func (e *explainer) corrected(near []string, at, text string) (out []string) {
	head := reversed(labelsOf(strings.TrimSuffix(text, at) + "\x00"))
	for _, l := range near {
		if len(head) > 0 {
			out = append(out, under(under(wire.Parent(at), l), head...))
		}
	}
	return out
}
