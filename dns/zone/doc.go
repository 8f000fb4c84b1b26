// Package zone compiles a topology into DNS zones: the cluster's domain as the Kubernetes DNS specification 1.1.0 lays it out,
// and the reverse zones of its address ranges. Every answer is packed when a zone is compiled, so that answering is
// finding a name and copying bytes:
//
//	services.go  which records a service has
//	reverse.go   the reverse zones and their PTR records
//	model.go     the names of all zones while they are gathered, empty non-terminals included
//	alias.go     chains of CNAME records, followed once and for all
//	pack.go      from records to the bytes of an answer
//	node.go      the bytes of a name's answers, and reading them
//	store.go     the bytes of all names, in shards
//	zones.go     looking a name up
//	source.go    what of a topology the zones depend on
//	update.go    zones that follow on others: what differs is gathered again, all else is shared
//
// Where CoreDNS differs from the RFCs on whether a name exists, the RFCs are followed (RFC 8020: what lies above an existing
// name exists as well; RFC 2308: a missing type is no missing name).
package zone
