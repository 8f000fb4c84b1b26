package topology

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// sliceCase is a case of testdata/slices.json: how Kubernetes v1.37 packs endpoints and gives hints.
type sliceCase struct {
	ID, Kind string
	Input    struct {
		Existing         []int
		Add, Max         int
		RemoveFromSecond int `json:"remove_from_second"`
		Pods             []struct{ Target, N int }
		Conditions       *struct{}
		Addresses        []string
		PortName         string             `json:"port_name"`
		CPUByZone        map[string]float64 `json:"cpu_by_zone"`
		ReadyEndpoints   int                `json:"ready_endpoints"`
		Nodes            []struct {
			Zone         string
			CPU          float64
			ControlPlane bool `json:"control_plane"`
		}
		Desired             map[string]float64
		Current             map[string]int
		TrafficDistribution string `json:"traffic_distribution"`
		Endpoints           []struct {
			Zone, Node string
			Ready      bool
		}
	}
	Expected struct {
		Sizes                       []int
		Updated, Created            *int
		Ready, Serving, Terminating *bool
		Used                        []string
		Hints                       any
		Allocation                  map[string][2]float64 `json:"allocation_min_desired"`
		Ratios                      map[string]float64
		Give, Receive               map[string]int
	}
}

func readCases(t *testing.T, kind string, want int) (out []sliceCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/slices.json")
	if err != nil {
		t.Fatal(err)
	}
	var all []sliceCase
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == kind {
			out = append(out, c)
		}
	}
	if len(out) != want {
		t.Fatalf("%d cases of kind %s, want %d", len(out), kind, want)
	}
	return out
}

func TestSliceCases(t *testing.T) {
	for _, c := range readCases(t, "slices", 10) {
		t.Run(c.ID, func(t *testing.T) {
			switch {
			case c.Input.Conditions != nil:
				c.conditions(t)
			case len(c.Input.Addresses) > 0:
				c.firstAddress(t)
			case c.Input.PortName != "":
				c.noPort(t)
			case len(c.Input.Pods) > 0:
				c.portGroups(t)
			default:
				c.pack(t)
			}
		})
	}
}

// numbered returns n endpoints, the first with the given number.
func numbered(first, n int) (out []*SliceEndpoint) {
	for i := range n {
		k := first + i
		out = append(out, &SliceEndpoint{Address: netip.AddrFrom4([4]byte{198, 18, byte(k >> 8), byte(k)}), Pod: fmt.Sprint("p", k), Ready: true, Serving: true})
	}
	return out
}

// clones copies endpoints: what is remembered and what is wanted are never the same values.
func clones(list []*SliceEndpoint) (out []*SliceEndpoint) {
	for _, e := range list {
		c := *e
		out = append(out, &c)
	}
	return out
}

func sizes(list []*pack) (out []int) {
	for _, p := range list {
		out = append(out, len(p.endpoints))
	}
	return out
}

// packs makes slices of the given sizes, whose endpoints are numbered on.
func packs(lens ...int) (out []*pack) {
	at := 0
	for i, n := range lens {
		out = append(out, &pack{name: fmt.Sprint("s", i), ports: "x", endpoints: numbered(at, n)})
		at += n
	}
	return out
}

// wanted returns the endpoints of slices, without some of the second one, and more.
func wanted(previous []*pack, dropFromSecond, add int) []group {
	var list []*SliceEndpoint
	for i, p := range previous {
		e := clones(p.endpoints)
		if i == 1 {
			e = e[dropFromSecond:]
		}
		list = append(list, e...)
	}
	list = append(list, numbered(5000, add)...)
	if len(list) == 0 {
		return nil
	}
	return []group{{"x", list}}
}

func (c *sliceCase) pack(t *testing.T) {
	previous := packs(c.Input.Existing...)
	limit := c.Input.Max
	if limit == 0 {
		limit = 100
	}
	p := reconcile(previous, wanted(previous, c.Input.RemoveFromSecond, c.Input.Add), limit, false)
	if c.Expected.Updated != nil && *c.Expected.Updated != len(p.update) || c.Expected.Created != nil && *c.Expected.Created != len(p.create) {
		t.Errorf("%d updated, %d created", len(p.update), len(p.create))
	}
	if got := sizes(p.finalize(previous, func(string) string { return "new" })); !slices.Equal(got, c.Expected.Sizes) {
		t.Errorf("sizes %v, want %v", got, c.Expected.Sizes)
	}
}

