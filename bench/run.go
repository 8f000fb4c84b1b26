package bench

import (
	"errors"
	"fmt"
	"time"
)

// Options of a comparison.
type Options struct {
	Load       Load
	Rounds     int
	Window     time.Duration // measured part of a round
	Contenders []Contender
	Progress   func(round int, contender string, r Result) // may be nil
}

// Compare measures every contender once a round, in turn, so that a machine whose speed drifts does so for all of them.
// Each measurement has a bed of its own: nothing of the one before is left.
func Compare(o Options) (*Report, error) {
	report := NewReport(o.Load, o.Contenders)
	for round := range o.Rounds {
		for _, c := range o.Contenders {
			r, err := One(c, o.Load, o.Window)
			if err != nil {
				return nil, fmt.Errorf("%s, round %d: %w", c.Name, round+1, err)
			}
			report.Add(c.Name, r)
			if o.Progress != nil {
				o.Progress(round+1, c.Name, r)
			}
		}
	}
	return report, nil
}

// One measures one contender once.
func One(c Contender, load Load, window time.Duration) (r Result, err error) {
	b, err := NewBed(1)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	counted, stop, err := c.Start(b)
	if err != nil {
		return r, err
	}
	r, err = b.Measure(load, c.Dst, window, counted)
	return r, errors.Join(err, stop())
}
