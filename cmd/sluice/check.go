package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/topology"
)

func newCheck() *cobra.Command {
	var path, statePath string
	var asJSON, asSlices bool
	cmd := &cobra.Command{
		Use:   "check -c FILE|DIR",
		Short: "Validate a topology and print what it resolves to, or every fault",
		Long: "Check prints one line for each service: its addresses, its ports as port:node_port/protocol, and how many of its\n" +
			"endpoints are ready. Of a topology with faults it prints each as file:line: key: what is\n" +
			"wrong, and exits with 1. What a topology gets without asking for it is what it gets without anything remembered,\n" +
			"unless --state names the file that \"run\" keeps. Check never writes it.",
		Example: "  sluice check -c web.toml\n  sluice check -c /etc/sluice --json\n" +
			"  sluice check -c web.toml --state /var/lib/sluice/allocations.json --slices",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			previous, err := readState(cmd.ErrOrStderr(), statePath)
			if err != nil {
				return err
			}
			t, err := config.LoadAfter(path, previous)
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			report, print := config.NewReport(t, faults), (*config.Report).Text
			if asSlices {
				print = (*config.Report).SlicesText
			}
			if asJSON { // which has the slices anyway
				print = (*config.Report).JSON
			}
			if err := print(report, cmd.OutOrStdout()); err != nil {
				return err
			}
			if !report.OK {
				return &failure{} // the faults have been printed
			}
			return nil
		}),
	}
	configFlag(cmd, &path)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().BoolVar(&asSlices, "slices", false, "print the EndpointSlices and topology hints of each service")
	cmd.Flags().StringVar(&statePath, "state", "", "state file from which services keep what they had")
	return cmd
}

// readState reads the state file at path, "" for none. One that cannot be used is no reason not to check, and is said on w.
func readState(w io.Writer, path string) (*topology.State, error) {
	if path == "" {
		return nil, nil
	}
	state, err := config.ReadState(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		fmt.Fprintf(w, "sluice: %v\n", err)
	}
	return state, nil
}
