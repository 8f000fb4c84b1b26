package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/spf13/cobra"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/explain"
	"sluice/dns/zone"
)

func newDig() *cobra.Command {
	var path, statePath, from string
	var asJSON, why bool
	cmd := &cobra.Command{
		Use:   "dig -c FILE|DIR [--from ADDR] NAME [TYPE]",
		Short: "Print the answer of the compiled zones, offline",
		Long: "Dig prints what a DNS client of 'sluice dns' would get for NAME, which is written in full (no search path is applied),\n" +
			"and TYPE, which is A when not given. No other server is asked, whatever dns.forward says. NXDOMAIN and REFUSED are\n" +
			"answers too: the exit code is 0.\n\n" +
			"With --explain it says how the name was read, label by label from the right, which objects of the topology the records\n" +
			"come from, or which label does not exist and what is near it.",
		Example: "  sluice dig -c web.toml web.shop.svc.cluster.local\n" +
			"  sluice dig -c web.toml _http._tcp.web.shop.svc.cluster.local SRV\n" +
			"  sluice dig -c web.toml 10.0.19.198.in-addr.arpa PTR\n" +
			"  sluice dig -c web.toml wbe.shop.svc.cluster.local --explain",
		Args: question,
		RunE: action(func(cmd *cobra.Command, args []string) error {
			qtype := "A"
			if len(args) == 2 {
				qtype = args[1]
			}
			if err := notAnAddress(args[0]); err != nil {
				return err
			}
			client, err := parseClient(from)
			if err != nil {
				return err
			}
			t, err := loadAfter(cmd, path, statePath)
			if err != nil {
				return err
			}
			zones, err := zone.Next(t, nil, time.Now())
			if err != nil {
				return err
			}
			result, err := dns.Lookup(zones, client, args[0], qtype)
			if err != nil {
				return usagef("%v", err)
			}
			out := digOutput{Result: result}
			if why {
				e, err := explain.New(t, zones).Explain(args[0], qtype, result)
				if err != nil {
					return err
				}
				out.Explain = e.Steps
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(out)
			}
			return out.print(cmd.OutOrStdout(), &t.DNS)
		}),
	}
	configFlag(cmd, &path)
	stateFlag(cmd, &statePath)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&from, "from", "", "address of the client, whose search path is followed if it is a pod's and dns.autopath is on")
	cmd.Flags().BoolVar(&why, "explain", false, "say which objects the answer comes from, or why there is none")
	return cmd
}

// digOutput is what dig prints.
type digOutput struct {
	*dns.Result
	Explain []explain.Step `json:"explain,omitempty"` // not empty when it was asked for
}

func (o *digOutput) print(w io.Writer, settings *topology.DNS) error {
	if err := printAnswer(w, o.Result, settings); err != nil || o.Explain == nil {
		return err
	}
	if _, err := fmt.Fprintln(w, "\n;; EXPLANATION"); err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range o.Explain {
		fmt.Fprintf(t, "%s\t%s\t%s\n", s.Stage, s.Result, s.Why)
	}
	return t.Flush()
}

// parseClient reads the address of a client; "" is one that nothing is known of.
func parseClient(text string) (netip.Addr, error) {
	if text == "" {
		return netip.Addr{}, nil
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return netip.Addr{}, usagef("--from %q: must be an address such as 198.18.0.50", text)
	}
	return a.Unmap(), nil
}

// question accepts a name and perhaps a type.
func question(_ *cobra.Command, args []string) error {
	if len(args) < 1 || len(args) > 2 {
		return usagef("expected a name and perhaps a type, such as web.shop.svc.cluster.local A; got %d arguments", len(args))
	}
	return nil
}

// notAnAddress refuses an address in the place of a name, and says the name under which it is asked for.
func notAnAddress(name string) error {
	if _, err := netip.ParseAddr(name); err != nil {
		return nil
	}
	reverse, err := mdns.ReverseAddr(name)
	if err != nil {
		return usagef("%q is an address: expected a name", name)
	}
	return usagef("%q is an address: its name is asked for by %s PTR", name, strings.TrimSuffix(reverse, "."))
}

// refusal says what REFUSED means here.
func refusal(settings *topology.DNS) string {
	const outside = ";; the name is in no zone of this topology; names are written in full"
	if settings.Forwards() {
		return outside + "; 'run' and 'dns' ask the servers of dns.forward and dns.stub"
	}
	return outside
}

// printAnswer prints a reply in the manner of dig.
func printAnswer(w io.Writer, r *dns.Result, settings *topology.DNS) error {
	flags := ""
	if r.AA {
		flags += " aa"
	}
	if r.TC {
		flags += " tc"
	}
	if flags == "" {
		flags = " none"
	}
	if _, err := fmt.Fprintf(w, ";; %s, flags:%s\n", r.RCode, flags); err != nil {
		return err
	}
	if r.RCode == "REFUSED" {
		if _, err := fmt.Fprintln(w, refusal(settings)); err != nil {
			return err
		}
	}
	for _, section := range []struct {
		name    string
		records []string
	}{{"ANSWER", r.Answer}, {"AUTHORITY", r.Authority}, {"ADDITIONAL", r.Additional}} {
		if len(section.records) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(w, "\n;; %s\n", section.name); err != nil {
			return err
		}
		for _, line := range section.records {
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}
