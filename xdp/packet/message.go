package packet

import "encoding/binary"

// ICMP and ICMPv6 types (IANA ICMP parameters, ICMPv6 parameters).
const (
	ICMPEchoReply    = 0
	ICMPUnreachable  = 3
	ICMPSourceQuench = 4
	ICMPRedirect     = 5
	ICMPEcho         = 8
	ICMPTimeExceeded = 11
	ICMPParameter    = 12

	ICMPv6Unreachable  = 1
	ICMPv6TooBig       = 2
	ICMPv6TimeExceeded = 3
	ICMPv6Parameter    = 4
	ICMPv6Echo         = 128
	ICMPv6EchoReply    = 129
	ICMPv6Redirect     = 137
)

// IsICMP reports whether the packet is ICMP over IPv4 or ICMPv6 over IPv6, with its header in this frame.
func (in *Info) IsICMP() bool {
	return in.Fragment != LaterFragment && in.Proto == icmpProto(in.Family)
}

// icmpProto is the protocol number of ICMP in a family.
func icmpProto(family uint8) uint8 {
	if family == 4 {
		return ProtoICMP
	}
	return ProtoICMPv6
}

func parseICMP(b []byte, in *Info) Status {
	if len(b) < ICMPLen {
		return Malformed
	}
	in.ICMPType, in.ICMPCode = b[0], b[1]
	in.ICMPError = isICMPError(in.Family, in.ICMPType)
	if in.IsEcho() || in.IsEchoReply() {
		id := binary.BigEndian.Uint16(b[4:])
		in.Tuple.SrcPort, in.Tuple.DstPort = id, id
		in.HasPorts = true
	}
	return OK
}

// isICMPError reports whether a type is an error about a packet that it quotes. Redirects and source quench are not:
// they are for hosts, not for what passes through a gateway.
func isICMPError(family, t uint8) bool {
	if family == 4 {
		return t == ICMPUnreachable || t == ICMPTimeExceeded || t == ICMPParameter
	}
	return t >= ICMPv6Unreachable && t <= ICMPv6Parameter
}

// IsEcho reports whether the packet is an echo request.
func (in *Info) IsEcho() bool {
	return in.IsICMP() && (in.Family == 4 && in.ICMPType == ICMPEcho || in.Family == 6 && in.ICMPType == ICMPv6Echo)
}

// IsEchoReply reports whether the packet is an echo reply.
func (in *Info) IsEchoReply() bool {
	return in.IsICMP() && (in.Family == 4 && in.ICMPType == ICMPEchoReply || in.Family == 6 && in.ICMPType == ICMPv6EchoReply)
}

// ParseQuote fills quote from the packet that an ICMP error quotes; in is the Info of the error itself. Offsets of
// quote count from the start of the frame too. The quote may be cut off behind the first 8 bytes of its transport
// header. A quote of an ICMP error, which RFC 1122 section 3.2.2 forbids to send, is Malformed.
func ParseQuote(frame []byte, in, quote *Info) Status {
	*quote = Info{L3: in.L4 + ICMPLen}
	if !in.ICMPError {
		return Malformed
	}
	var s Status
	if in.Family == 4 {
		s = parseIPv4(frame[:in.End], quote, quoted)
	} else {
		s = parseIPv6(frame[:in.End], quote, quoted)
	}
	if s == OK && quote.ICMPError {
		return Malformed
	}
	return s
}
