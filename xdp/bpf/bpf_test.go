package bpf_test

import (
	"testing"

	"sluice/xdp/bpf"
)

func TestSpec(t *testing.T) {
	spec, err := bpf.LoadClassify()
	if err != nil {
		t.Fatal(err)
	}
	prog := spec.Programs[bpf.ClassifyProgSluiceClassify]
	if prog == nil || prog.License != "Dual BSD/GPL" {
		t.Errorf("program %+v: want sluice_classify under Dual BSD/GPL", prog)
	}
	for name, keySize := range map[string]uint32{
		bpf.ClassifyMapAddresses: 16, bpf.ClassifyMapRanges: 20, bpf.ClassifyMapNodeports: 4, bpf.ClassifyMapBackends: 20,
	} {
		if m := spec.Maps[name]; m == nil || m.KeySize != keySize {
			t.Errorf("map %s: %+v, want a key of %d bytes", name, m, keySize)
		}
	}
}
