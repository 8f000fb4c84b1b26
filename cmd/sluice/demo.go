package main

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"sluice/cmd/sluice/demo"
	"sluice/examples"
)

func newDemo() *cobra.Command {
	var opts demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Show it at work: real clients through a gateway to real servers, in network namespaces (root)",
		Args:  noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("--driver", opts.Driver, "afxdp", "asavie"); err != nil {
				return err
			}
			if err := oneOf("--xdp-mode", opts.Mode, "auto", "native", "generic"); err != nil {
				return err
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			opts.Self, opts.Topology, opts.Out = self, examples.Demo(), cmd.OutOrStdout()
			err = demo.Run(cmd.Context(), opts)
			if errors.Is(err, demo.ErrFailed) {
				return &failure{} // the steps have been printed
			}
			return err
		}),
	}
	cmd.Flags().StringVar(&opts.Driver, "driver", "", "use this driver instead of the topology's: afxdp or asavie")
	cmd.Flags().StringVar(&opts.Mode, "xdp-mode", "", "use this mode instead of the topology's: auto, native or generic")
	cmd.AddCommand(newDemoBackend(), newDemoClient())
	return cmd
}

// oneOf refuses a value of a flag that is given and not allowed.
func oneOf(flag, value string, allowed ...string) error {
	if value == "" || slices.Contains(allowed, value) {
		return nil
	}
	return usagef("%s %q: must be one of %s", flag, value, strings.Join(allowed, ", "))
}

// newDemoBackend is what the demo runs in the namespace of each backend.
func newDemoBackend() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use:    "backend",
		Short:  "The servers of one backend of the demo",
		Hidden: true,
		Args:   noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			return demo.Backend(cmd.Context(), name)
		}),
	}
	cmd.Flags().StringVar(&name, "name", "backend", "the name it answers with")
	return cmd
}

// newDemoClient is what the demo runs in the namespace of the client.
func newDemoClient() *cobra.Command {
	var kind, target, name string
	var count int
	cmd := &cobra.Command{
		Use:    "client",
		Short:  "A client of the demo: sends requests and prints as JSON who answered",
		Hidden: true,
		Args:   noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			tally, err := demo.Client(cmd.Context(), kind, target, name, count)
			if err != nil {
				return err
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(tally)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&kind, "kind", "http", "http, udp, dns-udp, dns-tcp, ping or refused")
	f.StringVar(&target, "target", "", "address:port, or an address for ping")
	f.StringVar(&name, "name", "", "for DNS: the question, with /AAAA for that type")
	f.IntVar(&count, "count", 1, "requests to send")
	return cmd
}
