package zone

import (
	"bytes"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"sluice/config/topology"
)

// contents returns the records of a store by name.
func contents(z *Zones) map[string]string {
	out := map[string]string{}
	for r := range z.store.all() {
		out[string(r.name())] = string(r)
	}
	return out
}

// TestUpdateIsCompile follows topologies through random changes. After each of them the zones must be, byte by byte, what compiling the
// topology from scratch makes of it; and the serial must have moved if and only if a query can tell the difference.
func TestUpdateIsCompile(t *testing.T) {
	const worlds, edits = 60, 100
	updates := 0
	for seed := range uint64(worlds) {
		w := newWorld(seed)
		z, err := Compile(w.top, 1)
		if err != nil {
			t.Fatal(err)
		}
		for i := range edits {
			w.edit()
			if u, _ := z.update(w.top); u != nil {
				updates++
			}
			next, err := Next(w.top, z, time.Unix(int64(2+i), 0))
			if err != nil {
				t.Fatal(err)
			}
			scratch, err := Compile(w.top, next.serial)
			if err != nil {
				t.Fatal(err)
			}
			if !identical(t, next, scratch) {
				t.Fatalf("world %d, change %d", seed, i)
			}
			if moved := next.serial != z.serial; moved == scratch.withSerial(z.serial).same(z) {
				t.Fatalf("world %d, change %d: the serial has moved: %v", seed, i, moved)
			}
			z = next
		}
	}
	if updates < worlds*edits*9/10 {
		t.Errorf("%d of %d were updates", updates, worlds*edits)
	}
}

// identical reports whether both have the same records, and says what differs.
func identical(t *testing.T, got, want *Zones) bool {
	t.Helper()
	a, b := contents(got), contents(want)
	ok := got.store.names == len(a) && got.below == want.below && maps.EqualFunc(got.chaos, want.chaos, sameAnswer) &&
		slices.Equal(got.Apexes(), want.Apexes()) && slices.Equal(got.depths, want.depths)
	if !ok {
		t.Errorf("%d names, counted as %d; %+v, want %+v", len(a), got.store.names, got.depths, want.depths)
	}
	ok = ok && maps.Equal(paths(got), paths(want))
	for i := range want.zones {
		ok = ok && bytes.Equal(got.zones[i].soa.record, want.zones[i].soa.record)
	}
	for text, r := range b {
		if a[text] != r {
			t.Errorf("%s:\n got  %q\n want %q", dotted(text), a[text], r)
			ok = false
		}
		delete(a, text)
	}
	for text := range a {
		t.Errorf("%s is there", dotted(text))
		ok = false
	}
	return ok
}

// paths returns the first element of the search path of each address that has one.
func paths(z *Zones) map[[16]byte]string {
	if z.search == nil {
		return nil
	}
	out := map[[16]byte]string{}
	for _, s := range z.search.first.slots {
		if s.number > 0 {
			out[s.addr] = z.search.elements[s.number]
		}
	}
	return out
}

// TestUpdateShares holds a change of one endpoint to the shards of its names, in zones that others still read.
func TestUpdateShares(t *testing.T) {
	before := large(20_000, 1000)
	z, err := Compile(before, 1)
	if err != nil {
		t.Fatal(err)
	}
	was := contents(z)
	next, err := Next(moved(before), z, time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	for i := range z.store.shards {
		if &z.store.shards[i].data[0] != &next.store.shards[i].data[0] {
			written++
		}
	}
	// The endpoint that goes and the one that comes with their PTR records and what is above these; the service, and its port.
	if names := 8; written == 0 || written > names {
		t.Errorf("%d of %d shards are written", written, len(z.store.shards))
	}
	if next.serial != 5 || z.serial != 1 || !maps.Equal(was, contents(z)) {
		t.Errorf("serials %d and %d", z.serial, next.serial)
	}
	again, err := Next(moved(before), next, time.Unix(6, 0))
	if err != nil || again.serial != 5 || &again.store.shards[0].data[0] != &next.store.shards[0].data[0] {
		t.Errorf("without a change: serial %d, %v", again.serial, err)
	}
}

// TestUpdateGrows lets the number of names grow beyond what the shards are for, and fall again.
func TestUpdateGrows(t *testing.T) {
	top := large(400, 20)
	z, err := Compile(top, 1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		if n >= 30 {
			n = 59 - n
		}
		next := *top
		next.Services = slices.Clone(top.Services)
		for i := range n {
			s := topology.Service{Namespace: "z", Name: fmt.Sprintf("big-%03d", i), Headless: true}
			for j := range 100 {
				s.Endpoints = append(s.Endpoints, topology.Endpoint{Address: netip.AddrFrom4([4]byte{172, 16, byte(i), byte(j)}), Ready: true})
			}
			next.Services = append(next.Services, s)
		}
		if u, _ := z.update(&next); u == nil {
			t.Fatalf("%d: everything is compiled", n)
		}
		if z, err = Next(&next, z, time.Unix(int64(n), 0)); err != nil {
			t.Fatal(err)
		}
		scratch, err := Compile(&next, z.serial)
		if err != nil || !identical(t, z, scratch) {
			t.Fatal(n, err)
		}
		if !z.store.fits() {
			t.Errorf("%d names in %d shards", z.store.names, len(z.store.shards))
		}
	}
}
