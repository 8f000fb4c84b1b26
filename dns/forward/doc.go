// Package forward asks other servers for names that lie in no zone of the topology, and remembers what they say.
//
// A Forwarder has a group of upstreams for each stub domain and one for all other names. Queries for the same thing at the same time are
// one to an upstream; answers are kept for as long as they say, or a little longer when no upstream answers any more.
package forward
