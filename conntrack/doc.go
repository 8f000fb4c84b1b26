// Package conntrack is the flow table that all workers share: fixed size, outside the Go heap, without locks.
//
// # Flows
//
// A [Flow] is one object with two tuples: the forward one as its client sends it and the reply one as its backend sends
// it. Translation follows from the two alone: a packet that travels in direction d leaves as Tuple(d.Other()).Reverse().
// Each tuple is one entry of the index. The two appear and disappear together, because an entry counts only while its
// flow's status word says so, and one compare-and-swap of that word turns both on or off:
//
//	free -> pending -> live -> dead -> (grace period) -> free
//	           └──── aborted ────┘
//
// # Index
//
// A power of two of bucket heads, each the start of a chain of entries (flow number, direction). An entry is put in at the
// head by a compare-and-swap of the head that was read before the chain was walked: when it succeeds, no entry has come in
// since, so the walk has proved that the tuple was absent. It is taken out in the manner of Harris and Michael: mark its own
// link, then swing the link before it.
//
// Insert links the smaller of its two tuples first. Inserts that share a tuple hence meet on one chain, in an order that has
// no cycle. One that meets a pending flow looks at it for a moment, then aborts it and goes on; the aborted one starts
// again. No goroutine ever waits for another to be scheduled.
//
// # Reuse of memory
//
// A goroutine may look at flows between [Handle.Enter] and [Handle.Leave] only. A dead flow is unlinked, and its memory is
// used again only after every handle that was inside at that time has left (epoch-based reclamation, epoch.go). Pointers
// read inside therefore stay good until Leave, no link can come back with another meaning (no ABA), and the tuples of a
// flow need no atomic access: they are written before the flow is linked and never change until nobody can see them.
//
// # Time
//
// Nothing here reads a clock: Enter is given the time of a monotonic clock in nanoseconds. A flow that has been silent for longer
// than its state allows is not found, whether or not [Table.Sweep] has come past.
//
// # Files
//
//	flow.go         a flow and what can be read from it
//	state.go        states, timeouts, transitions by TCP flags
//	segment.go      TCP: what comes of a segment
//	window.go       TCP: which numbers are acceptable
//	handshake.go    TCP: SYN and RST
//	sctp.go         SCTP: transitions by chunk type
//	table.go        options, opening, closing, statistics
//	handle.go       what a worker calls per packet
//	insert.go       adding a flow
//	index.go        hash, chains, linking, unlinking
//	epoch.go        when memory may be used again
//	freelist.go     where unused flows wait
//	sweep.go        incremental expiry, walking
//	flow_unsafe.go  memory outside the Go heap: the only unsafe code
package conntrack
