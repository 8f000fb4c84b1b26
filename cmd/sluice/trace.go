package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"sluice/engine"
)

func newTrace() *cobra.Command {
	var path, statePath, from, src, dst, flow string
	var spec engine.TraceSpec
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "trace -c FILE|DIR --src ADDR:PORT --dst ADDR:PORT",
		Short: "Run one packet through the compiled engine, offline, and say what happens and why",
		Long: "Trace needs neither root nor a network. --from says where the packet comes in: external, pod, or node for a process of\n" +
			"the gateway itself. Whether its source counts as a pod is decided by gateway.pod_cidrs, and by gateway.pod_interfaces\n" +
			"with --interface, as on the wire.\n\n" +
			"It prints the steps (stage, result, why) and the verdict with its reason: forward, reject (refused with an ICMP\n" +
			"error), drop, or pass (left to the kernel). Each of them is an answer: the exit code is 0. All endpoints count as\n" +
			"healthy, and every destination has a next hop.",
		Example: "  sluice trace -c web.toml --src 198.18.0.50:40000 --dst 198.19.200.10:80\n" +
			"  sluice trace -c web.toml --src 198.18.0.50:40000 --dst 198.19.200.10:80 --flow established --flags fin,ack\n" +
			"  sluice trace -c web.toml --src 198.18.0.50 --dst 198.19.200.10 --proto icmp",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			if err := traceFlags(&spec, from, src, dst, flow); err != nil {
				return err
			}
			t, err := loadAfter(cmd, path, statePath)
			if err != nil {
				return err
			}
			result, err := engine.Trace(t, spec)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
			}
			return printTrace(cmd.OutOrStdout(), result)
		}),
	}
	configFlag(cmd, &path)
	stateFlag(cmd, &statePath)
	jsonFlag(cmd, &asJSON)
	f := cmd.Flags()
	f.StringVar(&from, "from", "external", "where the packet comes in: external, pod or node")
	f.StringVar(&spec.Interface, "interface", "", "name of the interface that it comes in on, for gateway.pod_interfaces (default one that is no pod's)")
	f.StringVar(&src, "src", "", "source, such as 198.18.0.50:40000 or [2001:db8::50]:40000")
	f.StringVar(&dst, "dst", "", "destination, likewise")
	f.StringVar(&spec.Proto, "proto", "tcp", "tcp, udp or icmp: an echo request, whose identifier is the port of --src; ports may be left out")
	f.StringVar(&spec.Flags, "flags", "", "TCP flags out of syn, ack, fin, rst and psh, separated by commas (default syn, or ack with --flow established)")
	f.StringVar(&flow, "flow", "new", "new, or established: a packet before it has opened its flow")
	for _, name := range []string{"src", "dst"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // the flag was defined above
		}
	}
	return cmd
}

// traceFlags checks the command line and completes the spec from it.
func traceFlags(spec *engine.TraceSpec, from, src, dst, flow string) (err error) {
	switch spec.From = engine.Origin(from); spec.From {
	case engine.FromExternal, engine.FromPod, engine.FromNode:
	default:
		return usagef("--from %q: must be external, pod or node", from)
	}
	icmp := strings.EqualFold(spec.Proto, "icmp")
	if spec.Src, err = parseEnd(src, icmp); err != nil {
		return usagef("--src %q: must be an address and a port such as 198.18.0.50:40000 or [2001:db8::50]:40000", src)
	}
	if spec.Dst, err = parseEnd(dst, icmp); err != nil {
		return usagef("--dst %q: must be an address and a port such as 198.19.0.20:80 or [2001:db8::20]:80", dst)
	}
	if spec.Flags != "" && !strings.EqualFold(spec.Proto, "tcp") {
		return usagef("--flags %q: only packets of TCP have flags, this is %s", spec.Flags, spec.Proto)
	}
	switch flow {
	case "new":
	case "established":
		spec.Established = true
	default:
		return usagef("--flow %q: must be new or established", flow)
	}
	if err := spec.Check(); err != nil {
		return usagef("%v", err)
	}
	return nil
}

// parseEnd reads an address and a port; of ICMP the port may be left out.
func parseEnd(s string, icmp bool) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(s); err == nil && icmp {
		return netip.AddrPortFrom(a, 0), nil
	}
	return netip.ParseAddrPort(s)
}

// printTrace prints the steps and the verdict for people.
func printTrace(w io.Writer, r *engine.TraceResult) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range r.Steps {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Stage, s.Result, s.Why)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nverdict     %s (%s)\n", r.Verdict, r.Reason)
	for _, line := range [][2]string{
		{"service", r.Service}, {"backend", r.Backend}, {"candidates", strings.Join(r.Candidates, " ")}, {"source", r.SNATSource},
	} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-11s %s\n", line[0], line[1])
		}
	}
	return nil
}
