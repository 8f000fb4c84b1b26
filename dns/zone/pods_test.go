package zone

import (
	"net/netip"
	"strings"
	"testing"
)

// undashedSlowly is undashed by the parser of the standard library, which knows more forms: a scope, and IPv4 inside IPv6.
func undashedSlowly(label string) (netip.Addr, bool) {
	if strings.ContainsAny(label, ".:%") {
		return netip.Addr{}, false
	}
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", "."))
		return a, err == nil
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", ":"))
	return a, err == nil
}

// podLabels are labels, good ones and bad ones.
func podLabels() []string {
	return []string{"10-0-0-1", "0-0-0-0", "255-255-255-255", "256-0-0-1", "10-0-0-01", "10-0-0-00", "10-0-0", "10-0-0-1-2", "10-0--1", "-10-0-0", "10-0-0-",
		"10-0-0-1234", "a-b-c-d", "--", "--1", "1--", "1--0", "-1", "1-", "---", "--1--", "1--2--3", "1-2-3-4-5-6-7-8", "1-2-3-4-5-6-7-8-9", "1-2-3-4-5-6-7",
		"1-2-3-4-5-6-7--", "--2-3-4-5-6-7-8", "1--3-4-5-6-7-8", "1-2-3-4--5-6-7-8", "fd42-172-24--9", "FD42--B", "fd42--g", "12345--1", "fd42-172-24-5-6-7--0",
		"1--10-0-0-1", "blah", "1", "", "fe80--1%eth0", "ffff-ffff-ffff-ffff-ffff-ffff-ffff-ffff", "--ffff-a00-1"}
}

func TestUndashed(t *testing.T) {
	good := 0
	for _, l := range podLabels() {
		l = strings.ToLower(l) // as names of questions are
		got, ok := undashed([]byte(l))
		want, wantOK := undashedSlowly(l)
		if ok != wantOK || got != want {
			t.Errorf("%q: %v %v, want %v %v", l, got, ok, want, wantOK)
		}
		if ok {
			good++
		}
		if again, same := undashed([]byte(dashed(got))); ok && !got.Is4In6() && (!same || again != got) {
			t.Errorf("%q: %v comes back as %v", l, got, again)
		}
	}
	if good < 15 {
		t.Errorf("%d good labels only", good)
	}
}

func FuzzUndashed(f *testing.F) {
	for _, l := range podLabels() {
		f.Add(l)
	}
	f.Fuzz(func(t *testing.T, l string) {
		l = strings.ToLower(l) // as names of questions are
		got, ok := undashed([]byte(l))
		if want, wantOK := undashedSlowly(l); ok != wantOK || got != want {
			t.Errorf("%q: %v %v, want %v %v", l, got, ok, want, wantOK)
		}
	})
}
