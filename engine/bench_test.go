package engine

import (
	"testing"

	"sluice/xdp"
	"sluice/xdp/packet"
)

// BenchmarkPipeline takes batches of 64 packets through the pipeline and an in-memory port.
func BenchmarkPipeline(b *testing.B) {
	toPod := tuple(udp, podClient, 1024, webIP, 53)
	for _, bc := range []struct {
		name   string
		packet packet.Tuple
		flows  int
		step   int64 // ns between batches
	}{
		{"hit/flows=64", toPod, 64, 0},
		{"hit/flows=64k", toPod, 1 << 16, 0},
		{"hit/snat", tuple(udp, client, 1024, webVIP, 53), 64, 0},
		{"miss", toPod, 1 << 16, 100e6}, // a flow comes again after 100 s, when it has expired
		{"miss/snat", tuple(udp, client, 1024, webVIP, 53), 1 << 12, 10e9},
		{"reject", tuple(udp, client, 1024, webIP, 99), 64, 100e6},
		{"drop", tuple(udp, client, 1024, "10.96.9.9", 53), 64, 0},
		{"punt", tuple(tcp, client, 1024, gateway, 22), 64, 0},
	} {
		b.Run(bc.name, func(b *testing.B) { benchPipeline(b, bc.packet, bc.flows, bc.step) })
	}
}

func benchPipeline(b *testing.B, tu packet.Tuple, flows int, step int64) {
	topo := testTopology()
	topo.Conntrack.MaxFlows = 1 << 17
	bed := newBed(b, topo)
	bed.puntFull = true // the punter keeps nothing
	bed.port = xdp.NewMemory(xdp.MemoryOptions{Frames: 512, Discard: true,
		Interfaces: []xdp.Interface{{Name: "a"}, {Name: "b"}}})
	bed.p.Port = bed.port
	packets := make([][]byte, flows)
	for i := range packets {
		t := tu
		t.Src.Lo += uint64(i >> 14)
		t.SrcPort += uint16(i & 0x3fff)
		packets[i] = frame(t)
	}
	frames := make([]xdp.Frame, batchSize)
	batch := func(packets [][]byte) {
		if err := bed.port.Deliver(0, packets...); err != nil {
			b.Fatal(err)
		}
		n := bed.port.Receive(frames)
		bed.p.Process(bed.snap, bed.now, frames[:n])
		if err := bed.port.Flush(); err != nil {
			b.Fatal(err)
		}
	}
	for next := 0; next < flows; next += batchSize {
		batch(packets[next : next+batchSize])
	}
	sweeper := bed.flows.Register()
	defer sweeper.Close()
	b.ReportAllocs()
	b.ResetTimer()
	for i, next := 0, 0; i < b.N; i += batchSize {
		bed.now += step
		batch(packets[next : next+batchSize])
		next = (next + batchSize) % flows
		if step > 0 {
			bed.flows.Sweep(sweeper, bed.now, 2*batchSize)
		}
	}
}
