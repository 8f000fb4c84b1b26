package bench

import (
	"sluice/xdp"
	"sluice/xdp/lab"
)

// AFXDPEcho returns the limit for servers that answer from the ring: a worker that returns each datagram as its own reply, out of the
// interface that it came in by. It is no process: what it takes counts as the generator's, which is why the process column is empty.
func AFXDPEcho() NameServer {
	return NameServer{"afxdp-echo", true, func(b *Bed, _ *Names) (*lab.Process, func() error, error) {
		stop, err := b.bare(xdp.ModeNative, dnsAddr, func(port xdp.Port) func([]xdp.Frame) {
			return func(frames []xdp.Frame) { echo(port, frames) }
		})
		return nil, stop, err
	}}
}

// Where things are in the frames of the generator: Ethernet, IPv4 without options, UDP, a DNS message.
const (
	ipAddrs  = 14 + 12
	udpPorts = 14 + 20
	udpSum   = udpPorts + 6
	dnsFlags = udpPorts + 8 + 2
)

// echo sends each frame back with both ends exchanged on all layers, as traffic's echo in XDP does. What the ring does not take is dropped.
func echo(port xdp.Port, frames []xdp.Frame) {
	for i := range frames {
		b := frames[i].Bytes()
		if len(b) <= dnsFlags {
			continue // not the generator's: it goes back as it is
		}
		swapBytes(b[0:6], b[6:12])
		swapBytes(b[ipAddrs:ipAddrs+4], b[ipAddrs+4:ipAddrs+8])
		swapBytes(b[udpPorts:udpPorts+2], b[udpPorts+2:udpPorts+4])
		b[udpSum], b[udpSum+1] = 0, 0 // none, which IPv4 allows
		b[dnsFlags] |= 0x80           // a reply
	}
	sent := port.Transmit(0, frames)
	port.Release(frames[sent:])
}

// swapBytes exchanges the contents of two slices of one length.
func swapBytes(a, b []byte) {
	for i := range a {
		a[i], b[i] = b[i], a[i]
	}
}
