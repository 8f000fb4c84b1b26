// Package ring has the two ends of the single-producer, single-consumer rings that a process shares with the kernel in
// AF_XDP: the fill and TX rings, which we produce, and the RX and completion rings, which we consume
// (Documentation/networking/af_xdp.rst). It makes no system call; over heap memory it works between two goroutines.
//
// Indices are 32-bit counters that wrap around; an entry's place is its index modulo the size, a power of two. Each end
// keeps a copy of the other end's index and reads the shared word only when the copy does not show enough room or entries,
// so that the cache line of that word moves between the processors once a batch, not once an entry.
//
// Memory order: the producer writes entries, then stores its index atomically; the consumer loads that index atomically,
// reads entries, then stores its own, which is what allows the producer to write over them. sync/atomic operations are
// sequentially consistent, which includes the release and acquire order that the kernel's side of the protocol asks for.
package ring
