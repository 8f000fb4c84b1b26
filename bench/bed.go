// Package bench compares ways through a gateway: the same datagrams, from the same generator to the same sink, with one
// contender at a time between them. And it compares DNS servers: the same queries, from one generator, with one server at a time to answer
// them. Nothing imports it.
package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"sluice/bench/traffic"
	"sluice/xdp/lab"
)

// The addresses of the bed. Sources are 198.18.40.0 and following, one for each 16384 flows.
const (
	genAddr, frontAddr = "198.18.32.1", "198.18.32.254"
	backAddr, sinkAddr = "198.18.33.254", "198.18.33.1"
	sourceBase         = "198.18.40.0"
	sourceNet          = "198.18.40.0/24"
	vip                = "198.19.64.7"
	port               = 9
)

// Load is what the generator sends.
type Load struct {
	Flows int // a power of two
	Size  int // bytes of an Ethernet frame without its checksum
}

// Bed is a generator, a gateway and a sink in a row:
//
//	gen [eth0] ── [front] gateway [back] ── [eth0] sink
//
// Every neighbour is known from the start, so that no contender is measured while it resolves one.
type Bed struct {
	Gateway     *lab.Host
	Front, Back Iface // of the gateway
	gen, sink   *lab.Host
	genIf       Iface
	sinkIf      Iface
	lab         *lab.Lab
}

// Iface is an interface of the bed.
type Iface struct {
	Name  string
	Index int
	MAC   [6]byte
}

// NewBed builds the namespaces and links. queues is the number of queues of each end.
func NewBed(queues int) (b *Bed, err error) {
	b = &Bed{lab: lab.New()}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	for _, h := range []struct {
		name string
		to   **lab.Host
	}{{"gen", &b.gen}, {"gateway", &b.Gateway}, {"sink", &b.sink}} {
		if *h.to, err = b.lab.Host(h.name); err != nil {
			return b, err
		}
	}
	o := lab.LinkOptions{Queues: queues}
	if err = b.lab.Link(lab.End{Host: b.gen, Name: "eth0"}, lab.End{Host: b.Gateway, Name: "front"}, o); err != nil {
		return b, err
	}
	if err = b.lab.Link(lab.End{Host: b.Gateway, Name: "back"}, lab.End{Host: b.sink, Name: "eth0"}, o); err != nil {
		return b, err
	}
	return b, b.configure()
}

// configure sets addresses, routes and neighbours.
func (b *Bed) configure() error {
	err := errors.Join(
		b.gen.Addr("eth0", genAddr+"/24"), b.Gateway.Addr("front", frontAddr+"/24"),
		b.Gateway.Addr("back", backAddr+"/24"), b.sink.Addr("eth0", sinkAddr+"/24"),
		b.Gateway.Route(sourceNet, genAddr), b.sink.Route(sourceNet, backAddr),
	)
	if err != nil {
		return err
	}
	for _, i := range []struct {
		host *lab.Host
		name string
		to   *Iface
	}{{b.gen, "eth0", &b.genIf}, {b.Gateway, "front", &b.Front}, {b.Gateway, "back", &b.Back}, {b.sink, "eth0", &b.sinkIf}} {
		link, err := i.host.Netlink().LinkByName(i.name)
		if err != nil {
			return err
		}
		*i.to = Iface{Name: i.name, Index: link.Attrs().Index}
		copy(i.to.MAC[:], link.Attrs().HardwareAddr)
	}
	return errors.Join(
		neighbour(b.gen, b.genIf, frontAddr, b.Front.MAC), neighbour(b.Gateway, b.Front, genAddr, b.genIf.MAC),
		neighbour(b.Gateway, b.Back, sinkAddr, b.sinkIf.MAC), neighbour(b.sink, b.sinkIf, backAddr, b.Back.MAC),
	)
}

// neighbour enters a permanent neighbour.
func neighbour(h *lab.Host, i Iface, addr string, mac [6]byte) error {
	err := h.Netlink().NeighSet(&netlink.Neigh{LinkIndex: i.Index, State: netlink.NUD_PERMANENT,
		IP: netip.MustParseAddr(addr).AsSlice(), HardwareAddr: mac[:]})
	if err != nil {
		return fmt.Errorf("%s: neighbour %s: %w", h.Name, addr, err)
	}
	return nil
}

