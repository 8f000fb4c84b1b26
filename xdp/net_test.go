package xdp_test

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"golang.org/x/sys/unix"

	"sluice/xdp"
	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// network is a gateway between two hosts: left - gw - right, the gateway's ends being called left and right too.
type network struct {
	gw, left, right *lab.Host
}

// newNetwork builds it with so many queues on the left link and, if that differs, on the right one.
func newNetwork(t *testing.T, queues ...int) *network {
	t.Helper()
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { check(t, l.Close()) })
	host := func(name string) *lab.Host {
		h, err := l.Host(name)
		check(t, err)
		return h
	}
	n := &network{gw: host("gw"), left: host("left"), right: host("right")}
	left, right := lab.LinkOptions{Queues: queues[0]}, lab.LinkOptions{Queues: queues[len(queues)-1]}
	check(t, l.Link(lab.End{Host: n.gw, Name: "left"}, lab.End{Host: n.left, Name: "eth0"}, left))
	check(t, l.Link(lab.End{Host: n.gw, Name: "right"}, lab.End{Host: n.right, Name: "eth0"}, right))
	return n
}

// open opens sockets on both interfaces of the gateway and attaches the program with rules.
func (n *network) open(t *testing.T, o xdp.Options, rules *xdp.Rules) (*xdp.Sockets, *xdp.Attachment) {
	t.Helper()
	if o.Interfaces == nil {
		o.Interfaces = []string{"left", "right"}
	}
	var s *xdp.Sockets
	var a *xdp.Attachment
	check(t, n.gw.Do(func() (err error) {
		if s, err = xdp.Open(o); err != nil {
			return err
		}
		a, err = xdp.Attach(s, rules)
		return err
	}))
	t.Cleanup(func() {
		check(t, a.Close())
		check(t, s.Close())
	})
	return s, a
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wire is a raw socket on a host's interface.
type wire struct {
	t  *testing.T
	fd int
}

func newWire(t *testing.T, h *lab.Host, name string) *wire {
	t.Helper()
	w := &wire{t: t, fd: -1}
	check(t, h.Do(func() error {
		iface, err := net.InterfaceByName(name)
		if err != nil {
			return err
		}
		const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00
		if w.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all); err != nil {
			return err
		}
		return unix.Bind(w.fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: iface.Index})
	}))
	t.Cleanup(func() { check(t, unix.Close(w.fd)) })
	return w
}

func (w *wire) send(frame []byte) {
	w.t.Helper()
	for {
		_, err := unix.Write(w.fd, frame)
		if err == unix.ENOBUFS || err == unix.EINTR {
			continue
		}
		check(w.t, err)
		return
	}
}

// recv returns the next frame that carries UDP to port; nil when none comes within d.
func (w *wire) recv(port uint16, d time.Duration) []byte {
	w.t.Helper()
	buf := make([]byte, 4096)
	for deadline := time.Now().Add(d); ; {
		left := time.Until(deadline)
		if left < 0 {
			return nil
		}
		ts := unix.NsecToTimespec(left.Nanoseconds())
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}, &ts, nil)
		if err == unix.EINTR || n == 0 {
			continue
		}
		check(w.t, err)
		n, from, err := unix.Recvfrom(w.fd, buf, 0)
		if err == unix.ENETDOWN { // reported once after the link went down
			continue
		}
		check(w.t, err)
		if ll := from.(*unix.SockaddrLinklayer); ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		p := gopacket.NewPacket(buf[:n], layers.LayerTypeEthernet, gopacket.NoCopy)
		if udp, ok := p.Layer(layers.LayerTypeUDP).(*layers.UDP); ok && uint16(udp.DstPort) == port {
			return buf[:n]
		}
	}
}

// udpFrame returns an Ethernet frame with a UDP packet.
func udpFrame(t testing.TB, src, dst netip.AddrPort, payload []byte) []byte {
	t.Helper()
	eth := &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2},
		EthernetType: layers.EthernetTypeIPv4}
	ip := &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolUDP, SrcIP: src.Addr().AsSlice(), DstIP: dst.Addr().AsSlice()}
	udp := &layers.UDP{SrcPort: layers.UDPPort(src.Port()), DstPort: layers.UDPPort(dst.Port())}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, eth, ip, udp, gopacket.Payload(payload)); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}
