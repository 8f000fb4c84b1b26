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

// stateFlag adds --state, which the commands have that only look at a topology.
func stateFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "state", "", "state file of a gateway, from which services keep what they have there; it is read only")
}

// loadAfter loads a topology whose services keep what they have in the state file at statePath, "" for none.
func loadAfter(cmd *cobra.Command, path, statePath string) (*topology.Topology, error) {
	previous, err := readState(cmd.ErrOrStderr(), statePath)
	if err != nil {
		return nil, err
	}
	return config.LoadAfter(path, previous)
}

// readState reads the state file at path, "" for none. One that cannot be used is no reason to say nothing of the topology: why is
// said on w.
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
