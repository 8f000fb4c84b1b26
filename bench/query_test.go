package bench_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"sluice/bench"
	"sluice/bench/traffic"
	"sluice/xdp/lab/labtest"
)

// nameServers returns all contenders; CoreDNS only where it has been built before, which takes minutes.
func nameServers(t *testing.T) []bench.NameServer {
	t.Helper()
	sluice, err := bench.Binary(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	servers := append(bench.Limits(), bench.SluiceRun(sluice), bench.SluiceDNS(sluice), bench.NSD())
	coreDNS, err := bench.CoreDNSBinary(false)
	if err != nil {
		t.Fatal(err)
	}
	if coreDNS == "" {
		t.Log("CoreDNS is not in the cache: left out")
		return servers
	}
	return append(servers, bench.CoreDNS(coreDNS))
}

// TestEveryNameServerAnswers starts each server, which holds its answers to the compiled zones, and has it asked for a moment.
func TestEveryNameServerAnswers(t *testing.T) {
	labtest.NeedRoot(t)
	names, err := bench.NewNames(40)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	for _, s := range nameServers(t) {
		t.Run(s.Name, func(t *testing.T) {
			r, err := bench.AskOne(s, names, traffic.Pace{Rate: 1000, Burst: 4}, 200*time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			answers := s.Name != "sink"
			// On a busy machine queries may be lost, but no reply may be wrong.
			if r.Asked == 0 || (r.Answered > 0) != answers || r.Answered > r.Asked || r.Wrong != 0 || r.SenderSeconds <= 0 || r.MachineSeconds <= 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestNamesAreChecked(t *testing.T) {
	for _, services := range []int{19, 3001} {
		if _, err := bench.NewNames(services); err == nil {
			t.Errorf("%d services: no error", services)
		}
	}
}

// TestWrongAnswersAreSeen has a server serve half of the services that it is asked for: one by one it is refused, under load counted.
func TestWrongAnswersAreSeen(t *testing.T) {
	labtest.NeedRoot(t)
	names, err := bench.NewNames(40)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	half, err := bench.NewNames(20)
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	pace := traffic.Pace{Rate: 1000, Burst: 4}
	r, err := bench.AskOne(bench.Serving(bench.NSD(), half), names, pace, 200*time.Millisecond)
	if err != nil || r.Wrong == 0 || r.KeepsUp() {
		t.Errorf("%+v, %v; want some wrong", r, err)
	}
	half.ForgetAnswers()
	if _, err := bench.AskOne(bench.NSD(), half, pace, 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), ", want NOERROR") {
		t.Errorf("got %v, want an error that says which answer is wrong", err)
	}
}

func TestQueryReport(t *testing.T) {
	r := bench.QueryReport{Rounds: map[string][]bench.QueryResult{
		"sink":    {{Queries: 1000, Wall: time.Second, Asked: 1000, MachineSeconds: 0.001, SenderSeconds: 0.001}},
		"nsd":     {{Queries: 1000, Wall: time.Second, Asked: 1000, Answered: 999, MachineSeconds: 0.009, SenderSeconds: 0.002, ProcessSeconds: 0.003}},
		"coredns": {{Queries: 1000, Wall: time.Second, Asked: 1000, Answered: 998, MachineSeconds: 0.041, SenderSeconds: 0.003, ProcessSeconds: 0.030}},
	}, Highest: map[string]bench.Highest{"nsd": {Rate: 5000, Limited: true}, "coredns": {Rate: 2000}}}
	r.SetOrder("sink", "nsd", "coredns")
	var b strings.Builder
	if err := r.Table(&b); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	for i, want := range []string{
		"sink 1000 - 0.00 (0.00 to 0.00) 0.000 0.000 0.00 (0.00 to 0.00) 0.000 0.000 0.00 -",
		"nsd 1000 99.900 % 8.00 (8.00 to 8.00) 0.200 1.000 4.00 (4.00 to 4.00) 0.125 1.000 3.00 over 5000 (generator)",
		"coredns 1000 99.800 % DOES NOT KEEP UP 40.00 (40.00 to 40.00) 1.000 5.000 32.00 (32.00 to 32.00) 1.000 8.000 30.00 2000",
	} {
		if got := strings.Join(strings.Fields(lines[len(lines)-3+i]), " "); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestKeepsUp(t *testing.T) {
	for _, tc := range []struct {
		r    bench.QueryResult
		want bool
	}{
		{bench.QueryResult{}, false},
		{bench.QueryResult{Asked: 1000, Answered: 999}, true},
		{bench.QueryResult{Asked: 1000, Answered: 998}, false},
		{bench.QueryResult{Asked: 1000, Answered: 1000, Wrong: 1}, false},
	} {
		if got := tc.r.KeepsUp(); got != tc.want {
			t.Errorf("%+v: %v, want %v", tc.r, got, tc.want)
		}
	}
}

// BenchmarkNames measures every server that is there: one iteration is one round through a fresh bed.
func BenchmarkNames(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	sluice, err := bench.Binary(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	names, err := bench.NewNames(1000)
	if err != nil {
		b.Fatal(err)
	}
	defer names.Close()
	for _, s := range append(bench.Limits(), bench.SluiceRun(sluice), bench.SluiceDNS(sluice), bench.NSD()) {
		b.Run("server="+s.Name, func(b *testing.B) {
			var queries, machine, tasks float64
			for b.Loop() {
				r, err := bench.AskOne(s, names, traffic.Pace{Rate: 20_000, Burst: 16}, window)
				if err != nil {
					b.Fatal(err)
				}
				queries += float64(r.Queries)
				machine += r.MachineSeconds
				tasks += r.ProcessSeconds + r.SenderSeconds
			}
			b.ReportMetric(machine/queries*1e6, "machine-µs/query")
			b.ReportMetric(tasks/queries*1e6, "server+generator-µs/query")
		})
	}
}
