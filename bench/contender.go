package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"sluice/bench/traffic"
	"sluice/xdp"
)

// Contender is one way through the gateway.
type Contender struct {
	Name string
	Dst  string // address that the generator sends to
	// Start puts the contender on the bed and returns how to take it off. counted, when not nil, is where its packets are
	// counted instead of at the sink.
	Start func(*Bed) (counted *traffic.Attachment, stop func() error, err error)
}

// Kernel returns the contenders that need nothing of Sluice: the limits, and what the kernel does by itself.
func Kernel() []Contender {
	return []Contender{
		{"xdp-drop", sinkAddr, startDrop},
		{"xdp-redirect", sinkAddr, startRedirect},
		{"kernel-forward", sinkAddr, startForward},
		{"nft-dnat", vip, func(b *Bed) (*traffic.Attachment, func() error, error) { return startNFT(b, 1) }},
	}
}

// startDrop counts on the gateway's own interface: no gateway at all.
func startDrop(b *Bed) (*traffic.Attachment, func() error, error) {
	a, err := traffic.NewSink(b.Gateway, b.Front.Index, port)
	if err != nil {
		return nil, nil, err
	}
	return a, a.Close, nil
}

// startRedirect forwards in XDP, by link-layer addresses alone.
func startRedirect(b *Bed) (*traffic.Attachment, func() error, error) {
	a, err := traffic.NewForwarder(b.Gateway, b.Front.Index, b.Back.Index, b.Back.MAC, b.sinkIf.MAC)
	if err != nil {
		return nil, nil, err
	}
	return nil, a.Close, nil
}

// startForward lets the kernel route. GRO makes the veth poll by NAPI, without which it takes no redirected frames.
func startForward(b *Bed) (*traffic.Attachment, func() error, error) {
	if err := b.run("ethtool", "-K", b.Front.Name, "gro", "on"); err != nil {
		return nil, nil, err
	}
	if err := b.Gateway.Sysctl(map[string]string{"net/ipv4/ip_forward": "1"}); err != nil {
		return nil, nil, err
	}
	stop := func() error {
		return errors.Join(b.Gateway.Sysctl(map[string]string{"net/ipv4/ip_forward": "0"}),
			b.run("ethtool", "-K", b.Front.Name, "gro", "off"))
	}
	return nil, stop, nil
}

// startNFT lets the kernel translate by rules of the shape that kube-proxy's nftables mode writes: one verdict map from
// address, protocol and port to the service's chain, there a random choice of endpoint, there the DNAT. services is how
// many services the map holds; the datagrams are for the last.
func startNFT(b *Bed, services int) (*traffic.Attachment, func() error, error) {
	_, stop, err := startForward(b)
	if err != nil {
		return nil, nil, err
	}
	if err := b.nft(nftRules(services)); err != nil {
		return nil, nil, errors.Join(err, stop())
	}
	return nil, func() error { return errors.Join(b.nft("delete table ip bench"), stop()) }, nil
}

// nftRules writes the ruleset for a number of services, of which the one at vip leads to the sink.
func nftRules(services int) string {
	var chains, elements strings.Builder
	for i := range services {
		addr := vip
		if i < services-1 {
			addr = fmt.Sprintf("198.19.%d.%d", 128+i/250, 1+i%250)
		}
		fmt.Fprintf(&chains, "chain endpoint-%d { meta l4proto udp dnat to %s:%d; }\n", i, sinkAddr, port)
		fmt.Fprintf(&chains, "chain service-%d { numgen random mod 1 vmap { 0 : goto endpoint-%d }; }\n", i, i)
		fmt.Fprintf(&elements, "%s . udp . %d : goto service-%d,\n", addr, port, i)
	}
	return fmt.Sprintf(`table ip bench {
%s
map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; elements = { %s } }
chain services { ip daddr . meta l4proto . th dport vmap @service-ips; }
chain prerouting { type nat hook prerouting priority dstnat; policy accept; jump services; }
}
`, chains.String(), elements.String())
}

// nft runs a script in the gateway's namespace.
func (b *Bed) nft(script string) error {
	return b.Gateway.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
}

// run runs a short command in the gateway's namespace.
func (b *Bed) run(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := b.Gateway.Output(ctx, name, args...); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// All returns every contender of the first comparison, the limits first.
func All(binary string) []Contender {
	return append(Kernel(),
		AFXDP(xdp.ModeNative),
		AFXDP(xdp.ModeGeneric),
		Sluice(binary, xdp.DriverAFXDP, xdp.ModeNative),
		Sluice(binary, xdp.DriverAFXDP, xdp.ModeGeneric),
		Sluice(binary, xdp.DriverAsavie, xdp.ModeNative),
	)
}
