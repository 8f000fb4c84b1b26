package nat

import (
	"sluice/nat/reason"
	"sluice/xdp/packet"
)

// Verdict is what becomes of the first packet of a flow. The zero value is Drop: a packet that nobody decided about
// is lost, not leaked.
type Verdict uint8

// The verdicts.
const (
	Drop    Verdict = iota // silently
	Forward                // to Decision.Backend
	Reject                 // with ICMP or ICMPv6 port unreachable, whatever the protocol
	Pass                   // not ours: the kernel's
)

// String returns the verdict as trace prints it: "drop", "forward", "reject" or "pass".
func (v Verdict) String() string {
	switch v {
	case Drop:
		return "drop"
	case Forward:
		return "forward"
	case Reject:
		return "reject"
	case Pass:
		return "pass"
	}
	return "unknown"
}

// Decision says what to do with the first packet of a flow, and why. What it points to belongs to the Table and is
// immutable.
type Decision struct {
	Verdict    Verdict
	Reason     reason.Reason
	SNAT       bool        // the source becomes SNATAddr, with a port of the pool
	Port       *Port       // the service port that was addressed; nil when the packet is for none
	Backend    *Backend    // the chosen one; nil unless Verdict is Forward
	Share      *Share      // of the route that was addressed; nil when it was none, or one without weight
	Candidates []*Backend  // what Backend was chosen from, sorted by address and port
	SNATAddr   packet.Addr // valid iff SNAT
	// Front is the kind of address that was matched: reason.ClusterIP, LoadBalancer, ExternalIP or NodePort; Unknown
	// without Port.
	Front  reason.Reason
	Source Source // what the packet's source counts as; valid iff Port is not nil

	Pin Pin // what session affinity did: see Stick

	set  *set // what the policy leaves to choose from; nil when it came not so far
	snat bool // the rules ask for another source, whatever the backend
}

// Reply returns the tuple that replies to a forwarded flow arrive with, where tu is the tuple of its first packet.
// snatPort is the source port taken from the pool; it is not looked at unless d.SNAT.
func (d *Decision) Reply(tu *packet.Tuple, snatPort uint16) packet.Tuple {
	reply := packet.Tuple{Src: d.Backend.Addr, Dst: tu.Src, SrcPort: d.Backend.Port, DstPort: tu.SrcPort, Proto: tu.Proto}
	if d.SNAT {
		reply.Dst, reply.DstPort = d.SNATAddr, snatPort
	}
	return reply
}
