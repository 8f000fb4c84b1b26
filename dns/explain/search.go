package explain

import (
	"strings"

	"sluice/dns/wire"
)

// searchPath explains an answer that was found under another name on the search path of the client, to which a CNAME record in front
// leads.
func (e *explainer) searchPath(answer []string) (Verdict, string) {
	target := ""
	if len(answer) > 0 {
		target = answer[0][strings.LastIndexByte(answer[0], ' ')+1:]
	}
	text, err := wire.Name(target)
	if err != nil || e.zoneOf(text) == "" {
		return Answered, "" // by another server, of whose names nothing is known
	}
	const why = "the client is a pod, whose search path is followed (dns.autopath)"
	e.step("search", dotted(text), why)
	path := &node{}
	path.offer("CNAME", dotted(text), why)
	e.found = append(e.found, path)
	return e.question(text)
}
