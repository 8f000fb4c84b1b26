package main

import (
	"errors"

	"github.com/spf13/cobra"

	"sluice/config"
)

func newCheck() *cobra.Command {
	var path, statePath string
	var asJSON, asSlices bool
	cmd := &cobra.Command{
		Use:   "check -c FILE|DIR",
		Short: "Validate a topology and print what it resolves to, or every fault",
		Long: "Check prints one line for each service: its addresses, its ports as port:node_port/protocol, how many of its\n" +
			"endpoints are ready, and what of its policies, affinity and health check port is not as by default. Of a topology\n" +
			"with faults it prints each as file:line: key: what is wrong, and exits with 1. What a topology gets without asking\n" +
			"for it is what it gets without anything remembered, unless --state names the file that \"run\" keeps. Check never\n" +
			"writes it.",
		Example: "  sluice check -c web.toml\n  sluice check -c /etc/sluice --json\n" +
			"  sluice check -c web.toml --state /var/lib/sluice/allocations.json --slices",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			t, err := loadAfter(cmd, path, statePath)
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
	stateFlag(cmd, &statePath)
	return cmd
}
