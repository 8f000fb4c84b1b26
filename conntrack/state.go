package conntrack

import (
	"time"

	"sluice/config/topology"
	"sluice/xdp/packet"
)

// State is the protocol state of a flow; it decides how long the flow may be silent.
type State uint8

// The states.
const (
	SynSent      State = iota // TCP: no answer to the SYN yet
	SynRecv                   // TCP: the backend has answered, the client has not confirmed
	Established               // TCP: handshake complete
	HalfClosed                // TCP: one side has sent FIN
	TimeWait                  // TCP: both sides have sent FIN
	Closed                    // TCP: a side has sent RST
	UDPSingle                 // UDP and protocols without states: no reply seen
	UDPStream                 // UDP: replies seen
	ICMP                      // ICMP and ICMPv6 echo
	CookieWait                // SCTP: INIT sent
	CookieEchoed              // SCTP: the client has answered INIT ACK
	Associated                // SCTP: four-way handshake complete
	ShuttingDown              // SCTP: a side has sent SHUTDOWN
	SCTPClosed                // SCTP: aborted or shut down
	numState
)

// stateSlots is the size of arrays indexed by the state bits of a status word: no bounds check can fail.
const stateSlots = 16

// String returns the name that the admin interface shows.
func (s State) String() string {
	names := [...]string{"syn_sent", "syn_recv", "established", "half_closed", "time_wait", "closed",
		"udp", "udp_stream", "icmp", "sctp_cookie_wait", "sctp_cookie_echoed", "sctp_established", "sctp_shutdown", "sctp_closed"}
	if int(s) < len(names) {
		return names[s]
	}
	return "unknown"
}

// TCP header flags (RFC 9293 section 3.1) that move a flow from state to state.
const (
	flagFIN = 0x01
	flagSYN = 0x02
	flagRST = 0x04
	flagACK = 0x10
)

// life is where a flow is between allocation and reuse.
type life uint32

const (
	free    life = iota // on a free list, or never used
	pending             // being inserted; its entries do not count yet
	live                // in the table
	dead                // removed or aborted for good; its entries do not count any more
)

// status packs what must change together into the one word that is compared and swapped: bits 0-1 life, bits 8-11 State,
// bits 16-17 the directions that have sent FIN.
type status uint32

const (
	lifeMask   = 3
	stateShift = 8
	finShift   = 16
)

func newStatus(l life, s State) status { return status(l) | status(s)<<stateShift }
func (s status) life() life            { return life(s & lifeMask) }
func (s status) with(l life) status    { return s&^lifeMask | status(l) }
func (s status) state() State          { return State(s>>stateShift) & (stateSlots - 1) }
func (s status) withState(st State) status {
	return s&^((stateSlots-1)<<stateShift) | status(st)<<stateShift
}
func (s status) fins() uint32               { return uint32(s>>finShift) & 3 }
func (s status) withFin(d Direction) status { return s | 1<<(finShift+d&1) }
func firstState(proto uint8) State {
	switch proto {
	case packet.ProtoTCP:
		return SynSent
	case packet.ProtoICMP, packet.ProtoICMPv6:
		return ICMP
	case packet.ProtoSCTP:
		return CookieWait
	}
	return UDPSingle
}

// next returns the status after a packet in direction d with the given TCP flags.
func (s status) next(d Direction, flags uint8) status {
	switch st := s.state(); {
	case st <= Closed:
		return s.nextTCP(d, flags)
	case st == UDPSingle && d == Reply:
		return s.withState(UDPStream)
	}
	return s
}

// nextTCP is the TCP part of next. A FIN before the handshake is complete does not count: it would let a flood of bare SYN
// and FIN pairs obtain the long timeout of a half-closed connection. Nothing leads out of TimeWait and Closed but RST and the
// end of the flow: a new connection on the same ports is a new flow, see Flow.Over.
func (s status) nextTCP(d Direction, flags uint8) status {
	if flags&flagRST != 0 {
		return s.withState(Closed)
	}
	switch s.state() {
	case SynSent:
		if d == Reply && flags&flagSYN != 0 {
			return s.withState(SynRecv)
		}
		return s
	case SynRecv:
		if d != Forward || flags&(flagSYN|flagACK) != flagACK {
			return s
		}
		s = s.withState(Established)
	case TimeWait, Closed:
		return s
	}
	if flags&flagFIN == 0 {
		return s
	}
	s = s.withFin(d)
	if s.fins() == 3 {
		return s.withState(TimeWait)
	}
	return s.withState(HalfClosed)
}

// prolongs reports whether a packet that leaves the state as it is shows that the flow is in use. What a flow is ended with
// does not, however often it comes, nor does anything once it has ended: a flood of RST, FIN or of late data must not keep
// a flow in the table. A SYN on an established connection is the end of it, or forged.
func (s status) prolongs(tcpFlags uint8) bool {
	switch st := s.state(); {
	case st == Closed || st == SCTPClosed:
		return false
	case st > Closed:
		return true
	case st >= Established:
		return tcpFlags&(flagSYN|flagFIN|flagRST) == 0
	}
	return tcpFlags&(flagFIN|flagRST) == 0
}

// Over reports whether the flow's connection or association has ended. The caller then removes the flow when the first packet
// of a new one comes from the client, so that a client which reuses a port at once does not lose its SYN to a connection
// that is over.
func (f *Flow) Over() bool {
	st := f.State()
	return st == TimeWait || st == Closed || st == SCTPClosed
}

// timeouts is topology.Timeouts in nanoseconds, by state.
type timeouts [stateSlots]int64

func timeoutsFrom(t topology.Timeouts) timeouts {
	return timeouts{
		SynSent:     int64(t.TCPSyn),
		SynRecv:     int64(t.TCPSyn),
		Established: int64(t.TCPEstablished),
		HalfClosed:  int64(t.TCPHalfClosed),
		TimeWait:    int64(t.TCPTimeWait),
		Closed:      int64(t.TCPClose),
		UDPSingle:   int64(t.UDP),
		UDPStream:   int64(t.UDPStream),
		ICMP:        int64(t.ICMP),

		CookieWait:   int64(t.SCTPSetup),
		CookieEchoed: int64(t.SCTPSetup),
		Associated:   int64(t.SCTP),
		ShuttingDown: int64(t.SCTPShutdown),
		SCTPClosed:   int64(t.SCTPShutdown),
	}
}

// shortest returns the shortest timeout.
func (t *timeouts) shortest() int64 {
	least := t[0]
	for _, v := range t[:numState] {
		least = min(least, v)
	}
	return least
}

// tick returns how exact the last-seen time of a flow is: coarse, so that a busy flow's shared line is written ten
// times a second instead of once a packet, yet small against every timeout. A flow may expire this much early.
func (t *timeouts) tick() int64 { return min(int64(100*time.Millisecond), t.shortest()/16) }
