package xdp

import (
	"fmt"
	"testing"
)

func TestPlan(t *testing.T) {
	for _, tc := range []struct {
		name   string
		queues []int // of each interface
		want   string
	}{
		{"one interface", []int{1}, "[[{0 0}]]"},
		{"one queue each", []int{1, 1}, "[[{0 0} {1 0}]]"},
		{"two queues each", []int{2, 2}, "[[{0 0} {1 0}] [{0 1} {1 1}]]"},
		{"the fewest decide", []int{4, 2}, "[[{0 0} {0 2} {1 0}] [{0 1} {0 3} {1 1}]]"},
		{"not a multiple", []int{1, 3}, "[[{0 0} {1 0} {1 1} {1 2}]]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ifaces []Interface
			for _, q := range tc.queues {
				ifaces = append(ifaces, Interface{Queues: q})
			}
			if got := fmt.Sprint(plan(ifaces)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

func TestChunkSize(t *testing.T) {
	for _, tc := range []struct {
		name string
		mtus []int
		want int // 0: refused
	}{
		{"Ethernet", []int{1500, 1500}, 2048},
		{"largest for 2048: 2048-256-128-22", []int{1642}, 2048},
		{"one more", []int{1643}, 4096},
		{"one interface decides", []int{1500, 3000}, 4096},
		{"largest for 4096: 4096-256-128-22", []int{3690}, 4096},
		{"one more than that", []int{3691}, 0},
		{"jumbo", []int{1500, 9000}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var ifaces []Interface
			for _, mtu := range tc.mtus {
				ifaces = append(ifaces, Interface{Name: "eth0", MTU: mtu})
			}
			got, err := chunkSize(ifaces)
			if got != tc.want || (err == nil) != (tc.want != 0) {
				t.Errorf("got %d, %v, want %d", got, err, tc.want)
			}
		})
	}
}
