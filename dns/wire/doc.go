// Package wire reads DNS queries and writes parts of replies as bytes, without allocating. It knows the format of messages
// (RFC 1035 section 4, EDNS of RFC 6891) and nothing of zones.
package wire
