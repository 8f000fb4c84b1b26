package health

import (
	"net/netip"
	"time"
)

// State is what is known of one target.
type State struct {
	Service   string         `json:"service"` // "namespace/name"
	Port      string         `json:"port"`    // name of the service port
	Address   netip.AddrPort `json:"address"`
	Up        bool           `json:"up"`
	Since     time.Time      `json:"since"`       // of the last change
	LastCheck time.Time      `json:"last_check"`  // zero before the first
	Reason    string         `json:"last_reason"` // what the last failure was, kept after the recovery; "" for none yet
	Successes uint64         `json:"successes"`
	Failures  uint64         `json:"failures"`
}

// tracker judges a target by the results of its checks.
type tracker struct {
	state State
	run   int // results in a row that speak against the state
}

// result takes in one result and reports whether the state has changed: it takes fall failures in a row to go down, and
// rise successes in a row to come back.
func (t *tracker) result(err error, now time.Time, rise, fall int) (changed bool) {
	t.state.LastCheck = now
	if err == nil {
		t.state.Successes++
	} else {
		t.state.Failures++
		t.state.Reason = err.Error()
	}
	if (err == nil) == t.state.Up {
		t.run = 0
		return false
	}
	t.run++
	need := fall
	if !t.state.Up {
		need = rise
	}
	if t.run < need {
		return false
	}
	t.state.Up, t.state.Since, t.run = !t.state.Up, now, 0
	return true
}
