package dns

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// batchLen is how many queries are taken at once.
const batchLen = 32

// controlLen has room for the control messages of a query.
const controlLen = 128

// batch is the memory for the queries that one system call takes and for the replies that another sends. What the kernel is told about it
// are pointers into it, set once; only lengths change. It is not to be copied.
//
// Concurrency: one goroutine.
type batch struct {
	in, out  [batchLen]message
	queries  [batchLen][maxQuery]byte
	replies  [batchLen][UDPLimit]byte
	controls [batchLen][controlLen]byte
	clients  [batchLen]unix.RawSockaddrInet6 // of either family: an IPv4 address is shorter
	inIO     [batchLen]unix.Iovec
	outIO    [batchLen]unix.Iovec

	wildcard bool // control messages say which address was asked
	used     int  // messages of in that the kernel has written to
	added    int  // replies
	sent     int  // of them, those that were sent or given up
	unsent   int  // of them, those that were given up
	err      error
	// read and write are receiveOnce and sendAll, made once since each method value is an allocation.
	read, write func(fd uintptr) bool
}

// message is struct mmsghdr of recvmmsg(2).
type message struct {
	unix.Msghdr
	n uint32 // bytes
}

// nameLen is the space for the address of a client.
const nameLen = unix.SizeofSockaddrInet6

func newBatch(wildcard bool) *batch {
	b := &batch{wildcard: wildcard, used: batchLen}
	for i := range batchLen {
		in, out := &b.in[i], &b.out[i]
		b.inIO[i].Base, b.outIO[i].Base = &b.queries[i][0], &b.replies[i][0]
		b.inIO[i].SetLen(maxQuery)
		in.Iov, out.Iov = &b.inIO[i], &b.outIO[i]
		in.SetIovlen(1)
		out.SetIovlen(1)
		in.Name = sockaddr(&b.clients[i])
	}
	b.read, b.write = b.receiveOnce, b.sendAll
	return b
}

// receive waits for queries and takes as many as there are.
func (b *batch) receive(raw syscall.RawConn) (n int, err error) {
	for i := range b.used { // the kernel has written the lengths of what it put there
		m := &b.in[i]
		m.Namelen, m.Flags = nameLen, 0
		if b.wildcard {
			m.Control = &b.controls[i][0]
			m.SetControllen(controlLen)
		}
	}
	b.used, b.added, b.sent, b.unsent = 0, 0, 0, 0
	if err := raw.Read(b.read); err != nil {
		return 0, err
	}
	return b.used, b.err
}

// receiveOnce takes what there is, and reports false when that is nothing.
func (b *batch) receiveOnce(fd uintptr) bool {
	for {
		b.used, b.err = recvmmsg(fd, b.in[:])
		if !errors.Is(b.err, unix.EINTR) {
			return !errors.Is(b.err, unix.EAGAIN)
		}
	}
}

// query returns a query that was received, and whether it is whole.
func (b *batch) query(i int) (query []byte, whole bool) {
	return b.queries[i][:b.in[i].n], b.in[i].Flags&unix.MSG_TRUNC == 0
}

// client returns where a query came from.
func (b *batch) client(i int) netip.AddrPort {
	a := &b.clients[i]
	var port [2]byte
	binary.NativeEndian.PutUint16(port[:], a.Port)
	at := binary.BigEndian.Uint16(port[:])
	if a.Family == unix.AF_INET { // struct sockaddr_in has its address where that of IPv6 has the flow label
		var v4 [4]byte
		binary.NativeEndian.PutUint32(v4[:], a.Flowinfo)
		return netip.AddrPortFrom(netip.AddrFrom4(v4), at)
	}
	addr := netip.AddrFrom16(a.Addr)
	if addr.IsLinkLocalUnicast() {
		addr = addr.WithZone(strconv.Itoa(int(a.Scope_id)))
	}
	return netip.AddrPortFrom(addr, at)
}

// source returns the control message for the reply to a query: empty unless the socket has several addresses.
func (b *batch) source(i int) []byte {
	if !b.wildcard {
		return nil
	}
	return replySource(b.controls[i][:b.in[i].Controllen])
}

// reply returns the memory for the next reply.
func (b *batch) reply() []byte { return b.replies[b.added][:] }

// add adds the n bytes in reply as the reply to query i.
func (b *batch) add(i, n int) {
	in, out := &b.in[i], &b.out[b.added]
	b.outIO[b.added].SetLen(n)
	out.Name, out.Namelen = in.Name, in.Namelen
	out.Control = nil
	out.SetControllen(0)
	if control := b.source(i); len(control) > 0 {
		out.Control = &control[0]
		out.SetControllen(len(control))
	}
	b.added++
}

// send sends the replies and returns how many the socket did not take.
func (b *batch) send(raw syscall.RawConn) (unsent int) {
	if b.added == 0 {
		return 0
	}
	if err := raw.Write(b.write); err != nil { // closed meanwhile
		return b.unsent + b.added - b.sent
	}
	return b.unsent
}

// sendAll sends what is left, and reports false when the socket has no room. The kernel stops at a reply that it does not take, which is
// given up, and says why only when it is the first one.
func (b *batch) sendAll(fd uintptr) bool {
	for b.sent < b.added {
		n, err := sendmmsg(fd, b.out[b.sent:b.added])
		switch {
		case err == nil:
			b.sent += n
		case errors.Is(err, unix.EAGAIN):
			return false
		case !errors.Is(err, unix.EINTR):
			b.sent++
			b.unsent++
		}
	}
	return true
}
