package explain

import (
	"fmt"
	"slices"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/wire"
	"sluice/dns/zone"
)

// Step is one thing that was read or found. Its JSON form is stable; the words of Why are for people and may change.
type Step struct {
	Stage  string `json:"stage"` // zone, namespace, service, port, record, missing, reply, ...
	Result string `json:"result"`
	Why    string `json:"why"`
}

// Verdict is what the reply to a question comes to.
type Verdict string

// The verdicts.
const (
	Answered Verdict = "answered"     // records, or an alias that leads out of the zone
	NoData   Verdict = "no data"      // the name exists, and has no records of the type
	NoName   Verdict = "no such name" // also where an alias leads to none
	Refused  Verdict = "refused"
)

// Explanation is why a question is answered as it is.
type Explanation struct {
	Verdict Verdict
	Steps   []Step
}

// Explainer explains what zones answer. It is immutable, and safe for any number of goroutines.
type Explainer struct{ tree *tree }

// New returns an explainer of z, which was compiled from t.
func New(t *topology.Topology, z *zone.Zones) *Explainer { return &Explainer{newTree(t, z.Apexes())} }

// Explain explains r, the reply of dns.Lookup to a name and type. It fails for what Lookup fails for.
func (x *Explainer) Explain(name, qtype string, r *dns.Result) (*Explanation, error) {
	query, err := dns.Query(name, qtype)
	if err != nil {
		return nil, err
	}
	var q wire.Question
	if wire.Peek(query, &q) != wire.Query {
		return nil, fmt.Errorf("%q %s: not a question", name, qtype)
	}
	e := &explainer{tree: x.tree, qtype: q.Type}
	verdict, why := e.question(string(q.Name()))
	if verdict == NoName && r.RCode == "NOERROR" {
		verdict, why = e.searchPath(r.Answer)
	}
	e.records(r.Answer)
	if verdict == Answered {
		why = count(len(r.Answer), "record")
	}
	e.step("reply", r.RCode, why)
	return &Explanation{verdict, e.steps}, nil
}

// explainer gathers the steps of one question.
type explainer struct {
	*tree
	qtype uint16
	steps []Step
	found []*node // the names on the way, which have the records of the answer
	hops  int     // how often aliases have led from zone to zone
}

func (e *explainer) step(stage, result, why string) {
	e.steps = append(e.steps, Step{stage, result, why})
}

// read notes how a name in a zone is read, label by label from the right, as far as it exists. It returns its node, or nil.
func (e *explainer) read(text string) *node {
	apex := e.zoneOf(text)
	e.step("zone", dotted(apex), e.zones[apex])
	if a, ok := spelledBy(text); ok && isReverse(apex) {
		return e.readReverse(text, a)
	}
	var path []string
	for at := text; at != apex; at = wire.Parent(at) {
		path = append(path, at)
	}
	above := e.names[apex]
	for _, at := range slices.Backward(path) {
		n := e.names[at]
		if n == nil {
			n = e.standIn(above, at)
		}
		if n == nil || at == text && !e.exists(n) {
			e.missing(above, at, text)
			return nil
		}
		e.step(n.kind, n.object, n.note)
		above = n
	}
	return above
}

// standIn returns what stands for a name that is no name of its own: an address that a label spells, or a topology zone without
// endpoints.
func (e *explainer) standIn(above *node, text string) *node {
	label := firstLabel(text)
	if above.any != nil {
		n := *above.any
		n.text, n.object, n.level = text, escaped(label), true
		return &n
	}
	if a, ok := undashed(label); ok && above.pods {
		n := &node{text: text, zone: above.zone, level: true, kind: "pod", object: a.String(),
			note: "spelled by the label: dns.pods is \"insecure\""}
		n.address(a, "spelled by the name")
		return n
	}
	return nil
}
