package xdp_test

import (
	"fmt"
	"net/netip"

	"sluice/xdp"
	"sluice/xdp/packet"
)

// One turn of a worker: packets that came in on the first interface leave by the second.
func ExampleMemory() {
	m := xdp.NewMemory(xdp.MemoryOptions{Interfaces: []xdp.Interface{{Name: "eth0"}, {Name: "eth1"}}})
	if err := m.Deliver(0, []byte("a packet"), []byte("another")); err != nil {
		fmt.Println(err)
	}

	frames := make([]xdp.Frame, 64)
	n := m.Receive(frames)
	sent := m.Transmit(1, frames[:n])
	m.Release(frames[sent:n]) // the TX ring was full
	if err := m.Flush(); err != nil {
		fmt.Println(err)
	}
	fmt.Printf("%q\n", m.Sent(1))
	// Output: ["a packet" "another"]
}

func ExampleRules_Match() {
	rules := &xdp.Rules{
		Backends: []xdp.Backend{{Addr: netip.MustParseAddr("198.18.64.1"), Proto: packet.ProtoTCP, Port: 8080}},
	}
	reply := ip{src: "198.18.64.1", dst: "198.18.0.1", proto: packet.ProtoTCP, sport: 8080, dport: 4000}
	own := ip{src: "198.18.64.1", dst: "198.18.0.1", proto: packet.ProtoTCP, sport: 4000, dport: 8080}
	fmt.Println(rules.Match(reply.frame()), rules.Match(own.frame()))
	// Output: true false
}
