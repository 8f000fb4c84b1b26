package demo

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/net/icmp"
	"golang.org/x/net/ipv4"
	"golang.org/x/net/ipv6"
)

// ping sends one ICMP or ICMPv6 echo request and waits for its reply.
func ping(ctx context.Context, target string) ([]string, error) {
	addr, err := netip.ParseAddr(target)
	if err != nil {
		return nil, fmt.Errorf("ping target: %w", err)
	}
	network, proto := "ip4:icmp", 1
	var kind, want icmp.Type = ipv4.ICMPTypeEcho, ipv4.ICMPTypeEchoReply
	if addr.Is6() {
		network, proto = "ip6:ipv6-icmp", 58
		kind, want = ipv6.ICMPTypeEchoRequest, ipv6.ICMPTypeEchoReply
	}
	conn, err := icmp.ListenPacket(network, "")
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	id := os.Getpid() & 0xffff
	msg := icmp.Message{Type: kind, Body: &icmp.Echo{ID: id, Seq: 1, Data: []byte("sluice demo")}}
	packet, err := msg.Marshal(nil)
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(requestTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	if _, err := conn.WriteTo(packet, &net.IPAddr{IP: addr.AsSlice()}); err != nil {
		return nil, err
	}
	return awaitReply(conn, proto, want, id, addr)
}

// awaitReply reads until the reply to our echo has come; a raw socket sees all ICMP messages of the host.
func awaitReply(conn *icmp.PacketConn, proto int, want icmp.Type, id int, from netip.Addr) ([]string, error) {
	buf := make([]byte, 1500)
	for {
		n, peer, err := conn.ReadFrom(buf)
		if err != nil {
			return nil, err
		}
		m, err := icmp.ParseMessage(proto, buf[:n])
		if err != nil || m.Type != want {
			continue
		}
		if echo, ok := m.Body.(*icmp.Echo); ok && echo.ID == id && peer.String() == from.String() {
			return []string{"reply"}, nil
		}
	}
}
