package bench

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// userHz is the unit of times in /proc: ticks of 10 ms.
const userHz = 100

// idleSeconds is the time that all processors together have been idle, waiting for a disk, or taken away by the host, and how
// many processors there are. A kernel without ticks when idle (NO_HZ) reads a clock for it, whereas it guesses busy time by what a
// tick meets.
func idleSeconds() (idle float64, processors int, err error) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			break
		}
		if f[0] != "cpu" { // the sum of all
			processors++
			continue
		}
		for _, i := range []int{4, 5, 8} {
			ticks, err := strconv.ParseFloat(f[i], 64)
			if err != nil {
				return 0, 0, fmt.Errorf("/proc/stat: %w", err)
			}
			idle += ticks / userHz
		}
	}
	if processors == 0 {
		return 0, 0, errors.New("/proc/stat names no processor")
	}
	return idle, processors, nil
}

// ownSeconds is the time that this process has run, all threads, for itself and in the kernel.
func ownSeconds() (float64, error) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, fmt.Errorf("getrusage: %w", err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9, nil
}

// processSeconds is the time that a process and those below it have run, all threads, for themselves and in the kernel.
func processSeconds(pid int) (float64, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	seconds, parents := map[int]float64{}, map[int]int{}
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil {
			continue // no process
		}
		parent, s, err := processStat(id)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // ended meanwhile
		}
		if err != nil {
			return 0, err
		}
		parents[id], seconds[id] = parent, s
	}
	sum := 0.0
	for id, s := range seconds {
		for above := id; above != 0; above = parents[above] {
			if above == pid {
				sum += s
				break
			}
		}
	}
	return sum, nil
}

// processStat reads the parent of a process and the time that it has run (proc(5), fields 4, 14 and 15).
func processStat(pid int) (parent int, seconds float64, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:]) // starts with field 3
	if len(f) < 13 {
		return 0, 0, fmt.Errorf("/proc/%d/stat is %q", pid, s)
	}
	parent, err = strconv.Atoi(f[1])
	for _, field := range f[11:13] {
		ticks, err2 := strconv.ParseFloat(field, 64)
		err = errors.Join(err, err2)
		seconds += ticks / userHz
	}
	return parent, seconds, err
}