func (c *sliceCase) portGroups(t *testing.T) {
	in := input("10.96.0.0/16")
	in.Cluster.SliceSize = c.Input.Max
	addService(in, "s", func(s *ServiceInput) { selects(s); s.Ports[0].TargetPort = "http" })
	for i, group := range c.Input.Pods {
		for j := range group.N {
			addPod(in, fmt.Sprintf("p%d-%d", i, j), func(p *PodInput) { p.Ports = map[string]int{"http": group.Target} }, fmt.Sprintf("198.18.%d.%d", i, j+1))
		}
	}
	s := find(t, resolve(t, in), "s")
	var got []int
	for i, sl := range s.Slices {
		got = append(got, len(sl.Endpoints))
		if sl.Ports[""] != uint16(c.Input.Pods[i].Target) {
			t.Errorf("slice %d has ports %v", i, sl.Ports)
		}
		for _, e := range sl.Endpoints {
			if !reflect.DeepEqual(s.Endpoints[e].Ports, sl.Ports) {
				t.Errorf("endpoint %+v in a slice with ports %v", s.Endpoints[e], sl.Ports)
			}
		}
	}
	if !slices.Equal(got, c.Expected.Sizes) {
		t.Errorf("sizes %v, want %v", got, c.Expected.Sizes)
	}
}

// conditions compares an endpoint that says nothing of its conditions.
func (c *sliceCase) conditions(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) { s.Endpoints = []EndpointInput{endpoint("198.18.1.1", nil)} })
	e := find(t, resolve(t, in), "s").Endpoints[0]
	if e.Ready != *c.Expected.Ready || e.Serving != *c.Expected.Serving || e.Terminating != *c.Expected.Terminating {
		t.Errorf("%+v", e)
	}
}

// firstAddress gives a pod several addresses of a family, which is refused here: that the second is never used cannot surprise.
func (c *sliceCase) firstAddress(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", selects)
	addPod(in, "p", nil, c.Input.Addresses...)
	expectFaults(t, in, "pod[0].addresses[1]: the second IPv4 address")
	in.Pods[0].Addresses = c.Expected.Used
	if e := find(t, resolve(t, in), "s").Endpoints; len(e) != 1 || e[0].Address.String() != c.Expected.Used[0] {
		t.Errorf("%+v", e)
	}
}

func (c *sliceCase) noPort(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		selects(s)
		s.Ports[0].Name, s.Ports[0].TargetPort = c.Input.PortName, "nowhere"
	})
	addPod(in, "p", nil, "198.18.1.1")
	if s := find(t, resolve(t, in), "s"); len(s.Endpoints[0].Ports) != len(c.Expected.Used) || len(s.Slices[0].Ports) != 0 {
		t.Errorf("%+v", s)
	}
}

