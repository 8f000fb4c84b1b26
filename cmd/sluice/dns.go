package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

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
			"gateway.state_file. SIGHUP reads the topology again; with a fault in it, the one from before stays in use.",
		Example: "  sluice dns -c web.toml --listen 127.0.0.1:5353",
		Args:    noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			addrs, err := parseListen(listen)
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			reload := make(chan os.Signal, 1) // one that comes during a reload asks for one more
			signal.Notify(reload, unix.SIGHUP)
			defer signal.Stop(reload)
			d := &dnsServers{path: path, log: log,
				notify: dns.NewNotifier(dns.NotifierOptions{Sources: sources(addrs), Log: log})}
			return d.run(cmd.Context(), addrs, reload)
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

// dnsServers are servers that answer by one topology.
type dnsServers struct {
	path    string // of the topology
	log     *slog.Logger
	notify  *dns.Notifier
	servers []*dns.Server
	zones   *zone.Zones // those in use
}

// run answers on each address until ctx ends, and reads the topology again at each signal.
func (d *dnsServers) run(ctx context.Context, addrs []netip.AddrPort, reload <-chan os.Signal) (err error) {
	if d.zones, err = d.load(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	for _, a := range addrs {
		s, err := dns.Open(dns.Options{Listen: a, Log: d.log})
		if err != nil {
			return err
		}
		d.servers = append(d.servers, s)
		s.SetZones(d.zones)
		d.log.Info("answering", "address", s.Addr())
	}
	d.notify.Announce(d.zones)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			zones, err := d.load()
			if err != nil {
				d.log.Error("the topology has faults: the one from before stays in use", "error", err)
				continue
			}
			d.zones = zones
			for _, s := range d.servers {
				s.SetZones(zones)
			}
			d.notify.Announce(zones)
			d.log.Info("topology read again", "serial", zones.Serial())
		}
	}
}

// load compiles the topology as it is now. The addresses to answer with are those of the gateway, which keeps what it has allocated:
// nothing is accepted, and so nothing written. Of the topology nothing is kept but the zones. Reading it takes many times the memory that these
// have, which goes back to the system at once: the collector, which leaves a process as much again as it uses, would let it have the rest
// for a long time, since answering takes no memory.
func (d *dnsServers) load() (*zone.Zones, error) {
	defer debug.FreeOSMemory()
	t, _, err := config.LoadFrom(d.path, nil, func(err error) { d.log.Error(err.Error()) })
	if err != nil {
		return nil, err
	}
	zones, err := zone.Next(t, d.zones, time.Now())
	if err != nil {
		return nil, fmt.Errorf("compiling the DNS zones: %w", err)
	}
	return zones, nil
}

func (d *dnsServers) close() error {
	d.notify.Close()
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// sources returns the addresses to tell secondaries from, which take news from their server only: those that are answered at.
func sources(listen []netip.AddrPort) (out []netip.Addr) {
	for _, l := range listen {
		if !l.Addr().IsUnspecified() {
			out = append(out, l.Addr())
		}
	}
	return out
}
