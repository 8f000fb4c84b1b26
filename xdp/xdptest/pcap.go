// Package xdptest has what tests need around the in-memory driver of package xdp: packets out of capture files and into them.
package xdptest

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// ReadPcap returns the Ethernet frames of a capture in pcap format, in order, for Memory.Deliver. A frame that the capture
// has cut short is an error.
func ReadPcap(r io.Reader) ([][]byte, error) {
	in, err := pcapgo.NewReader(r)
	if err != nil {
		return nil, fmt.Errorf("reading pcap header: %w", err)
	}
	if in.LinkType() != layers.LinkTypeEthernet {
		return nil, fmt.Errorf("capture of link type %s: must be Ethernet", in.LinkType())
	}
	var frames [][]byte
	for {
		data, info, err := in.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return frames, nil
		}
		if err != nil {
			return nil, fmt.Errorf("reading packet %d: %w", len(frames)+1, err)
		}
		if info.CaptureLength != info.Length {
			return nil, fmt.Errorf("packet %d: %d of %d bytes were captured", len(frames)+1, info.CaptureLength, info.Length)
		}
		frames = append(frames, data)
	}
}

// WritePcap writes Ethernet frames, such as those from Memory.Sent, as a capture in pcap format. Their time stamps count
// microseconds from the epoch, so that equal frames give equal files.
func WritePcap(w io.Writer, frames [][]byte) error {
	out := pcapgo.NewWriter(w)
	if err := out.WriteFileHeader(1<<16, layers.LinkTypeEthernet); err != nil {
		return fmt.Errorf("writing pcap header: %w", err)
	}
	for i, f := range frames {
		info := gopacket.CaptureInfo{Timestamp: time.UnixMicro(int64(i)).UTC(), CaptureLength: len(f), Length: len(f)}
		if err := out.WritePacket(info, f); err != nil {
			return fmt.Errorf("writing packet %d: %w", i+1, err)
		}
	}
	return nil
}
