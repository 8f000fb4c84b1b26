package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/zone"
)

// compileZones compiles the zones of a topology. The serial is the time of compilation, as with CoreDNS.
func compileZones(t *topology.Topology) (*zone.Zones, error) {
	return zone.Compile(t, uint32(time.Now().Unix()))
}

func newDig() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dig -c FILE|DIR NAME [TYPE]",
		Short: "Print the answer of the compiled zones, offline",
		Args:  cobra.RangeArgs(1, 2),
		RunE: action(func(cmd *cobra.Command, args []string) error {
			qtype := "A"
			if len(args) == 2 {
				qtype = args[1]
			}
			t, err := config.Load(path)
			if err != nil {
				return err
			}
			zones, err := compileZones(t)
			if err != nil {
				return err
			}
			result, err := dns.Lookup(zones, args[0], qtype)
			if err != nil {
				return usagef("%v", err)
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
			}
			return printAnswer(cmd.OutOrStdout(), result)
		}),
	}
	configFlag(cmd, &path)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// printAnswer prints a reply in the manner of dig.
func printAnswer(w io.Writer, r *dns.Result) error {
	flags := ""
	if r.AA {
		flags += " aa"
	}
	if r.TC {
		flags += " tc"
	}
	if _, err := fmt.Fprintf(w, ";; %s, flags:%s\n", r.RCode, flags); err != nil {
		return err
	}
	for _, section := range []struct {
		name    string
		records []string
	}{{"ANSWER", r.Answer}, {"AUTHORITY", r.Authority}, {"ADDITIONAL", r.Additional}} {
		if len(section.records) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n;; %s\n", section.name); err != nil {
			return err
		}
		for _, line := range section.records {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}
