package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"sluice/bench/traffic"
)

// QueryReport is a whole comparison of name servers: for each its rounds, taken in turn with the others.
type QueryReport struct {
	Machine  string                   `json:"machine"`
	Services int                      `json:"services"`
	Mix      string                   `json:"mix"`
	Pace     traffic.Pace             `json:"pace"`
	Rounds   map[string][]QueryResult `json:"rounds"`
	Highest  map[string]Highest       `json:"highest"` // empty when it was not looked for
	order    []string
}

func newQueryReport(o QueryOptions) *QueryReport {
	r := &QueryReport{Machine: machine(), Services: o.Names.services, Mix: Mix, Pace: o.Pace,
		Rounds: map[string][]QueryResult{}, Highest: map[string]Highest{}}
	for _, s := range o.Servers {
		r.order = append(r.order, s.Name)
	}
	return r
}

// AboveSink returns, for each round of a server, what the microseconds of processor for a query were beyond those of the same round when
// nobody answered. micros is QueryResult.MachineMicros or TaskMicros.
func (r *QueryReport) AboveSink(server string, micros func(QueryResult) float64) (above []float64) {
	sink := r.Rounds[nameSink]
	for i, round := range r.Rounds[server] {
		if i < len(sink) {
			above = append(above, micros(round)-micros(sink[i]))
		}
	}
	return above
}

// each returns a figure of each round of a server.
func (r *QueryReport) each(server string, figure func(QueryResult) float64) (v []float64) {
	for _, round := range r.Rounds[server] {
		v = append(v, figure(round))
	}
	return v
}

// spread returns the median of v, and its smallest and largest value; all 0 of nothing.
func spread(v []float64) (median, low, high float64) {
	if len(v) == 0 {
		return 0, 0, 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2, v[0], v[len(v)-1]
}

// Table writes the medians, with ratios of processor time, that of the whole machine above the sink, against the other servers.
func (r *QueryReport) Table(w io.Writer) error {
	fmt.Fprintf(w, `%s
%d services; %d queries/s in bursts of %d; %d rounds in turn, medians (low to high)
queries: %s
microseconds of processor for a query: of the whole machine, above those of the same queries into a sink, to which the ratios are; of server
and generator alone, above those into a sink; of the server's processes alone

`, r.Machine, r.Services, r.Pace.Rate, r.Pace.Burst, len(r.Rounds[nameSink]), r.Mix)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "server\tasked/s\tanswered\tmachine\t(low to high)\tvs %s\tvs %s\tserver+generator\t(low to high)\tvs %[1]s\tvs %[2]s\t"+
		"process\thighest rate\n", nameCoreDNS, nameNSD)
	for _, s := range r.order {
		r.row(t, s)
	}
	return t.Flush()
}

func (r *QueryReport) row(w io.Writer, server string) {
	rate, _, _ := spread(r.each(server, QueryResult.Rate))
	fmt.Fprintf(w, "%s\t%.0f\t%s\t", server, rate, r.answered(server))
	for _, micros := range []func(QueryResult) float64{QueryResult.MachineMicros, QueryResult.TaskMicros} {
		median, low, high := spread(r.AboveSink(server, micros))
		fmt.Fprintf(w, "%.2f\t(%.2f to %.2f)\t%s\t%s\t", median, low, high, r.ratio(server, nameCoreDNS, micros), r.ratio(server, nameNSD, micros))
	}
	process, _, _ := spread(r.each(server, QueryResult.ProcessMicros))
	fmt.Fprintf(w, "%.2f\t%s\n", process, r.highest(server))
}

// answered says how many of the queries of all rounds were answered, and marks a server that did not keep up: what it used per query is
// then no figure to compare.
func (r *QueryReport) answered(server string) string {
	if server == nameSink {
		return "-"
	}
	var sum QueryResult
	keepsUp := true
	for _, round := range r.Rounds[server] {
		sum.Asked += round.Asked
		sum.Answered += round.Answered
		keepsUp = keepsUp && round.KeepsUp()
	}
	if sum.Asked == 0 {
		return "-"
	}
	text := fmt.Sprintf("%.3f %%", 100*float64(sum.Answered)/float64(sum.Asked))
	if !keepsUp {
		text += " DOES NOT KEEP UP"
	}
	return text
}

// ratio writes how many times the processor time of another server that of a server is.
func (r *QueryReport) ratio(server, other string, micros func(QueryResult) float64) string {
	a, _, _ := spread(r.AboveSink(server, micros))
	b, _, _ := spread(r.AboveSink(other, micros))
	if b <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", a/b)
}

func (r *QueryReport) highest(server string) string {
	h, ok := r.Highest[server]
	switch {
	case !ok:
		return "-"
	case h.Limited:
		return fmt.Sprintf("over %.0f (generator)", h.Rate)
	}
	return fmt.Sprintf("%.0f", h.Rate)
}

// JSON writes the whole report.
func (r *QueryReport) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
