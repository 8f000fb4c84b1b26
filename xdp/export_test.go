package xdp

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf/rlimit"

	"sluice/xdp/bpf"
)

// Classifier is the loaded XDP program with no socket on its one queue, for test runs.
type Classifier struct {
	rules *ruleMaps
	prog  *program
}

// NewClassifier loads the program with rules.
func NewClassifier(t testing.TB, r *Rules) *Classifier {
	t.Helper()
	if err := rlimit.RemoveMemlock(); err != nil {
		t.Fatal(err)
	}
	spec, err := bpf.LoadClassify()
	if err != nil {
		t.Fatal(err)
	}
	c := &Classifier{}
	if c.rules, err = newRuleMaps(spec, r); err != nil {
		t.Fatal(err)
	}
	if c.prog, err = loadProgram(c.rules, 1); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.prog.close(), c.rules.close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// Ours runs the program on a frame: without a socket it drops what is ours.
func (c *Classifier) Ours(t testing.TB, frame []byte) bool {
	t.Helper()
	const drop, pass = 1, 2
	verdict, out, err := c.prog.objects.SluiceClassify.Test(frame)
	if err != nil {
		t.Fatal(err)
	}
	if string(out) != string(frame) {
		t.Fatalf("the program changed the frame:\n%x\n%x", frame, out)
	}
	if verdict != drop && verdict != pass {
		t.Fatalf("verdict %d", verdict)
	}
	return verdict == drop
}

// Time returns how long the program takes for a frame, over many runs.
func (c *Classifier) Time(t testing.TB, frame []byte, runs int) time.Duration {
	t.Helper()
	_, each, err := c.prog.objects.SluiceClassify.Benchmark(frame, runs, nil)
	if err != nil {
		t.Fatal(err)
	}
	return each
}

// SetRules is that of Attachment.
func (c *Classifier) SetRules(r *Rules) error { return c.rules.replace(r) }

// Entries returns how many entries the rule maps hold, the SNAT ports not counted.
func (c *Classifier) Entries(t testing.TB) int {
	t.Helper()
	n := 0
	for name, m := range c.rules.byName {
		if name == bpf.ClassifyMapSnat {
			continue
		}
		var k, v []byte
		it := m.Iterate()
		for it.Next(&k, &v) {
			n++
		}
		if err := it.Err(); err != nil {
			t.Fatal(err)
		}
	}
	return n
}
