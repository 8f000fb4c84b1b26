package main

import (
	"errors"
	"log/slog"
	"net/netip"
	"os"

	"github.com/spf13/cobra"

	"sluice/config"
	"sluice/dns"
	"sluice/dns/zone"
)

func newDNS() *cobra.Command {
	var path string
	var listen []string
	cmd := &cobra.Command{
		Use:   "dns -c FILE|DIR --listen ADDR:PORT",
		Short: "Run only the DNS server, on ordinary UDP and TCP sockets",
		Long: "Dns answers for the zones of the topology until SIGINT or SIGTERM. It forwards nothing: other names are REFUSED. Ports\n" +
			"below 1024 need root or CAP_NET_BIND_SERVICE. The addresses that 'sluice run' has allocated are read from\n" +
			"gateway.state_file, once, when it starts.",
		Example: "  sluice dns -c web.toml --listen 127.0.0.1:5353",
		Args:    noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			addrs, err := parseListen(listen)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			// The addresses to answer with are those of the gateway, which keeps what it has allocated.
			t, _, err := config.LoadFrom(path, nil, func(err error) { log.Error(err.Error()) })
			if err != nil {
				return err
			}
			zones, err := compileZones(t)
			if err != nil {
				return err
			}
			servers, err := openServers(addrs, zones, log)
			if err != nil {
				return err
			}
			<-cmd.Context().Done()
			return closeServers(servers)
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "address and port to answer on, such as 198.18.0.10:53; may be given several times")
	if err := cmd.MarkFlagRequired("listen"); err != nil {
		panic(err) // the flag was defined one line above
	}
	return cmd
}

func parseListen(listen []string) (addrs []netip.AddrPort, err error) {
	for _, l := range listen {
		a, err := netip.ParseAddrPort(l)
		if err != nil {
			return nil, usagef("--listen %q: must be an address and a port such as 198.18.0.10:53 or [2001:db8::10]:53", l)
		}
		addrs = append(addrs, a)
	}
	return addrs, nil
}

// openServers opens a server on each address; on an error none stays open.
func openServers(addrs []netip.AddrPort, zones *zone.Zones, log *slog.Logger) (servers []*dns.Server, err error) {
	for _, a := range addrs {
		s, err := dns.Open(dns.Options{Listen: a, Log: log})
		if err != nil {
			return nil, errors.Join(err, closeServers(servers))
		}
		s.SetZones(zones)
		servers = append(servers, s)
		log.Info("answering", "address", s.Addr())
	}
	return servers, nil
}

func closeServers(servers []*dns.Server) error {
	var errs []error
	for _, s := range servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}
