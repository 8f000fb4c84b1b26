package nat

import (
	"fmt"
	"slices"

	"sluice/config/topology"
)

// hintMode is by which hints the Cluster set is narrowed.
type hintMode uint8

const (
	noHints   hintMode = iota
	nodeHints          // endpoints hinted to this node
	zoneHints          // endpoints hinted to this node's zone
)

// hintsOff is why a mode is off; the zero value says that it is not.
type hintsOff struct {
	unhinted  *Backend // the first ready endpoint without a hint of the mode
	nameless  bool     // this node has no name, or no zone
	elsewhere bool     // no hint names this node, or its zone
}

func (o hintsOff) off() bool { return o != hintsOff{} }

// hintChoice is which mode holds, and why each was not possible.
type hintChoice struct {
	mode       hintMode
	node, zone hintsOff
}

// chooseHints finds the mode for a set of ready endpoints: node, then zone, then none (kube-proxy's
// topologyModeFromHints). A mode is possible only when every endpoint has a hint of it and one names this place; hints
// count whatever the Service says of traffic distribution.
func chooseHints(ready []*Backend, node, zone string) (c hintChoice) {
	c.node = judgeHints(ready, node, nodesOf)
	c.zone = judgeHints(ready, zone, zonesOf)
	switch {
	case len(ready) == 0:
	case !c.node.off():
		c.mode = nodeHints
	case !c.zone.off():
		c.mode = zoneHints
	}
	return c
}

func nodesOf(e *topology.Endpoint) []string { return e.ForNodes }
func zonesOf(e *topology.Endpoint) []string { return e.ForZones }

// judgeHints says whether the hints that hints reads can be followed at place.
func judgeHints(ready []*Backend, place string, hints func(*topology.Endpoint) []string) hintsOff {
	named := false
	for _, b := range ready {
		of := hints(b.Endpoint)
		if len(of) == 0 {
			return hintsOff{unhinted: b}
		}
		named = named || slices.Contains(of, place)
	}
	switch {
	case place == "":
		return hintsOff{nameless: true}
	case !named:
		return hintsOff{elsewhere: true}
	}
	return hintsOff{}
}

// follow returns the endpoints of ready that the mode leaves.
func (m hintMode) follow(ready []*Backend, node, zone string) []*Backend {
	place, hints := zone, zonesOf
	switch m {
	case noHints:
		return ready
	case nodeHints:
		place, hints = node, nodesOf
	}
	var out []*Backend
	for _, b := range ready {
		if slices.Contains(hints(b.Endpoint), place) {
			out = append(out, b)
		}
	}
	return out
}

// text says for people why a mode is off; kind is "node" or "zone", place the name of this one.
func (o hintsOff) text(kind, place string) string {
	switch {
	case o.unhinted != nil:
		return fmt.Sprintf("%s mode off: %s has no hint", kind, o.unhinted.AddrPort)
	case o.nameless && kind == "zone":
		return "zone mode off: this node has no zone"
	case o.nameless:
		return "node mode off: this node has no name"
	case o.elsewhere:
		return fmt.Sprintf("%s mode off: no endpoint hints for %s %s", kind, kind, place)
	}
	return ""
}