// TestPasses packs what the cases leave open.
func TestPasses(t *testing.T) {
	changed := func(p *pack) { p.endpoints[0].Ready = false }
	for _, c := range []struct {
		name       string
		before     []int
		touch      func([]*pack) // changes what is remembered
		drop, add  int
		limit      int
		relabelled bool
		sizes      []int
		update     int
		gone       int
	}{
		{"nothing changes", []int{3, 2}, nil, 0, 0, 10, false, []int{3, 2}, 0, 0},
		{"sparse slices are not merged", []int{1, 1, 1}, nil, 0, 0, 10, false, []int{1, 1, 1}, 0, 0},
		{"a changed endpoint stays where it is", []int{3, 2}, func(p []*pack) { changed(p[1]) }, 0, 0, 10, false, []int{3, 2}, 1, 0},
		{"a slice that is written takes the new ones", []int{9, 2}, func(p []*pack) { changed(p[1]) }, 0, 1, 10, false, []int{9, 3}, 1, 0},
		{"the fullest that is written first", []int{3, 6, 4}, func(p []*pack) { changed(p[0]); changed(p[1]); changed(p[2]) }, 0, 5, 10, false, []int{3, 10, 5}, 3, 0},
		{"then one that is not", []int{5, 9}, func(p []*pack) { changed(p[1]) }, 0, 4, 10, false, []int{8, 10}, 2, 0},
		{"full new ones first", []int{9}, nil, 0, 21, 10, false, []int{10, 10, 10}, 1, 0},
		{"as many as a slice holds are never fitted in", []int{0}, nil, 0, 10, 10, false, []int{0, 10}, 0, 0},
		{"new labels write all slices", []int{3, 6}, nil, 0, 2, 10, true, []int{3, 8}, 2, 0},
		{"a slice above a lower limit stays", []int{8}, nil, 0, 1, 5, false, []int{8, 1}, 0, 0},
		{"one to delete and a new one are an update", []int{10, 1}, func(p []*pack) { p[1].endpoints[0].Pod = "else" }, 0, 0, 10, false, []int{10, 1}, 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			previous := packs(c.before...)
			want := wanted(previous, c.drop, c.add)
			if c.touch != nil {
				c.touch(previous)
			}
			p := reconcile(previous, want, c.limit, c.relabelled)
			if len(p.update) != c.update || len(p.gone) != c.gone {
				t.Errorf("%d updated, %d to delete", len(p.update), len(p.gone))
			}
			after := p.finalize(previous, func(string) string { return "new" })
			if !slices.Equal(sizes(after), c.sizes) {
				t.Errorf("sizes %v, want %v", sizes(after), c.sizes)
			}
			for i := range previous {
				if i < len(after) && after[i].name != previous[i].name {
					t.Errorf("slice %d has the name %s", i, after[i].name)
				}
			}
			once(t, after, want)
		})
	}
}

