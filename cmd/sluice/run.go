package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/config/topology"
	"sluice/engine"
)

// fileSource is the topology in a file or a directory.
type fileSource string

// Load implements control.Source.
func (f fileSource) Load(context.Context) (*topology.Topology, error) { return config.Load(string(f)) }

func newRun() *cobra.Command {
	var path string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "run -c FILE|DIR",
		Short: "Run the appliance (root)",
		Long: "Run attaches to gateway.interfaces and serves the topology until SIGINT or SIGTERM. The XDP programs end with the\n" +
			"process, whatever ends it. Packets of the gateway's own processes to service addresses do not pass XDP and are not\n" +
			"translated yet.",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			return engine.Run(cmd.Context(), engine.Options{Source: fileSource(path), Log: log})
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
