package dns

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// maxQuery is the longest query that is read. Questions have 271 bytes at most; the rest is for options and signatures.
const maxQuery = 4096

// udpReader is one UDP socket and what reads it. Several share an address by SO_REUSEPORT: the kernel spreads clients over them, and
// no query waits for a lock or for a goroutine to be made.
type udpReader struct {
	server   *Server
	conn     *net.UDPConn
	wildcard bool // the socket takes queries to any address: the reply leaves from the one that was asked
	turn     uint32
	reply    reply
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
		from, now := r.server.sources.Load(), uint32(time.Now().Unix())
		for i := range n {
			r.answer(from, now, b, i)
		}
		r.counters.unsent.Add(uint64(b.send(raw)))
	}
}

// answer replies to a query of a batch.
func (r *udpReader) answer(from *sources, now uint32, b *batch, i int) {
	query, whole := b.query(i)
	if !whole {
		r.counters.ignored.Add(1)
		return
	}
	client, out := b.client(i), b.reply()
	c := Client{Addr: client.Addr().Unmap(), Limit: UDPLimit, Time: now, Turn: r.turn}
	r.turn += nextTurn
	n, o := r.server.responder.respond(&r.reply, from.zones, query, out, &c)
	if o.lacks != nothing {
		r.complete(from, query, b.source(i), client, c)
		return
	}
	r.counters.count(out[:n], o)
	if n > 0 {
		b.add(i, n)
	}
}

// complete has the rest of an answer looked up, and sent when it is there.
func (r *udpReader) complete(from *sources, query, control []byte, client netip.AddrPort, c Client) {
	control = slices.Clone(control)
	r.server.rest.take(&job{from: from, query: slices.Clone(query), client: c, send: func(reply []byte, o outcome) {
		r.counters.count(reply, o)
		if len(reply) == 0 {
			return
		}
		if _, _, err := r.conn.WriteMsgUDPAddrPort(reply, control, client); err != nil {
			r.counters.unsent.Add(1)
		}
	}})
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
