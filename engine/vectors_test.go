package engine

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"sluice/config"
	"sluice/engine/control"
	"sluice/engine/fib"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// TestVectors runs testdata/vectors/*.txtar: a topology, and packets in and out. The language of the steps:
//
//	at 5s                        move the clock, and tick
//	topology NAME                reload with another file of the archive
//	route PREFIX IFACE [mtu=N] [vlan=N] [incomplete]
//	in IFACE PACKET              what follows, up to the next such line, is all that comes of it:
//	out IFACE PACKET             a packet is sent, with the fields that are named, and right checksums throughout
//	drop REASON | punt | held    it is dropped, goes to the kernel unchanged, or waits for its neighbour
//	pass                         the XDP program does not even redirect it
//	count REASON N               so many packets have been counted under a reason
//
// PACKET is described in vectors_packet_test.go.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob("testdata/vectors/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no vectors: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runVectors(t, file) })
	}
}

// vectors is the state of one file.
type vectors struct {
	*bed
	files  map[string][]byte
	routes map[string]fib.Route
	vars   map[string]uint16 // source ports that out lines have bound
	line   string
	sent   [2][][]byte // not expected by an out line yet
	before [reason.Count]uint64
	in     []byte
	punts  int
}

func runVectors(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	v := &vectors{files: map[string][]byte{}, routes: map[string]fib.Route{}, vars: map[string]uint16{}}
	for _, f := range archive.Files {
		v.files[f.Name] = f.Data
	}
	snap := v.load(t, "topology.toml", nil)
	v.bed = newBed(t, snap.Topology)
	v.snap = snap
	front := fib.NextHop{State: fib.Ready, MTU: 1500, SrcMAC: frontMAC, DstMAC: clientMAC}
	v.route("0.0.0.0/0", front)
	v.route("::/0", front)
	for _, a := range snap.Topology.Gateway.LocalAddresses {
		v.route(netip.PrefixFrom(a, a.BitLen()).String(), fib.NextHop{State: fib.Local, Iface: -1})
	}
	for n, line := range strings.Split(string(v.files["steps"]), "\n") {
		if line, _, _ = strings.Cut(line, "#"); strings.TrimSpace(line) == "" {
			continue
		}
		v.line = fmt.Sprintf("%s: step line %d: %s", filepath.Base(file), n+1, strings.TrimSpace(line))
		v.step(strings.Fields(line))
	}
	v.settle()
}

// load compiles a topology of the archive.
func (v *vectors) load(t testing.TB, name string, previous *control.Snapshot) *control.Snapshot {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, v.files[name], 0o600); err != nil {
		t.Fatal(err)
	}
	topo, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := control.Build(topo, nil, previous)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// route sets a route and publishes the next generation of all.
func (v *vectors) route(prefix string, hop fib.NextHop) {
	v.routes[prefix] = fib.Route{Prefix: netip.MustParsePrefix(prefix), Hop: hop}
	var all []fib.Route
	for _, r := range v.routes {
		all = append(all, r)
	}
	v.hops = fib.Static(v.hops.Generation()+1, all...)
}

func (v *vectors) fatal(format string, args ...any) {
	v.t.Helper()
	v.t.Fatalf("%s\n\t%s", v.line, fmt.Sprintf(format, args...))
}

func (v *vectors) step(words []string) {
	v.t.Helper()
	switch args := words[1:]; words[0] {
	case "at":
		v.settle()
		d, err := time.ParseDuration(args[0])
		if err != nil {
			v.fatal("%v", err)
		}
		v.now = int64(d)
		v.deliver(0, nil)
	case "topology":
		v.snap = v.load(v.t, args[0], v.snap)
	case "route":
		v.route(args[0], v.parseHop(args[1:]))
	case "in":
		v.settle()
		v.deliver(v.iface(args[0]), v.build(args[1:]))
	case "out":
		v.out(v.iface(args[0]), args[1:])
	case "drop", "count":
		v.count(words)
	case "punt":
		if len(v.punted) != v.punts+1 || string(v.punted[v.punts]) != string(v.in) {
			v.fatal("not punted, or not as it came: %x", v.punted[v.punts:])
		}
		v.punts++
	case "held":
		if v.p.Pending() == 0 {
			v.fatal("nothing waits")
		}
	case "pass":
		if v.snap.Rules.Match(v.in) {
			v.fatal("redirected")
		}
	default:
		v.fatal("unknown step")
	}
}

func (v *vectors) iface(name string) int {
	i := slices.IndexFunc(v.port.Interfaces(), func(i xdp.Interface) bool { return i.Name == name })
	if i < 0 {
		v.fatal("no interface %s", name)
	}
	return i
}

func (v *vectors) parseHop(words []string) fib.NextHop {
	hop := fib.NextHop{State: fib.Ready, Iface: v.iface(words[0]), MTU: 1500, SrcMAC: frontMAC, DstMAC: clientMAC}
	if hop.Iface == 1 {
		hop.SrcMAC, hop.DstMAC = backMAC, backendMAC
	}
	for _, w := range words[1:] {
		key, value, _ := strings.Cut(w, "=")
		switch key {
		case "mtu":
			hop.MTU = int(v.number(value, 10))
		case "vlan":
			hop.VLAN = uint16(v.number(value, 10))
		case "incomplete":
			hop.State = fib.Incomplete
		default:
			v.fatal("%s?", w)
		}
	}
	return hop
}

// deliver takes a packet, or none, through the pipeline.
func (v *vectors) deliver(iface int, frame []byte) {
	v.t.Helper()
	for r := range reason.All() {
		v.before[r] = v.counters.Packets(r)
	}
	v.in = slices.Clone(frame)
	if frame == nil {
		v.p.Tick(v.snap, v.now)
		v.sent[0], v.sent[1] = v.run(iface)
		return
	}
	v.sent[0], v.sent[1] = v.run(iface, frame)
}

// settle checks that nothing has happened that no line expects.
func (v *vectors) settle() {
	v.t.Helper()
	for i, left := range v.sent {
		for _, f := range left {
			var in packet.Info
			packet.Parse(f, &in)
			v.fatal("before the next one: unexpected on interface %d: %v %x", i, in.Tuple, f)
		}
	}
	if len(v.punted) != v.punts {
		v.fatal("before the next one: unexpectedly punted: %x", v.punted[v.punts:])
	}
}

func (v *vectors) out(iface int, words []string) {
	v.t.Helper()
	if len(v.sent[iface]) == 0 {
		var why []string
		for r := range reason.All() {
			if v.counters.Packets(r) != v.before[r] {
				why = append(why, r.String())
			}
		}
		v.fatal("nothing was sent; counted: %v", why)
	}
	v.compare(v.sent[iface][0], words)
	v.sent[iface] = v.sent[iface][1:]
	if !v.snap.Rules.Match(v.in) && v.in != nil {
		v.fatal("the XDP program would not have redirected the packet")
	}
}

func (v *vectors) count(words []string) {
	v.t.Helper()
	for r := range reason.All() {
		if r.String() != words[1] {
			continue
		}
		got, want := v.counters.Packets(r), v.before[r]+1
		if words[0] == "count" {
			want = v.number(words[2], 10)
		}
		if got != want {
			v.fatal("%d counted, want %d", got, want)
		}
		return
	}
	v.fatal("no such reason")
}

func (v *vectors) number(s string, base int) uint64 {
	n, err := strconv.ParseUint(s, base, 32)
	if err != nil {
		v.fatal("%v", err)
	}
	return n
}
