package bench

import (
	"fmt"
	"time"

	"sluice/bench/traffic"
)

// QueryOptions are those of a comparison of name servers.
type QueryOptions struct {
	Names    *Names
	Servers  []NameServer // Limits first
	Pace     traffic.Pace
	Rounds   int
	Window   time.Duration                                 // measured part of a round
	Highest  bool                                          // look for the highest rate of each as well
	Progress func(round int, server string, r QueryResult) // may be nil
}

// CompareServers measures every server once a round, in turn, at the same rate, as Compare does for ways through a gateway.
func CompareServers(o QueryOptions) (*QueryReport, error) {
	report := newQueryReport(o)
	for round := range o.Rounds {
		for _, s := range o.Servers {
			r, err := AskOne(s, o.Names, o.Pace, o.Window)
			if err != nil {
				return nil, fmt.Errorf("round %d: %w", round+1, err)
			}
			report.Rounds[s.Name] = append(report.Rounds[s.Name], r)
			if o.Progress != nil {
				o.Progress(round+1, s.Name, r)
			}
		}
	}
	if !o.Highest {
		return report, nil
	}
	for _, s := range o.Servers {
		if s.Name == nameSink {
			continue
		}
		rate, err := highest(s, o.Names, o.Pace)
		if err != nil {
			return nil, fmt.Errorf("highest rate: %w", err)
		}
		report.Highest[s.Name] = rate
	}
	return report, nil
}

// The search for the highest rate: up in steps until a server does not keep up, and from there by halves.
const (
	highestSteps  = 8
	highestStep   = 1.5
	highestHalves = 3
	highestWindow = 500 * time.Millisecond
)

// Highest is the highest rate, in queries a second, at which a server was seen to keep up; 0: at none. With Limited the generator
// reached its own end first.
type Highest struct {
	Rate    float64
	Limited bool
}

// highest looks for the highest rate from that of pace upwards.
func highest(s NameServer, n *Names, pace traffic.Pace) (best Highest, err error) {
	err = onBed(s, n, func(a *asker) error {
		try := func(rate float64) (keepsUp bool, err error) {
			r, err := a.measure(traffic.Pace{Rate: int(rate), Burst: pace.Burst}, highestWindow)
			if err != nil || !r.KeepsUp() {
				return false, err
			}
			best = Highest{Rate: max(best.Rate, r.Rate()), Limited: r.Rate() < 0.95*rate}
			return !best.Limited, nil
		}
		good, bad := 0.0, float64(pace.Rate)
		for range highestSteps {
			ok, err := try(bad)
			if err != nil || best.Limited {
				return err
			}
			if !ok {
				break
			}
			good, bad = bad, bad*highestStep
		}
		for range highestHalves {
			middle := (good + bad) / 2
			ok, err := try(middle)
			if err != nil || best.Limited {
				return err
			}
			if ok {
				good = middle
			} else {
				bad = middle
			}
		}
		return nil
	})
	return best, err
}
