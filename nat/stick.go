package nat

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"sluice/config/topology"
	"sluice/xdp/packet"
)

// defaultAffinityTimeout is Kubernetes' default of sessionAffinityConfig.clientIP.timeoutSeconds.
const defaultAffinityTimeout = 3 * time.Hour

// Pin says what session affinity did to a decision.
type Pin uint8

// What session affinity does.
const (
	Unpinned  Pin = iota // the service has none, or the decision has no backend
	PinnedNew            // the client has been pinned to its first choice
	PinnedOld            // the client goes where it went before
)

// pinScope is what clients of a port are pinned for. The zero value is no session affinity.
type pinScope struct {
	id    uint64 // of the port, or of the service with wholeService
	since uint64 // the generation of tables since which the service has affinity: pins from before are none of its own
}

// wholeService marks a scope that the ports of a service share.
const wholeService = 1 << 63

// sticks reports whether the port has session affinity.
func (p *Port) sticks() bool { return p.pins.id != 0 }

// stick sets what clients of a service's ports are pinned for, and how long.
func (c *compiler) stick(svc *topology.Service, ports []*Port) {
	if !svc.SessionAffinity {
		return
	}
	timeout := svc.AffinityTimeout
	if timeout <= 0 {
		timeout = defaultAffinityTimeout
	}
	oldest := c.table.serial
	for _, p := range ports {
		p.affinity = int64(timeout)
		p.pins.id = uint64(p.ID)
		if svc.AffinityPerService {
			hash := sha256.Sum256([]byte(svc.Key()))
			p.pins.id = wholeService | binary.BigEndian.Uint64(hash[:])
		}
		p.pins.since = c.pinnedSince(p)
		oldest = min(oldest, p.pins.since)
	}
	if svc.AffinityPerService { // a port that is new to the service has its pins as well
		for _, p := range ports {
			p.pins.since = oldest
		}
	}
}

// pinnedSince returns since when the port has affinity of its kind: what the previous generation says, so that pins
// outlive it, or from now on. Switching affinity off so forgets the pins, as in kube-proxy.
func (c *compiler) pinnedSince(p *Port) uint64 {
	if c.opts.Previous != nil {
		if old := c.opts.Previous.portByID[p.ID]; old != nil && old.pins.id == p.pins.id {
			return old.pins.since
		}
	}
	return c.table.serial
}

// choose returns the first choice of s for the client of tu: the connections of one client spread, unless it is to stick
// to one backend. The hash then leaves out the source port, so that a client whose pin is lost finds the same backend.
func (p *Port) choose(s *set, tu *packet.Tuple) *Backend {
	if p.sticks() {
		client := packet.Tuple{Src: tu.Src}
		return s.pick(client.Hash(choiceSeed))
	}
	return s.pick(tu.Hash(choiceSeed))
}

// Stick honours session affinity in a decision of Decide about a packet that will open a flow: a client that is pinned
// to a backend goes there while the backend is in the set that the policy leaves, and any other is pinned to its first
// choice. now is in nanoseconds of the clock that all users of pins share. Each call renews the pin for the timeout of
// the service; at exactly the timeout it is over.
//
// It does not allocate. pins may be nil: then every flow goes to the first choice.
func (t *Table) Stick(pins *Affinity, d Decision, tu *packet.Tuple, now int64) Decision {
	if pins == nil || d.set == nil || len(d.set.backends) == 0 || !d.Port.sticks() {
		return d
	}
	key := pins.key(tu.Src, d.Port.pins)
	usable := func(id uint32) bool { return t.pinned(id, &d, tu) != nil }
	if id, ok := pins.lookup(key, now, d.Port.affinity, usable); ok {
		d.Pin = PinnedOld
		return t.masquerade(d, t.pinned(id, &d, tu), tu)
	}
	first := d.Port.choose(d.set, tu)
	d.Pin = PinnedNew
	if id := pins.insert(key, first.ID, now); id != first.ID {
		if b := t.pinned(id, &d, tu); b != nil { // another worker was faster; its generation may be another
			first, d.Pin = b, PinnedOld
		}
	}
	return t.masquerade(d, first, tu)
}

// pinned returns the backend of d's set that a pin means, nil when the set does not have it. A pin of the whole service
// may have been made at another port: it means the same address.
func (t *Table) pinned(id uint32, d *Decision, tu *packet.Tuple) *Backend {
	b := t.backendByID[id]
	switch {
	case b == nil:
		return nil
	case b.owner == d.Port && b.in&d.set.bit != 0 && familyOf(b.Addr) == familyOf(tu.Dst):
		return b
	}
	return d.set.byAddr[b.Addr]
}
