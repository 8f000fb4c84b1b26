package explain

import (
	"net/netip"
	"slices"
	"strings"
)

// unclaimed is said of a record that no object was found for.
const unclaimed = "no object of the topology was found that has it"

// records notes for each record of the answer whose it is.
func (e *explainer) records(answer []string) {
	for _, line := range answer {
		fields := strings.SplitN(line, " ", 5) // owner, TTL, class, type, data
		if len(fields) < 5 {
			continue
		}
		typ, data := fields[3], fields[4]
		e.step("record", typ+" "+data, e.whose(typ, canonical(typ, data)))
	}
}

// whose names the objects that have a record.
func (e *explainer) whose(typ, data string) string {
	if typ == "HINFO" {
		return "stands for all types (RFC 8482): ask for one of them"
	}
	var whose []string
	for _, n := range e.found {
		for _, o := range n.offers {
			if o.typ == typ && o.data == data && !slices.Contains(whose, o.why) {
				whose = append(whose, o.why)
			}
		}
	}
	if len(whose) == 0 {
		return unclaimed
	}
	return abridged(whose)
}

// canonical returns the data of a record in the form that offers have: in lower case, without the dot at the end, and without what the
// answer alone decides.
func canonical(typ, data string) string {
	data = strings.ToLower(strings.TrimSuffix(data, "."))
	switch typ {
	case "SOA":
		return ""
	case "A", "AAAA":
		if a, err := netip.ParseAddr(data); err == nil {
			return a.String()
		}
	case "SRV":
		if fields := strings.Fields(data); len(fields) == 4 {
			return strings.Join(fields[2:], " ") // without priority and weight
		}
	}
	return data
}
