package bench_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"sluice/bench"

	"sluice/xdp/lab/labtest"
)

// window is the measured part of a round; short, since a benchmark repeats it.
const window = 500 * time.Millisecond

// BenchmarkForward measures every contender: one iteration is one round of traffic through a fresh bed. Comparing them is
// for "make bench", which takes them in turn.
func BenchmarkForward(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	binary, err := bench.Binary(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	load := bench.Load{Flows: 1 << 16, Size: 60}
	for _, c := range bench.All(binary) {
		b.Run(fmt.Sprintf("contender=%s/size=%d/flows=%d", c.Name, load.Size, load.Flows), func(b *testing.B) {
			var packets, seconds, cpu float64
			for b.Loop() {
				r, err := bench.One(c, load, window)
				if err != nil {
					b.Fatal(err)
				}
				packets += float64(r.Packets)
				seconds += r.Wall.Seconds()
				cpu += r.CPUSeconds
			}
			if packets == 0 {
				b.Fatal("no packet reached the sink")
			}
			b.ReportMetric(packets/seconds, "pps")
			b.ReportMetric(cpu/packets*1e6, "cpu-s/Mpkt")
		})
	}
}

func TestEveryContenderForwards(t *testing.T) {
	labtest.NeedRoot(t)
	binary, err := bench.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range bench.All(binary) {
		t.Run(c.Name, func(t *testing.T) {
			// A contender on a busy machine may not get to run within so short a round.
			const rounds = 5
			for range rounds {
				r, err := bench.One(c, bench.Load{Flows: 64, Size: 60}, 100*time.Millisecond)
				if err != nil {
					t.Fatal(err)
				}
				if r.Packets > 0 && r.CPUSeconds > 0 {
					return
				}
				t.Logf("%d packets, %.3f CPU-seconds", r.Packets, r.CPUSeconds)
			}
			t.Errorf("nothing got through in %d rounds", rounds)
		})
	}
}

func TestMedian(t *testing.T) {
	r := bench.NewReport(bench.Load{}, []bench.Contender{{Name: "a"}})
	for _, packets := range []uint64{5, 1, 4} {
		r.Add("a", bench.Result{Packets: packets, Wall: time.Second})
	}
	if m, low, high := r.Median("a", bench.Result.PPS); m != 4 || low != 1 || high != 5 {
		t.Errorf("median %v, low %v, high %v; want 4, 1, 5", m, low, high)
	}
	r.Add("a", bench.Result{Packets: 3, Wall: time.Second})
	if m, _, _ := r.Median("a", bench.Result.PPS); m != 3.5 {
		t.Errorf("median of four %v, want 3.5", m)
	}
	if m, _, _ := r.Median("b", bench.Result.PPS); m != 0 {
		t.Errorf("median of none %v, want 0", m)
	}
}
