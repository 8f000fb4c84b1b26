package engine

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pin ties the calling thread to a processor.
func pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("sched_setaffinity: %w", err)
	}
	return nil
}

// processors returns for each of n workers a processor of its own among those that this process may use; -1 for all when
// there are not enough, since workers tied to one processor would only wait for each other.
func processors(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = -1
	}
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil || set.Count() < n {
		return out
	}
	for i, cpu := 0, 0; i < n; cpu++ {
		if set.IsSet(cpu) {
			out[i] = cpu
			i++
		}
	}
	return out
}
