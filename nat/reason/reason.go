// Package reason is the one list of why a packet was forwarded, dropped, rejected or passed. The same codes name the
// counters, the metrics, the steps of a trace and the rows of the reference.
package reason

import "iter"

// Reason says why a packet met its verdict. The zero value is Unknown, which no packet may end with.
// Its String form is stable: it is a metric label and a JSON value.
type Reason uint8

// The reasons, grouped by the verdict they belong to.
const (
	Unknown Reason = iota

	// Forwarded.
	Established       // a packet of a tracked flow
	ClusterIP         // a new flow to a ClusterIP
	NodePort          // a new flow to a NodePort
	LoadBalancer      // a new flow to a load-balancer VIP
	ExternalIP        // a new flow to an external IP
	Hairpin           // a new flow whose chosen backend is its own source: masqueraded
	RelatedICMP       // an ICMP error that belongs to a tracked flow, translated
	EchoReply         // answered: ICMP echo request to a service address
	NeighbourResolved // sent after it waited for its next hop's link-layer address
	Route             // a new flow to a listener of a weighted route
	FragmentFollowed  // a later fragment, translated like the first one of its datagram
	DNSAnswered       // answered: a query to the gateway's DNS server

	// Rejected (ICMP or ICMPv6 port unreachable, or TCP RST).
	NoEndpoints     // the service has no usable endpoint anywhere
	UnknownPort     // a service address, but no service on this protocol and port
	EndpointRemoved // a segment of a connection whose endpoint has left, and whose service resets such ones
	// RouteBackendInvalid: the share of the route is one of no service port, or no share has weight; UDP is dropped for it.
	RouteBackendInvalid

	// Dropped.
	Malformed           // header lengths or versions that contradict each other
	Martian             // a source that cannot be a client: no host's, this gateway's own, or a service port
	UnsupportedProtocol // a service address, but neither TCP, UDP, SCTP nor ICMP
	Fragment            // a fragment of a datagram whose first one was answered, or is of a protocol without ports
	NoLocalEndpoints    // traffic policy Local, and the endpoints are on other nodes
	SourceRange         // source outside load_balancer_source_ranges
	Unallocated         // inside a service range, but no service has this address
	NoFlow              // not a first packet (a TCP segment without SYN), and no flow is tracked for it
	TableFull           // the flow table is full
	SNATExhausted       // every source port towards this destination is taken
	NoSNATAddress       // the source must be rewritten, and gateway.snat_addresses has no address of the family
	NoRoute             // no route to the next hop, or the route is a blackhole
	NotAttached         // the route leads out of an interface that is not attached
	LocalBackend        // the backend's address is this gateway's own
	NeighbourFailed     // the next hop did not answer in time
	NeighbourQueueFull  // too many packets already wait for next hops
	TTLExceeded         // the TTL or hop limit ran out
	TooBig              // larger than the MTU of the way out, and must not be fragmented
	RateLimited         // a reply was due (reject, echo, ICMP error), and the limit was reached
	TxFull              // the TX ring had no room, or there were no frames for the pieces of a packet
	UnrelatedICMP       // an ICMP error that quotes no tracked flow
	BadICMP             // an ICMP message that is cut short or has a wrong checksum
	ReplyClash          // the reverse tuple belongs to another flow, and the source port may not be changed
	OutOfWindow         // a TCP segment that its receiver would discard: outside the window of its connection
	SourceRouted        // source routing: an IPv4 option, or an IPv6 routing header with segments left
	TooManyHeaders      // more IPv6 extension headers than are followed
	BadChecksum         // SCTP or the IPv4 header of a fragment with a wrong checksum, or UDP over IPv6 without one
	FragmentOverlap     // overlaps another fragment of its datagram, or is its copy
	FragmentTimeout     // the first fragment did not come in time
	FragmentStoreFull   // too many fragments wait, or too many parts of one datagram are apart
	DNSIgnored          // to the gateway's DNS server, and no query

	// Passed to the kernel.
	NotOurs   // redirected, but no rule or flow wants it: punted unchanged
	PuntFull  // should have been punted, and the way to the kernel had no room: lost
	numReason // count of reasons
)

// Count is the number of reasons; counters are arrays of this size.
const Count = int(numReason)

// All returns every reason but Unknown, in the order of the constants.
func All() iter.Seq[Reason] {
	return func(yield func(Reason) bool) {
		for r := Unknown + 1; r < numReason; r++ {
			if !yield(r) {
				return
			}
		}
	}
}

// entry is the stable code and the sentence for people.
type entry struct{ code, text string }

