// Command sluice-bench compares Sluice with what else can carry a datagram through a gateway, side by side in one run, and
// writes the result as a table, as JSON and in the format that benchstat reads. "sluice-bench dns" does so with other DNS servers. "make
// bench" runs both.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sluice/bench"
)

func main() {
	if err := command(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sluice-bench:", err)
		os.Exit(1)
	}
}

// command picks the comparison.
func command(args []string) error {
	if os.Geteuid() != 0 {
		return errors.New("the contenders run in network namespaces: run as root")
	}
	if len(args) > 0 && args[0] == "dns" {
		return runDNS(args[1:])
	}
	return runForward(args)
}

// scratch makes the folder for results, and returns a new one for what is built.
func scratch(out string) (dir string, err error) {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", err
	}
	return os.MkdirTemp("", "sluice-bench-")
}

// runForward compares ways through a gateway.
func runForward(args []string) (err error) {
	flags := flag.NewFlagSet("sluice-bench", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "measurements of each contender, taken in turn")
	window := flags.Duration("window", 2*time.Second, "length of one measurement")
	flows := flags.Int("flows", 1<<16, "flows, a power of two")
	size := flags.Int("size", 60, "bytes of an Ethernet frame without its checksum")
	out := flags.String("out", "bench/results", "folder for the results")
	micro := flags.Bool("micro", true, "run the micro benchmarks of the packages first")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := scratch(*out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if *micro {
		if err := runMicro(filepath.Join(*out, "micro.txt")); err != nil {
			return err
		}
	}
	binary, err := bench.Binary(dir)
	if err != nil {
		return err
	}
	report, err := bench.Compare(bench.Options{
		Load: bench.Load{Flows: *flows, Size: *size}, Rounds: *rounds, Window: *window, Contenders: bench.All(binary),
		Progress: func(round int, c string, r bench.Result) {
			fmt.Fprintf(os.Stderr, "round %d of %d  %-24s %8.3f Mpps\n", round, *rounds, c, r.PPS()/1e6)
		},
	})
	if err != nil {
		return err
	}
	return write(*out, report)
}

// runMicro runs the benchmarks of the hot functions; the contenders, which are benchmarks too, run in turn later.
func runMicro(path string) error {
	packages := []string{"./xdp/packet", "./conntrack", "./nat/...", "./dns/...", "./engine", "./bench"}
	cmd := exec.Command("go", append([]string{"test", "-run", "^$", "-bench", ".", "-skip", "^BenchmarkForward$", "-benchmem", "-benchtime", "200ms"}, packages...)...)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(os.Stdout, f), os.Stderr
	return errors.Join(cmd.Run(), f.Close())
}

// write prints the table and leaves all three forms in the folder.
func write(dir string, report *bench.Report) error {
	const base = "afxdp-forward-native"
	fmt.Println()
	if err := report.Table(os.Stdout, base); err != nil {
		return err
	}
	return writeAll(dir, map[string]func(io.Writer) error{
		"forward.txt":       func(w io.Writer) error { return report.Table(w, base) },
		"forward.json":      report.JSON,
		"forward.benchstat": report.Benchstat,
	})
}

// writeAll writes files into a folder.
func writeAll(dir string, files map[string]func(io.Writer) error) error {
	for name, write := range files {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			return err
		}
	}
	return nil
}
