package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	mdns "github.com/miekg/dns"
	"github.com/spf13/cobra"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/zone"
)

func newDig() *cobra.Command {
	var path, statePath, from string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "dig -c FILE|DIR [--from ADDR] NAME [TYPE]",
		Short: "Print the answer of the compiled zones, offline",
		Long: "Dig prints what a DNS client of 'sluice dns' would get for NAME, which is written in full (no search path is applied),\n" +
			"and TYPE, which is A when not given. No other server is asked, whatever dns.forward says. NXDOMAIN and REFUSED are\n" +
			"answers too: the exit code is 0.",
		Example: "  sluice dig -c web.toml web.shop.svc.cluster.local\n" +
			"  sluice dig -c web.toml _http._tcp.web.shop.svc.cluster.local SRV\n" +
			"  sluice dig -c web.toml 10.0.19.198.in-addr.arpa PTR",
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
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(result)
			}
			return printAnswer(cmd.OutOrStdout(), result, &t.DNS)
		}),
	}
	configFlag(cmd, &path)
	stateFlag(cmd, &statePath)
	jsonFlag(cmd, &asJSON)
	cmd.Flags().StringVar(&from, "from", "", "address of the client, whose search path is followed if it is a pod's and dns.autopath is on")
	return cmd
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
