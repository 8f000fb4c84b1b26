package lab_test

import (
	"bytes"
	"context"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

func TestProcessRunsInItsHost(t *testing.T) {
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	h, err := l.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Addr("lo", "198.18.7.7/32"); err != nil {
		t.Fatal(err)
	}
	out, err := h.Output(context.Background(), "ip", "-4", "address")
	if err != nil || !strings.Contains(string(out), "198.18.7.7/32") || strings.Contains(string(out), "eth0") {
		t.Fatalf("ip address in the host: %v\n%s", err, out)
	}
}

func TestProcessStops(t *testing.T) {
	labtest.NeedRoot(t)
	l := lab.New()
	t.Cleanup(func() { l.Close() })
	h, err := l.Host("a")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, script string
		want         string // in the error, "" for none
	}{
		{"at once", "trap 'exit 0' TERM; echo up; while :; do sleep 0.02; done", ""},
		{"killed", "trap '' TERM; echo up; while :; do sleep 0.02; done", "killed after"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p, err := h.Start(&out, "sh", "-c", tc.script)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // for the trap to be set
			err = p.Stop(300 * time.Millisecond)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("Stop: %v, want %q", err, tc.want)
			}
			if out.String() != "up\n" {
				t.Errorf("output %q", out.String())
			}
			if err := p.Signal(syscall.SIGTERM); err != nil {
				t.Errorf("signal after the end: %v", err)
			}
		})
	}
	if _, err := h.Start(nil, "/nonexistent"); err == nil {
		t.Error("no error for a program that does not exist")
	}
}
