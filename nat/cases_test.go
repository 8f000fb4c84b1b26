package nat_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"sluice/nat"
	"sluice/nat/nattest"
	"sluice/xdp/packet"
)

func TestPacketCases(t *testing.T) {
	for _, set := range []struct {
		load func() ([]nattest.PacketCase, error)
		size int
	}{{nattest.PacketCases, 70}, {nattest.MoreCases, 220}} {
		cases, err := set.load()
		if err != nil {
			t.Fatal(err)
		}
		if len(cases) != set.size {
			t.Errorf("%d cases, want %d", len(cases), set.size)
		}
		for i := range cases {
			t.Run(cases[i].ID, func(t *testing.T) { runCase(t, &cases[i]) })
		}
	}
}

func runCase(t *testing.T, c *nattest.PacketCase) {
	top, err := c.Topology()
	if err != nil {
		t.Fatal(err)
	}
	table := compile(t, top, nat.CompileOptions{TableSize: 251})
	p := &c.Packet
	tu := tuple(protoNumber(t, p.Proto), p.Src, p.Sport, p.Dst, p.Dport)
	d := table.Decide(&tu, nat.Origin{FromNode: p.From == "node",
		PodInterface: p.Interface != "" && table.IsPodInterface(p.Interface)})
	if d.Verdict.String() != c.Expected.Verdict {
		t.Fatalf("verdict %s (%s), want %s", d.Verdict, d.Reason, c.Expected.Verdict)
	}
	if d.SNAT != c.Expected.SNAT {
		t.Errorf("snat %v (%s), want %v", d.SNAT, d.Reason, c.Expected.SNAT)
	}
	if d.SNAT && (d.SNATAddr.String() != c.Primary(d.SNATAddr.Is4()) || d.SNATAddr.Is4() != tu.Src.Is4()) {
		t.Errorf("source becomes %s, want the node's primary address of the family", d.SNATAddr)
	}
	var got []string
	for _, b := range d.Candidates {
		got = append(got, b.AddrPort.String())
	}
	slices.Sort(got)
	if !slices.Equal(got, slices.Sorted(slices.Values(c.Expected.DstAnyOf))) && len(got)+len(c.Expected.DstAnyOf) > 0 {
		t.Errorf("candidates %v, want %v", got, c.Expected.DstAnyOf)
	}
	if d.Verdict == nat.Forward && !slices.Contains(d.Candidates, d.Backend) {
		t.Errorf("backend %s is none of the candidates %v", d.Backend.AddrPort, got)
	}
}

func protoNumber(t *testing.T, name string) uint8 {
	switch name {
	case "TCP":
		return packet.ProtoTCP
	case "UDP":
		return packet.ProtoUDP
	case "SCTP":
		return packet.ProtoSCTP
	}
	t.Fatalf("protocol %s", name)
	return 0
}

func addrs(list []string) []netip.Addr {
	var out []netip.Addr
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func cidrs(list []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range list {
		out = append(out, netip.MustParsePrefix(strings.TrimSpace(s)))
	}
	return out
}
