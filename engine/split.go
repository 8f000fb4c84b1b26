package engine

import (
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// maxPieces is into how many pieces a packet is cut at most: enough for the longest frame over an MTU of 576.
const maxPieces = 8

// leave sends a packet that is ready but for its link header, in pieces where the way out has no room for it. That it may be cut
// mayLeave has seen to.
func (p *Pipeline) leave(f *xdp.Frame, hop *fib.NextHop, why reason.Reason) {
	if p.in.End-p.in.L3 <= hop.MTU {
		p.dispatch(f, hop, why)
		return
	}
	p.split(f, hop, why)
}

// split cuts an IPv4 packet into pieces for a next hop (RFC 791 section 3.2), each of which is counted. All leave, or none: without
// frames for the others the first is of no use.
func (p *Pipeline) split(f *xdp.Frame, hop *fib.NextHop, why reason.Reason) {
	n, each := packet.PiecesOf(p.in, hop.MTU)
	if n == 0 || n > maxPieces {
		p.drop(f, reason.TooBig)
		return
	}
	if !p.cut(f, n, each) {
		p.drop(f, reason.TxFull)
		return
	}
	whole := p.in
	for i := range n {
		p.piece = *whole
		p.piece.End = p.pieceEnds[i]
		p.in = &p.piece
		p.dispatch(&p.pieces[i], hop, why)
	}
	p.in = whole
}

// cut makes p.pieces of a packet, the first of which is its own frame; false when there are not enough frames. A packet that was
// no fragment gets a number of its own, for it shares its source address with others from now on (see Fragments.newID).
func (p *Pipeline) cut(f *xdp.Frame, n, each int) bool {
	if p.in.Fragment == packet.NotFragment {
		packet.SetIPv4ID(f.Bytes(), p.in, uint16(p.Fragments.newID()))
	}
	for i := 1; i < n; i++ {
		piece, ok := p.Port.Alloc()
		if !ok {
			p.Port.Release(p.pieces[1:i])
			return false
		}
		end := packet.CopyPiece(piece.Buf[piece.Start:], f.Bytes(), p.in, i, each)
		clear(piece.Buf[piece.Start+end : piece.Start+max(end, minFrame)])
		piece.Iface, piece.End = f.Iface, piece.Start+max(end, minFrame)
		p.pieces[i], p.pieceEnds[i] = piece, end
	}
	packet.CutFirst(f.Bytes(), p.in, each)
	f.End = f.Start + p.in.End
	p.pieces[0], p.pieceEnds[0] = *f, p.in.End
	return true
}
