package nat

import "sluice/xdp/packet"

// RewriteQuote translates an ICMP error in place: the packet that it quotes carries inner afterwards, and the error
// itself goes from src to dst. in and quote are from packet.Parse and packet.ParseQuote; the error is not a fragment,
// and the quote has ports (Info.HasPorts). The tuples of both follow. All checksums that lie within the packet are
// brought up to date: of the quoted IP and transport headers, of the error, and of its IP header. The error's own
// checksum is computed anew, so the caller verifies it first: a damaged error must not come to look sound. The checksum of a
// quoted SCTP packet, which covers more than is quoted, stays as it is: nobody can verify it there.
func RewriteQuote(frame []byte, in, quote *packet.Info, inner *packet.Tuple, src, dst packet.Addr) {
	addrs := addrDelta(&quote.Tuple, inner)
	writeAddrs(frame, quote.L3, quote.Family, inner, addrs)
	l4 := frame[quote.L4:quote.End]
	delta := portDelta(&quote.Tuple, inner, quote.Proto)
	writePorts(l4, quote.Proto, inner)
	if quote.Proto != packet.ProtoICMP {
		delta += addrs
	}
	updateL4(l4, quote.Proto, delta)
	quote.Tuple = *inner

	outer := in.Tuple
	outer.Src, outer.Dst = src, dst
	outerDelta := addrDelta(&in.Tuple, &outer)
	writeAddrs(frame, in.L3, in.Family, &outer, outerDelta)
	in.Tuple = outer
	// The change of the quote is the sum of several that cancel in part (a checksum that follows its header cancels
	// it), so the error's own checksum is computed in full: errors are rare and short.
	packet.Complete(frame, in)
}
