package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
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
	only := flags.String("only", "", "measure only these servers beside the sink, such as sluice-run,nsd; all by default")
	out := flags.String("out", "bench/results", "folder for the results")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir, err := scratch(*out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	servers, err := nameServers(dir, *only)
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

// nameServers returns what is compared: the sink, and all servers or those that only names. It builds what these need.
func nameServers(dir, only string) (servers []bench.NameServer, err error) {
	limits := bench.Limits()
	all := map[string]func() (bench.NameServer, error){
		limits[1].Name: func() (bench.NameServer, error) { return limits[1], nil },
		"nsd":          func() (bench.NameServer, error) { return bench.NSD(), nil },
		"coredns": func() (bench.NameServer, error) {
			binary, err := bench.CoreDNSBinary(true)
			return bench.CoreDNS(binary), err
		},
	}
	sluice := sync.OnceValues(func() (string, error) { return bench.Binary(dir) })
	for name, server := range map[string]func(string) bench.NameServer{"sluice-run": bench.SluiceRun, "sluice-dns": bench.SluiceDNS} {
		all[name] = func() (bench.NameServer, error) {
			binary, err := sluice()
			return server(binary), err
		}
	}
	names := []string{limits[1].Name, "sluice-run", "sluice-dns", "nsd", "coredns"}
	if only != "" {
		names = strings.Split(only, ",")
	}
	servers = limits[:1]
	for _, name := range names {
		server, ok := all[name]
		if !ok {
			return nil, fmt.Errorf("-only: no server %q", name)
		}
		s, err := server()
		if err != nil {
			return nil, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}
