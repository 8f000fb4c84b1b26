// Package packet reads and changes the bytes of a frame: where the headers are, what flow the packet belongs to, its
// checksums, and the few packets that a gateway answers with. It is the lowest layer: fixed offsets, no allocation,
// no interface values, and no panic whatever comes off the wire.
package packet
