package traffic

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// sender is a way to send a stream.
type sender interface {
	// burst sends exactly n frames, the flows in turn.
	burst(n uint32) error
	// method is its name, for reports.
	method() string
	Close() error
}

// liveFrames sends from XDP: the kernel runs a program that writes a frame and redirects it, without any skb. It is the fastest
// way that there is without hardware.
type liveFrames struct {
	objs  trafficObjects
	frame []byte
}

// newLiveFrames loads the program that sends s out of the interface with index ifindex.
func newLiveFrames(ifindex int, s Stream) (*liveFrames, error) {
	spec, err := loadTraffic()
	if err != nil {
		return nil, err
	}
	l := &liveFrames{frame: s.template()}
	sums := s.sums(l.frame)
	port := s.Dst.Port()
	err = errors.Join(
		spec.Variables["out_ifindex"].Set(uint32(ifindex)),
		spec.Variables["flow_mask"].Set(uint32(s.Flows-1)),
		spec.Variables["src_base"].Set(sums.src),
		spec.Variables["ip_sum"].Set(sums.ip),
		spec.Variables["udp_sum"].Set(sums.udp),
		spec.Variables["sink_port"].Set(port<<8|port>>8),
	)
	if err != nil {
		return nil, err
	}
	if err := spec.LoadAndAssign(&l.objs, nil); err != nil {
		return nil, fmt.Errorf("loading the generator: %w", err)
	}
	var headers trafficHeaders
	copy(headers.Bytes[:], l.frame[:headerLen])
	if err := l.objs.Template.Put(uint32(0), headers); err != nil {
		return nil, errors.Join(err, l.objs.Close())
	}
	return l, nil
}

// permitted reports whether this kernel lets anyone send live frames; some are built to refuse it. What it tries ends in a sink.
func (l *liveFrames) permitted() (bool, error) {
	probe := make([]byte, len(l.frame))
	copy(probe, l.frame)
	err := live(l.objs.Sink, probe, 1)
	if errors.Is(err, unix.EPERM) {
		return false, nil
	}
	return err == nil, err
}

func (l *liveFrames) burst(n uint32) error { return live(l.objs.Generate, l.frame, n) }

// live has the kernel run a program on n live frames.
func live(p *ebpf.Program, frame []byte, n uint32) error {
	if _, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: n, Flags: unix.BPF_F_TEST_XDP_LIVE_FRAMES}); err != nil {
		return fmt.Errorf("sending live frames: %w", err)
	}
	return nil
}

func (l *liveFrames) method() string { return "live frames" }

func (l *liveFrames) Close() error { return l.objs.Close() }
