package reason_test

import (
	"regexp"
	"testing"

	"sluice/nat/reason"
)

func TestReasonsAreDescribed(t *testing.T) {
	code := regexp.MustCompile(`^[a-z]+(_[a-z0-9]+)*$`)
	seen, count := map[string]reason.Reason{}, 0
	for r := range reason.All() {
		count++
		if r.String() == reason.Unknown.String() || r.Text() == reason.Unknown.Text() || r.Text() == "" {
			t.Errorf("reason %d has no description", r)
		}
		if !code.MatchString(r.String()) {
			t.Errorf("code %q: must be lower-case words joined by underscores", r)
		}
		if other, twice := seen[r.String()]; twice {
			t.Errorf("reasons %d and %d share the code %q", r, other, r)
		}
		seen[r.String()] = r
	}
	if want := reason.Count - 1; count != want {
		t.Errorf("All yields %d reasons, want %d", count, want)
	}
}

func TestUnknown(t *testing.T) {
	for _, r := range []reason.Reason{reason.Unknown, reason.Reason(reason.Count), 255} {
		if r.String() != "unknown" {
			t.Errorf("reason %d is called %q, want unknown", r, r)
		}
	}
}

func TestAllStops(t *testing.T) {
	for r := range reason.All() {
		if r != reason.Established {
			t.Fatalf("first reason %v, want established", r)
		}
		break
	}
}
