package engine

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"sluice/xdp/packet"
)

// Origin says where a traced packet comes in. Whether its source counts as a pod is decided by pod_cidrs and by
// TraceSpec.Interface, as on the wire.
type Origin string

// The origins.
const (
	FromExternal Origin = "external"
	FromPod      Origin = "pod"
	FromNode     Origin = "node" // a process of the gateway itself
)

// TraceSpec describes the packet to trace.
type TraceSpec struct {
	From        Origin
	Interface   string         // the name of that which it comes in on; "" for one that no name of pod_interfaces is
	Src, Dst    netip.AddrPort // for ICMP, an echo request, the source port is the identifier
	Proto       string         // "tcp", "udp", "sctp" or "icmp"
	Flags       string         // TCP flags such as "syn" or "syn,ack"; when empty "syn", or "ack" if Established
	Established bool           // the packet follows one that has opened its flow

	payload []byte // of UDP; nil: any
}

// Check reports what keeps the spec from describing a packet: addresses of two families, an unknown protocol or flag.
func (s *TraceSpec) Check() error {
	_, err := s.frame()
	return err
}

// frame builds the packet.
func (s *TraceSpec) frame() ([]byte, error) {
	tu, err := s.tuple()
	if err != nil {
		return nil, err
	}
	p := packet.Spec{DF: true, Payload: []byte("trace")}
	p.SrcMAC, p.DstMAC = [6]byte{2, 0, 0, 0, 0, 9}, [6]byte{2, 0, 0, 0, 0, 1}
	switch strings.ToLower(s.Proto) {
	case "tcp":
		tu.Proto, p.Payload, p.Window = packet.ProtoTCP, nil, 0xffff
		if p.TCPFlags, err = s.tcpFlags(); err != nil {
			return nil, err
		}
	case "udp":
		tu.Proto = packet.ProtoUDP
		if s.payload != nil {
			p.Payload = s.payload
		}
	case "icmp":
		tu.Proto, p.ICMPType = packet.ProtoICMP, packet.ICMPEcho
		if !tu.Src.Is4() {
			tu.Proto, p.ICMPType = packet.ProtoICMPv6, packet.ICMPv6Echo
		}
	case "sctp":
		tu.Proto, p.Payload = packet.ProtoSCTP, initChunk()
		if s.Established {
			p.Seq, p.Payload = traceTag, []byte{packet.SCTPData, 3, 0, 17, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 'a', 0, 0, 0}
		}
	default:
		return nil, fmt.Errorf("protocol %q: must be tcp, udp, sctp or icmp", s.Proto)
	}
	p.Tuple = tu
	return packet.Build(make([]byte, 1024), &p), nil
}

// traceTag is the verification tag of a traced SCTP association, in both directions.
const traceTag = 0x51

// initChunk is the INIT that begins an association (RFC 9260 section 3.3.2): tag, window, one stream each way, number.
func initChunk() []byte {
	return []byte{packet.SCTPInit, 0, 0, 20, 0, 0, 0, traceTag, 0, 1, 0, 0, 0, 1, 0, 1, 0, 0, 0, 1}
}

// tuple returns addresses and ports.
func (s *TraceSpec) tuple() (packet.Tuple, error) {
	switch s.From {
	case FromExternal, FromPod, FromNode:
	default:
		return packet.Tuple{}, fmt.Errorf("origin %q: must be external, pod or node", s.From)
	}
	src, dst := s.Src.Addr().Unmap(), s.Dst.Addr().Unmap()
	if s.From == FromNode && s.Interface != "" {
		return packet.Tuple{}, fmt.Errorf("interface %q: what a process of the gateway sends comes in on none", s.Interface)
	}
	if !src.IsValid() || !dst.IsValid() {
		return packet.Tuple{}, errors.New("source and destination: both are needed")
	}
	if src.Is4() != dst.Is4() {
		return packet.Tuple{}, fmt.Errorf("source %v and destination %v are of different families", src, dst)
	}
	return packet.Tuple{Src: packet.AddrFrom(src), Dst: packet.AddrFrom(dst),
		SrcPort: s.Src.Port(), DstPort: s.Dst.Port()}, nil
}

// tcpFlags reads Flags, names separated by commas.
func (s *TraceSpec) tcpFlags() (flags uint8, err error) {
	names := s.Flags
	switch {
	case names == "" && s.Established:
		return packet.TCPAck, nil
	case names == "":
		return packet.TCPSyn, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "syn":
			flags |= packet.TCPSyn
		case "ack":
			flags |= packet.TCPAck
		case "fin":
			flags |= packet.TCPFin
		case "rst":
			flags |= packet.TCPRst
		case "psh":
			flags |= packet.TCPPsh
		default:
			return 0, fmt.Errorf("TCP flag %q: must be syn, ack, fin, rst or psh", name)
		}
	}
	return flags, nil
}
