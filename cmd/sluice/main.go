// Command sluice is the appliance for the gateway nodes of a cluster, and the tools around it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set when the binary is linked.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	var failed *failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &failed):
		if failed.err != nil {
			fmt.Fprintln(root.ErrOrStderr(), "sluice:", failed.err)
		}
		return 1
	}
	fmt.Fprintf(root.ErrOrStderr(), "sluice: %v\nRun '%s --help' for usage.\n", err, cmd.CommandPath())
	return 2
}

// failure is an error of what a command did, as opposed to how it was called. A nil err means that the command has said
// what is wrong already.
type failure struct{ err error }

func (f *failure) Error() string {
	if f.err == nil {
		return "failed"
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// action adapts a command's function: what it returns is a failure, never wrong usage, unless it is a usage error.
func action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		var wrong *usageError
		var failed *failure
		if err == nil || errors.As(err, &wrong) || errors.As(err, &failed) {
			return err
		}
		return &failure{err}
	}
}

// usageError is a value on the command line that cannot be used.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// usagef returns a usage error.
func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// newRoot returns the command tree.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "sluice",
		Short: "Service load balancing and cluster DNS for gateway nodes, from one topology file",
		Long: "Sluice takes the traffic of Kubernetes-style Services off the wire by XDP, translates and forwards it in a\n" +
			"fast path over AF_XDP, checks the health of endpoints, and answers cluster DNS, all from one TOML topology.\n\n" +
			"Exit codes: 0 done, 1 failed, 2 wrong usage.",
		SilenceUsage:  true,
		SilenceErrors: true,
		// Without this cobra prints its help and exits 0 for a bare "sluice".
		RunE: func(cmd *cobra.Command, args []string) error { return usagef("which command?") },
		Args: cobra.NoArgs,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if f := cmd.Flags().Lookup("config"); f != nil && f.Value.String() == "" {
				return usagef("-c FILE|DIR is needed: the topology")
			}
			return nil
		},
	}
	root.SetHelpCommand(newHelp())
	root.AddCommand(newRun(), newCheck(), newTrace(), newDig(), newDNS(), newResolvConf(), newDemo(), newVersion())
	return root
}

// newHelp returns the command help, which unlike cobra's fails for a command that does not exist.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return usagef("help: there is no command %q", strings.Join(args, " "))
			}
			about.InitDefaultHelpFlag()
			return about.Help()
		},
	}
}

// noArgs refuses arguments; most often a topology is given without -c.
func noArgs(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return nil
	case cmd.Flags().Lookup("config") != nil && !cmd.Flags().Changed("config"):
		return usagef("unexpected argument %q: the topology is given as -c %s", args[0], args[0])
	}
	return usagef("unexpected argument %q", args[0])
}

// configFlag adds -c, which every command that reads a topology has.
func configFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVarP(path, "config", "c", "", "topology: a TOML file, or a directory of them")
	if err := cmd.MarkFlagRequired("config"); err != nil {
		panic(err) // the flag was defined one line above
	}
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON for programs")
}