// once checks that each wanted endpoint is in one slice.
func once(t *testing.T, got []*pack, want []group) {
	t.Helper()
	seen, n := map[*SliceEndpoint]bool{}, 0
	for _, p := range got {
		for _, e := range p.endpoints {
			if seen[e] {
				t.Errorf("%v is in two slices", e.Address)
			}
			seen[e] = true
		}
	}
	for _, g := range want {
		for _, e := range g.endpoints {
			if n++; !seen[e] {
				t.Errorf("%v is in no slice", e.Address)
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d endpoints in slices, want %d", len(seen), n)
	}
}

func TestPlaceholder(t *testing.T) {
	name := func(string) string { return "new" }
	first := reconcile(nil, nil, 100, false)
	list := first.finalize(nil, name)
	if len(list) != 1 || list[0].ports != "" || len(list[0].endpoints) != 0 {
		t.Fatalf("%+v", list)
	}
	again := reconcile(list, nil, 100, false)
	if len(again.unchanged) != 1 || len(again.create)+len(again.gone)+len(again.update) != 0 {
		t.Errorf("again: %+v", again)
	}
	filled := reconcile(list, []group{{"x", numbered(0, 3)}}, 100, false)
	if got := filled.finalize(list, name); len(got) != 1 || got[0].name != "new" || got[0].ports != "x" {
		t.Errorf("filled: %+v", got[0])
	}
	emptied := reconcile(packs(3, 4), nil, 100, false)
	if got := emptied.finalize(packs(3, 4), name); len(got) != 1 || got[0].name != "s0" || len(got[0].endpoints) != 0 {
		t.Errorf("emptied: %+v", got)
	}
}

// TestSlicesOfAService resolves dual-stack, empty and headless services.
func TestSlicesOfAService(t *testing.T) {
	text := func(s *Service) (out []string) {
		for _, l := range s.Slices {
			out = append(out, fmt.Sprintf("%s%v%v", l.Family, l.Ports, l.Endpoints))
		}
		return out
	}
	in := input("10.96.0.0/16", "fd00:96::/112")
	dual := func(s *ServiceInput) { selects(s); s.IPFamilyPolicy = "PreferDualStack" }
	addService(in, "dual", dual)
	addService(in, "empty", func(s *ServiceInput) { dual(s); s.Selector["app"] = "none" })
	addService(in, "headless", func(s *ServiceInput) { selects(s); s.ClusterIPs, s.Ports = []string{"None"}, nil })
	addService(in, "v6", func(s *ServiceInput) { selects(s); s.IPFamilies = []string{"IPv6"} })
	addService(in, "hand", func(s *ServiceInput) {
		s.Endpoints = []EndpointInput{endpoint("198.18.1.1", nil), endpoint("198.18.1.2", nil), endpoint("2001:db8:1::1", nil), endpoint("198.18.1.3", map[string]int{"": 81})}
		s.Endpoints[0].Ready = new(bool)
	})
	addService(in, "none", nil)
	addPod(in, "a", nil, "198.18.1.1", "2001:db8:1::1")
	addPod(in, "b", nil, "198.18.1.2")
	top := resolve(t, in)
	for name, want := range map[string][]string{
		"dual":     {"IPv4map[:80][0 2]", "IPv6map[:80][1]"},
		"empty":    {"IPv4map[][]", "IPv6map[][]"},
		"headless": {"IPv4map[][0 1]"},
		"v6":       {"IPv6map[:80][0]"},
		"hand":     {"IPv4map[:80][1 0]", "IPv4map[:81][3]", "IPv6map[:80][2]"}, // ready ones first
		"none":     nil,
	} {
		if got := text(find(t, top, name)); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	names := map[string]bool{}
	for i := range top.Services {
		s := &top.Services[i]
		for _, l := range s.Slices {
			suffix, ok := strings.CutPrefix(l.Name, s.Name+"-")
			if !ok || len(suffix) != 5 || names[l.Name] {
				t.Errorf("slice of %s: name %q", s.Name, l.Name)
			}
			names[l.Name] = true
		}
	}
}

// TestMirrorLimit lists more endpoints than Kubernetes mirrors: all serve, and one slice has the ready ones.
func TestMirrorLimit(t *testing.T) {
	in := input("10.96.0.0/16")
	addService(in, "s", func(s *ServiceInput) {
		for _, e := range numbered(0, 1200) {
			x := endpoint(e.Address.String(), nil)
			ready := len(s.Endpoints)%6 != 0 // 1000 of 1200
			x.Ready = &ready
			s.Endpoints = append(s.Endpoints, x)
		}
	})
	s := find(t, resolve(t, in), "s")
	if len(s.Endpoints) != 1200 || len(s.Slices) != 1 || len(s.Slices[0].Endpoints) != 1000 {
		t.Fatalf("%d endpoints, %d slices", len(s.Endpoints), len(s.Slices))
	}
	for _, i := range s.Slices[0].Endpoints {
		if !s.Endpoints[i].Ready {
			t.Errorf("%v is not ready", s.Endpoints[i].Address)
		}
	}
}

func TestMirrorChanges(t *testing.T) {
	name := func(string) string { return "new" }
	before := mirror(nil, []group{{"x", numbered(0, 3)}, {"y", numbered(9, 1)}}, false)
	list := before.finalize(nil, func(ports string) string { return "s-" + ports })
	same := mirror(list, []group{{"x", numbered(0, 3)}, {"y", numbered(9, 1)}}, false)
	if len(same.unchanged) != 2 || len(same.create)+len(same.update)+len(same.gone) != 0 {
		t.Errorf("unchanged: %+v", same)
	}
	more := mirror(list, []group{{"x", numbered(0, 150)}}, false)
	if len(more.update) != 1 || len(more.gone) != 1 || len(more.update[0].endpoints) != 150 {
		t.Errorf("more: %+v", more)
	}
	other := mirror(list, []group{{"x", numbered(0, 3)}, {"z", numbered(9, 1)}}, false)
	if got := other.finalize(list, name); len(got) != 2 || got[1].name != "s-y" || got[1].ports != "z" {
		t.Errorf("a new port list takes over the slice of the old one: %+v", got[1])
	}
	relabelled := mirror(list, []group{{"x", numbered(0, 3)}, {"y", numbered(9, 1)}}, true)
	if len(relabelled.update) != 2 {
		t.Errorf("relabelled: %+v", relabelled)
	}
}
