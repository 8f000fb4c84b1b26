package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"sluice/bench"
	"sluice/bench/traffic"
)

// runDNS compares name servers: what "sluice-bench dns" does.
func runDNS(args []string) (err error) {
	flags := flag.NewFlagSet("sluice-bench dns", flag.ContinueOnError)
	rounds := flags.Int("rounds", 5, "measurements of each server, taken in turn")
	window := flags.Duration("window", 4*time.Second, "length of one measurement")
	rate := flags.Int("rate", 20_000, "queries a second; each server has to keep up with it")
	burst := flags.Int("burst", 16, "queries at once")
	services := flags.Int("services", 1000, "services of the topology")
	highest := flags.Bool("highest", true, "look for the highest rate of each server as well")
	out := flags.String("out", "bench/results", "folder for the results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := scratch(*out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	servers, err := nameServers(dir)
	if err != nil {
		return err
	}
	names, err := bench.NewNames(*services)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, names.Close()) }()
	report, err := bench.CompareServers(bench.QueryOptions{
		Names: names, Servers: servers, Pace: traffic.Pace{Rate: *rate, Burst: *burst}, Rounds: *rounds, Window: *window, Highest: *highest,
		Progress: func(round int, server string, r bench.QueryResult) {
			fmt.Fprintf(os.Stderr, "round %d of %d  %-12s %8.0f queries/s  %6.2f µs machine  %6.2f µs server+generator  %6.2f µs process  %d of %d answered, %d wrong\n",
				round, *rounds, server, r.Rate(), r.MachineMicros(), r.TaskMicros(), r.ProcessMicros(), r.Answered, r.Asked, r.Wrong)
		},
	})
	if err != nil {
		return err
	}
	fmt.Println()
	if err := report.Table(os.Stdout); err != nil {
		return err
	}
	return writeAll(*out, map[string]func(io.Writer) error{"dns.txt": report.Table, "dns.json": report.JSON})
}

// nameServers returns what is compared, binaries built.
func nameServers(dir string) ([]bench.NameServer, error) {
	sluice, err := bench.Binary(dir)
	if err != nil {
		return nil, err
	}
	coreDNS, err := bench.CoreDNSBinary(true)
	if err != nil {
		return nil, err
	}
	return append(bench.Limits(), bench.SluiceRun(sluice), bench.SluiceDNS(sluice), bench.NSD(), bench.CoreDNS(coreDNS)), nil
}