// Close takes the bed down.
func (b *Bed) Close() error { return b.lab.Close() }

// Result is one round of one contender.
type Result struct {
	Packets    uint64        // that reached the sink within Wall
	Wall       time.Duration // length of the measured window
	CPUSeconds float64       // busy time of all processors in the window, generator and sink included
	Generator  string        // how the load was sent, see traffic.Generator.Method
}

// PPS is packets per second.
func (r Result) PPS() float64 { return float64(r.Packets) / r.Wall.Seconds() }

// PerCPUSecond is packets per second of busy processor.
func (r Result) PerCPUSecond() float64 {
	if r.CPUSeconds == 0 {
		return 0
	}
	return float64(r.Packets) / r.CPUSeconds
}

// Measure sends load through whatever is on the gateway now, to dst, and counts at the sink for window, after a warm-up in
// which every flow has been seen. counted is the attachment whose counter is the result; nil attaches a sink.
func (b *Bed) Measure(load Load, dst string, window time.Duration, counted *traffic.Attachment) (r Result, err error) {
	if counted == nil {
		if counted, err = traffic.NewSink(b.sink, b.sinkIf.Index, port); err != nil {
			return r, err
		}
		defer func() { err = errors.Join(err, counted.Close()) }()
	}
	gen, err := traffic.NewGenerator(b.gen, b.genIf.Index, traffic.Stream{SrcMAC: b.genIf.MAC, DstMAC: b.Front.MAC,
		Src: netip.MustParseAddr(sourceBase), Dst: netip.AddrPortFrom(netip.MustParseAddr(dst), port),
		Flows: load.Flows, Size: load.Size, CPU: generatorCPU()})
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, gen.Close()) }()
	// The warm-up passes every flow several times even for a contender that drops most of a burst.
	if _, err := gen.Run(window / 2); err != nil {
		return r, err
	}
	done := make(chan error, 1)
	go func() {
		_, err := gen.Run(window + window/4)
		done <- err
	}()
	time.Sleep(window / 8)
	r, err = sample(counted, window)
	r.Generator = gen.Method()
	return r, errors.Join(err, <-done)
}

// sample takes the counter and the busy time at both ends of a window.
func sample(counted *traffic.Attachment, window time.Duration) (Result, error) {
	n0, err := counted.Received()
	if err != nil {
		return Result{}, err
	}
	cpu0, err := busySeconds()
	if err != nil {
		return Result{}, err
	}
	start := time.Now()
	time.Sleep(window)
	n1, err := counted.Received()
	if err != nil {
		return Result{}, err
	}
	wall := time.Since(start)
	cpu1, err := busySeconds()
	return Result{Packets: n1 - n0, Wall: wall, CPUSeconds: cpu1 - cpu0}, err
}

// generatorCPU is the last processor: workers take the first ones.
func generatorCPU() int {
	n, err := os.ReadFile("/sys/devices/system/cpu/online") // such as "0-1"
	if err != nil {
		return -1
	}
	list := strings.FieldsFunc(strings.TrimSpace(string(n)), func(r rune) bool { return r == '-' || r == ',' })
	last, err := strconv.Atoi(list[len(list)-1])
	if err != nil {
		return -1
	}
	return last
}

// busySeconds is the time that all processors have spent neither idle nor waiting, from the first line of /proc/stat:
// user, nice, system, irq and softirq, in ticks of 10 ms (USER_HZ).
func busySeconds() (float64, error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b), "\n")
	f := strings.Fields(line)
	if len(f) < 8 || f[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat starts with %q", line)
	}
	var ticks float64
	for _, i := range []int{1, 2, 3, 6, 7} {
		v, err := strconv.ParseFloat(f[i], 64)
		if err != nil {
			return 0, fmt.Errorf("/proc/stat: %w", err)
		}
		ticks += v
	}
	return ticks / 100, nil
}
