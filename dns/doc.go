// Package dns answers DNS queries from the compiled zones of a topology.
//
//	responder.go  a query in, a reply out, as bytes: the same for sockets and for packets off a ring
//	truncate.go   replies that do not fit
//	rotate.go     the order of addresses
//	options.go    options of EDNS in replies
//	cookie.go     one of them: cookies
//	server.go     the sockets that queries come in by
//	udp.go        one UDP socket and reader for each core
//	tcp.go        connections
//	lookup.go     one question put to the zones without a network
package dns
