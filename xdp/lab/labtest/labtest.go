// Package labtest has what tests need to work in a lab.
package labtest

import (
	"os"
	"testing"
)

// NeedRoot skips a test that builds network namespaces when it cannot. With SLUICE_REQUIRE_ROOT=1, as in CI, that is a
// failure: a test that skips there proves nothing.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	if os.Getenv("SLUICE_REQUIRE_ROOT") == "1" {
		t.Fatal("needs root, and SLUICE_REQUIRE_ROOT=1")
	}
	t.Skip("needs root")
}
