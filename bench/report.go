package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"golang.org/x/sys/unix"
)

// Report is a whole run: for each contender its rounds, taken in turn with the others.
type Report struct {
	Machine string              `json:"machine"`
	Load    Load                `json:"load"`
	Rounds  map[string][]Result `json:"rounds"`
	order   []string
}

// NewReport returns an empty report for the contenders in order.
func NewReport(load Load, contenders []Contender) *Report {
	r := &Report{Machine: machine(), Load: load, Rounds: map[string][]Result{}}
	for _, c := range contenders {
		r.order = append(r.order, c.Name)
	}
	return r
}

// Add records one round.
func (r *Report) Add(contender string, result Result) {
	r.Rounds[contender] = append(r.Rounds[contender], result)
}

// machine describes where the run took place.
func machine() string {
	var u unix.Utsname
	release := "unknown kernel"
	if err := unix.Uname(&u); err == nil {
		release = "Linux " + unix.ByteSliceToString(u.Release[:])
	}
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if _, rest, ok := strings.Cut(string(b), "model name\t: "); ok {
			model, _, _ = strings.Cut(rest, "\n")
		}
	}
	return fmt.Sprintf("%s, %d processors (%s), %s", release, runtime.NumCPU(), model, runtime.Version())
}

// Median returns the median of f over the rounds of a contender, and the smallest and largest value.
func (r *Report) Median(contender string, f func(Result) float64) (median, low, high float64) {
	var v []float64
	for _, round := range r.Rounds[contender] {
		v = append(v, f(round))
	}
	if len(v) == 0 {
		return 0, 0, 0
	}
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]
}

// generator says how the load was sent, which sets the most that any contender can be seen to do.
func (r *Report) generator() string {
	for _, rounds := range r.Rounds {
		for _, round := range rounds {
			return round.Generator
		}
	}
	return "nowhere"
}

// cpuPerMillion is CPU-seconds for a million packets.
func cpuPerMillion(r Result) float64 {
	if r.Packets == 0 {
		return 0
	}
	return r.CPUSeconds / float64(r.Packets) * 1e6
}

// Table writes the medians, with ratios against the contender base.
func (r *Report) Table(w io.Writer, base string) error {
	fmt.Fprintf(w, "%s\nUDP, %d-byte frames from %s, %d flows, %d rounds in turn, medians (low to high)\n\n",
		r.Machine, r.Load.Size, r.generator(), r.Load.Flows, len(r.Rounds[base]))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "contender\tMpps\t(low to high)\tCPU-s per Mpkt\tMpkt per CPU-s\trate vs %s\tper CPU-s vs %s\n", base, base)
	basePPS, _, _ := r.Median(base, Result.PPS)
	baseCPU, _, _ := r.Median(base, Result.PerCPUSecond)
	for _, c := range r.order {
		pps, low, high := r.Median(c, Result.PPS)
		perMillion, _, _ := r.Median(c, cpuPerMillion)
		perCPU, _, _ := r.Median(c, Result.PerCPUSecond)
		fmt.Fprintf(t, "%s\t%.3f\t(%.3f to %.3f)\t%.3f\t%.3f\t%.2f\t%.2f\n", c, pps/1e6, low/1e6, high/1e6,
			perMillion, perCPU/1e6, pps/basePPS, perCPU/baseCPU)
	}
	return t.Flush()
}

// Benchstat writes every round in the format of go test -bench, which benchstat reads.
func (r *Report) Benchstat(w io.Writer) error {
	for _, c := range r.order {
		for _, round := range r.Rounds[c] {
			_, err := fmt.Fprintf(w, "BenchmarkForward/contender=%s/size=%d/flows=%d 1 %.0f pps %.4f cpu-s/Mpkt\n",
				c, r.Load.Size, r.Load.Flows, round.PPS(), cpuPerMillion(round))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// JSON writes the whole report.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
