package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

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
			"process, whatever ends it. SIGHUP reads the topology again; with a fault in it, or a change to a key that is\n" +
			"read at the start only, the one from before stays in use. Packets of the gateway's own processes to service addresses\n" +
			"do not pass XDP and are not translated yet.",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
			reload := make(chan os.Signal, 1) // one that comes during a reload asks for one more
			signal.Notify(reload, unix.SIGHUP)
			defer signal.Stop(reload)
			return engine.Run(cmd.Context(), engine.Options{Source: fileSource(path), Log: log, Reload: reload})
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