// describe returns the code and sentence of r.
func describe(r Reason) entry {
	switch r {
	case Established:
		return entry{"established", "belongs to a tracked flow"}
	case ClusterIP:
		return entry{"clusterip", "new flow to a ClusterIP"}
	case NodePort:
		return entry{"nodeport", "new flow to a NodePort"}
	case LoadBalancer:
		return entry{"loadbalancer", "new flow to a load-balancer VIP"}
	case ExternalIP:
		return entry{"externalip", "new flow to an external IP"}
	case Hairpin:
		return entry{"hairpin", "the chosen backend is the packet's own source: masqueraded"}
	case RelatedICMP:
		return entry{"related_icmp", "ICMP error of a tracked flow, translated"}
	case EchoReply:
		return entry{"echo_reply", "ICMP echo to a service address, answered"}
	case NeighbourResolved:
		return entry{"neighbour_resolved", "sent after waiting for the next hop's link-layer address"}
	case Route:
		return entry{"route", "new flow to a listener of a weighted route"}
	case NoEndpoints:
		return entry{"no_endpoints", "the service has no usable endpoint"}
	case UnknownPort:
		return entry{"unknown_port", "service address without a service on this protocol and port"}
	case EndpointRemoved:
		return entry{"endpoint_removed", "connection to an endpoint that has left, reset at both ends"}
	case RouteBackendInvalid:
		return entry{"route_backend_invalid", "this share of the route has no service port, or no share has weight"}
	case Malformed:
		return entry{"malformed", "headers that contradict each other"}
	case Martian:
		return entry{"martian", "source that cannot be a client: no host's, the gateway's own, or a service port"}
	case UnsupportedProtocol:
		return entry{"unsupported_protocol", "neither TCP, UDP, SCTP nor ICMP"}
	case Fragment:
		return entry{"fragment", "fragment of a datagram that is refused, or of ICMP or a protocol without ports to a service"}
	case FragmentFollowed:
		return entry{"fragment_followed", "later fragment, translated like the first one of its datagram"}
	case DNSAnswered:
		return entry{"dns_answered", "query to the gateway's DNS server, answered"}
	case DNSIgnored:
		return entry{"dns_ignored", "to the gateway's DNS server, and not a query"}
	case SourceRouted:
		return entry{"source_routed", "its sender prescribes its way: IPv4 source route, or IPv6 routing header with segments left"}
	case TooManyHeaders:
		return entry{"too_many_headers", "more than 8 IPv6 extension headers"}
	case BadChecksum:
		return entry{"bad_checksum", "SCTP or the IPv4 header of a fragment with a wrong checksum, or UDP over IPv6 without one"}
	case FragmentOverlap:
		return entry{"fragment_overlap", "fragment that overlaps or contradicts another one of its datagram, or is its copy"}
	case FragmentTimeout:
		return entry{"fragment_timeout", "the first fragment of its datagram did not come in time"}
	case FragmentStoreFull:
		return entry{"fragment_store_full", "too many fragments wait, or too many parts of one datagram are missing"}
	case NoLocalEndpoints:
		return entry{"no_local_endpoints", "traffic policy Local and the endpoints are on other nodes"}
	case SourceRange:
		return entry{"source_range", "source outside load_balancer_source_ranges"}
	case Unallocated:
		return entry{"unallocated", "service-range address that no service has"}
	case NoFlow:
		return entry{"no_flow", "not a first packet and no flow is tracked for it"}
	case TableFull:
		return entry{"table_full", "the flow table is full: raise conntrack.max_flows"}
	case SNATExhausted:
		return entry{"snat_exhausted", "every source port towards this destination is taken: widen gateway.snat_ports"}
	case NoSNATAddress:
		return entry{"no_snat_address", "the source must be rewritten and gateway.snat_addresses has none of this family"}
	case NoRoute:
		return entry{"no_route", "no route to the next hop"}
	case NotAttached:
		return entry{"not_attached", "the way out is an interface that is not in gateway.interfaces"}
	case LocalBackend:
		return entry{"local_backend", "the backend's address is this gateway's own"}
	case NeighbourFailed:
		return entry{"neighbour_failed", "the next hop did not answer ARP or neighbour discovery"}
	case NeighbourQueueFull:
		return entry{"neighbour_queue_full", "too many packets already wait for next hops"}
	case TTLExceeded:
		return entry{"ttl_exceeded", "TTL or hop limit ran out"}
	case TooBig:
		return entry{"too_big", "larger than the MTU of the way out"}
	case RateLimited:
		return entry{"rate_limited", "a reply was due and the limit on replies was reached"}
	case TxFull:
		return entry{"tx_full", "the TX ring had no room, or there were no frames for the pieces of a packet"}
	case UnrelatedICMP:
		return entry{"unrelated_icmp", "ICMP error that quotes no tracked flow"}
	case BadICMP:
		return entry{"bad_icmp", "ICMP message cut short or with a wrong checksum"}
	case ReplyClash:
		return entry{"reply_clash", "the reverse tuple belongs to another flow"}
	case OutOfWindow:
		return entry{"out_of_window", "TCP segment outside the window of its connection"}
	case NotOurs:
		return entry{"not_ours", "no rule or flow wants it: handed to the kernel unchanged"}
	case PuntFull:
		return entry{"punt_full", "the way to the kernel had no room"}
	}
	return entry{"unknown", "no reason was set"}
}

// String returns the stable code, such as "no_endpoints".
func (r Reason) String() string { return describe(r).code }

// Text returns one clause for people.
func (r Reason) Text() string { return describe(r).text }
