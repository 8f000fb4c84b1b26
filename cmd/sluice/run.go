package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/config"
	"sluice/config/topology"
	"sluice/engine"
)

// fileSource is the topology in a file or a directory. It keeps what services were allocated from one topology to the next, and
// in gateway.state_file over restarts.
type fileSource struct {
	path string
	log  *slog.Logger

	mu       sync.Mutex
	accepted *topology.State    // of the topology in use; nil: of none yet
	topology *topology.Topology // that was loaded last
	state    *topology.State    // of topology
}

// Load implements control.Source.
func (f *fileSource) Load(context.Context) (*topology.Topology, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	t, state, err := config.LoadFrom(f.path, f.accepted, func(err error) { f.log.Error(err.Error()) })
	if err != nil {
		return nil, err
	}
	f.topology, f.state = t, state
	return t, nil
}

// Accepted implements control.Keeper.
func (f *fileSource) Accepted(t *topology.Topology) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t != f.topology {
		return nil // another has been loaded since
	}
	f.accepted = f.state
	if t.Gateway.StateFile == "" {
		return nil
	}
	return config.WriteState(t.Gateway.StateFile, f.state)
}

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
			source := &fileSource{path: path, log: log}
			return engine.Run(cmd.Context(), engine.Options{Source: source, Log: log, Reload: reload, Version: version})
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "log more")
	return cmd
}
