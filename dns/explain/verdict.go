package explain

import (
	"fmt"
	"slices"

	mdns "github.com/miekg/dns"

	"sluice/dns/wire"
)

// maxChain is how many aliases one answer follows inside a zone, and maxHops how many from there on where forwarding is on.
const (
	maxChain = 10
	maxHops  = 8
)

// question returns what the question for a name comes to, and why.
func (e *explainer) question(text string) (Verdict, string) {
	switch {
	case e.qtype == wire.TypeAXFR || e.qtype == wire.TypeIXFR:
		return Refused, "whole zones are sent to the addresses in dns.transfer_to by TCP, and not by dig"
	case e.zoneOf(text) == "":
		return Refused, e.outsideAll(text)
	}
	n := e.read(text)
	if n == nil {
		return NoName, "the name does not exist, with whatever type"
	}
	e.found = append(e.found, n)
	return e.answer(n)
}

// answer returns what the question comes to at a name that exists.
func (e *explainer) answer(n *node) (Verdict, string) {
	typ := typeName(e.qtype)
	switch {
	case e.qtype == wire.TypeANY && len(n.offers) > 0, n.has(typ):
		return Answered, ""
	case n.has("CNAME"):
		return e.follow(n)
	case n.kind == "version" && e.top.DNS.Compat:
		return NoName, "dns.coredns_compat: dns-version exists for TXT only"
	}
	return NoData, e.noData(n)
}

// typeName returns the name of a type of records, such as AAAA or TYPE65280.
func typeName(qtype uint16) string {
	if name, ok := mdns.TypeToString[qtype]; ok {
		return name
	}
	return fmt.Sprintf("TYPE%d", qtype)
}

// follow returns what the question comes to at an alias, which is followed as long as it stays in its zone.
func (e *explainer) follow(n *node) (Verdict, string) {
	seen := map[*node]bool{}
	for range maxChain {
		seen[n] = true
		target := n.target()
		e.step("alias", dotted(target), "where "+dotted(n.text)+" leads")
		if e.zoneOf(target) != n.zone {
			return e.leaves(target)
		}
		e.read(target)
		next := e.names[target]
		switch {
		case next == nil && e.spelled(target):
			return e.open(target)
		case next == nil && e.top.DNS.Compat:
			return NoData, "the alias leads to a name that does not exist: dns.coredns_compat leaves it out, and denies nothing"
		case next == nil:
			return NoName, "the alias leads to a name that does not exist"
		case seen[next]:
			return NoData, "the aliases lead back to " + dotted(target) + ": a loop, which is not handed out"
		}
		e.found = append(e.found, next)
		if !next.has("CNAME") {
			return e.end(next)
		}
		n = next
	}
	return e.open(n.target())
}

// leaves returns what the question comes to when an alias leads out of its zone.
func (e *explainer) leaves(target string) (Verdict, string) {
	switch apex := e.zoneOf(target); {
	case apex == "" && e.top.DNS.Forwards():
		e.step("zone", "none", "the alias leads out of the zones of this topology: dns.forward and dns.stub say whom 'run' and 'dns' ask")
		return Answered, ""
	case apex == "":
		e.step("zone", "none", "the alias leads out of the zones of this topology: the client asks elsewhere")
		return Answered, ""
	case !e.top.DNS.Forwards():
		e.step("zone", dotted(apex), "another zone of this topology: the client asks there")
	}
	return e.open(target)
}

// open returns what the question comes to when an answer ends with an alias whose target has one of its own. Where forwarding is on, the
// server goes on from there, and else the client.
func (e *explainer) open(target string) (Verdict, string) {
	e.hops++
	if !e.top.DNS.Forwards() || e.hops > maxHops {
		return Answered, ""
	}
	return e.question(target)
}

// end returns what the question comes to at the end of aliases.
func (e *explainer) end(n *node) (Verdict, string) {
	if typ := typeName(e.qtype); n.has(typ) && typ != "SOA" {
		return Answered, ""
	}
	return NoData, "where the alias leads: " + e.noData(n)
}

// target returns where an alias leads.
func (n *node) target() string {
	i := slices.IndexFunc(n.offers, func(o offer) bool { return o.typ == "CNAME" })
	return mustName(n.offers[i].data)
}

// spelled reports whether a name that was not gathered may exist since every label below its parent can.
func (t *tree) spelled(text string) bool {
	parent := t.names[wire.Parent(text)]
	return parent != nil && (parent.pods || parent.any != nil)
}

// noData says why a name that exists has no records of the type.
func (e *explainer) noData(n *node) string {
	typ, types := typeName(e.qtype), n.types()
	switch {
	case len(types) == 0 && n.kind == "namespace":
		return "a namespace exists, and has no records itself"
	case len(types) == 0 && n.kind == "service":
		return "the service exists, and has neither an address nor ports"
	case len(types) == 0:
		return "the name exists, and has no records itself"
	case typ == "AAAA" && n.has("A"):
		return "the name exists, and has no AAAA records: its addresses are IPv4 only"
	case typ == "A" && n.has("AAAA"):
		return "the name exists, and has no A records: its addresses are IPv6 only"
	case typ == "SRV" && n.kind == "service":
		return "the name exists, and has no SRV records: the service has no port that leads anywhere"
	}
	return fmt.Sprintf("the name exists, and has no %s records, only %s", typ, list(types, "and"))
}
