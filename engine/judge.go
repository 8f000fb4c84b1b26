package engine

import (
	"sluice/conntrack"
	"sluice/nat"
	"sluice/xdp/packet"
)

// fate is what becomes of a flow under the services of now.
type fate uint8

const (
	keep  fate = iota // it goes on
	purge             // it is forgotten; the client's next packet opens another
	reset             // both ends are told that it is over, with the next segment of either
)

// metaReset is the flag of a flow whose service resets the connections of endpoints that leave. It is kept with the
// flow for the day on which the service itself is gone.
const metaReset = 1 << 0

// metaOf is what is kept with the flow of a decision.
func metaOf(d *nat.Decision) conntrack.Meta {
	m := conntrack.Meta{Service: d.Port.ID, Backend: d.Backend.ID}
	if d.Port.Service.RemovedReset {
		m.Flags |= metaReset
	}
	return m
}

// judge says what becomes of a flow, given by its forward tuple and what is kept with it, under a service table.
//
// UDP flows have no end of their own, and a client that keeps sending would never get to another endpoint. They go on
// only while their endpoint serves and their address is still their service's: as kube-proxy cleans up conntrack
// entries, by state and not by event (pkg/proxy/conntrack, CleanStaleEntries), but for what it leaves behind. It cannot tell
// whose a flow to a NodePort is, nor find the flows of a service that has been deleted (kubernetes/kubernetes#141371);
// here every flow knows the service port that it was opened by.
//
// Connections (TCP, and SCTP) go on to their endpoint until they end, whatever has become of it, so that it can finish its
// work (kubernetes/kubernetes#101607). A service may have its TCP connections reset instead once their endpoint has left,
// or their address has: not when it is unready or fails its health check, because it may be back in a moment.
func judge(t *nat.Table, forward *packet.Tuple, m conntrack.Meta) fate {
	switch {
	case m.Service == 0:
		return keep // no service has opened it
	case forward.Proto == packet.ProtoTCP:
		if resets(t, m) && (t.BackendByID(m.Backend) == nil || !t.Leads(forward, m.Service)) {
			return reset
		}
		return keep
	case forward.Proto == packet.ProtoSCTP || serves(t, forward, m):
		return keep
	}
	return purge
}

// resets reports whether connections of endpoints that have left are reset: as their service has it now, or had it when
// they were opened if it is gone.
func resets(t *nat.Table, m conntrack.Meta) bool {
	if p := t.PortByID(m.Service); p != nil {
		return p.Service.RemovedReset
	}
	return m.Flags&metaReset != 0
}

// serves reports whether the address that a flow was opened to still belongs to its service port, which does not refuse the
// client by its source ranges, and the flow's backend is one of that port which is up. An endpoint that is published although
// it is not ready (publish_not_ready_addresses) is Ready without Serving, and gets new flows. Traffic policies and locality do
// not count.
func serves(t *nat.Table, forward *packet.Tuple, m conntrack.Meta) bool {
	b := t.BackendByID(m.Backend)
	if b == nil || b.Down || !b.Endpoint.Serving && !b.Endpoint.Ready {
		return false
	}
	return t.Admits(forward, m.Service)
}
