package main

import (
	"errors"

	"github.com/spf13/cobra"

	"sluice/config"
)

func newCheck() *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check -c FILE|DIR",
		Short: "Validate a topology and print what it resolves to, or every fault",
		Long: "Check prints one line for each service: its addresses, its ports as port:node_port/protocol, how many of its\n" +
			"endpoints are ready, and what of its policies, affinity and health check port is not as by default. Of a topology with faults it prints each as file:line: key: what is\n" +
			"wrong, and exits with 1.",
		Example: "  sluice check -c web.toml\n  sluice check -c /etc/sluice --json",
		Args:    noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			t, err := config.Load(path)
			var faults config.Faults
			if err != nil && !errors.As(err, &faults) {
				return err
			}
			report, print := config.NewReport(t, faults), (*config.Report).Text
			if asJSON {
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
	return cmd
}
