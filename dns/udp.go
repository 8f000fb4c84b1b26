package dns

import (
	"context"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"sluice/dns/zone"
)

// maxQuery is the longest query that is read. Questions have 271 bytes at most; the rest is for options and signatures.
const maxQuery = 4096

// udpReader is one UDP socket and what reads it. Several share an address by SO_REUSEPORT: the kernel spreads clients over them, and
// no query waits for a lock or for a goroutine to be made.
type udpReader struct {
	server   *Server
	conn     *net.UDPConn
	wildcard bool // the socket takes queries to any address: the reply leaves from the one that was asked
	counters tally
}

func openUDP(s *Server, at netip.AddrPort) (*udpReader, error) {
	r := &udpReader{server: s, wildcard: at.Addr().IsUnspecified()}
	config := listenConfig(r.options)
	conn, err := config.ListenPacket(context.Background(), network("udp", at), at.String())
	if err != nil {
		return nil, err
	}
	r.conn = conn.(*net.UDPConn) // what ListenPacket returns for UDP
	return r, nil
}

// network returns the network to listen on: 0.0.0.0 means all IPv4 addresses, and [::] all of both families.
func network(protocol string, at netip.AddrPort) string {
	if at.Addr().Is4() {
		return protocol + "4"
	}
	return protocol
}

// options sets the options of a socket before it is bound. A wildcard socket is told where each query was sent to.
func (r *udpReader) options(fd int, network string) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	switch {
	case !r.wildcard:
		return r.server.opts.freeBind(fd, network)
	case network == "udp4":
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_PKTINFO, 1)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1)
}

func (r *udpReader) port() uint16 { return r.conn.LocalAddr().(*net.UDPAddr).AddrPort().Port() }

// run answers until the socket is closed: all that has come, up to a batch, with one system call to take the queries and one to give the
// replies.
func (r *udpReader) run() {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return // closed before it began
	}
	b := newBatch(r.wildcard)
	for {
		n, err := b.receive(raw)
		if err != nil {
			if !transient(err) {
				return
			}
			continue
		}
		zones := r.server.zones.Load()
		for i := range n {
			r.answer(zones, b, i)
		}
		r.counters.unsent.Add(uint64(b.send(raw)))
	}
}

// answer replies to a query of a batch.
func (r *udpReader) answer(zones *zone.Zones, b *batch, i int) {
	query, whole := b.query(i)
	if !whole {
		r.counters.ignored.Add(1)
		return
	}
	out := b.reply()
	n, rcode := respond(zones, query, out, UDPLimit)
	r.counters.count(out[:n], rcode)
	if n > 0 {
		b.add(i, n)
	}
}

// replySource turns the control message that came with a query into the one for its reply: the address that was asked becomes the
// source. The interface is left to the routes, which may differ for the way back, but for link-local addresses,
// which mean nothing without it.
func replySource(control []byte) []byte {
	if len(control) < unix.SizeofCmsghdr {
		return nil
	}
	header, data, rest, err := unix.ParseOneSocketControlMessage(control)
	if err != nil {
		return nil
	}
	switch {
	case header.Level == unix.IPPROTO_IP && header.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
		clear(data[:4])
	case header.Level == unix.IPPROTO_IPV6 && header.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
		if linkLocal := data[0] == 0xfe && data[1]&0xc0 == 0x80; !linkLocal {
			clear(data[16:20])
		}
	default:
		return nil
	}
	return control[:len(control)-len(rest)]
}
