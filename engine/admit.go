package engine

import (
	"sluice/xdp"
)

// that takes no frame as long as that.
func (p *Pipeline) trim(f *xdp.Frame) {
	f.End = min(f.End, f.Start+max(p.in.End, minFrame))
}

// minFrame is the length of the shortest Ethernet frame, without its checksum.
const minFrame = 60
