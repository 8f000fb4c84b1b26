package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/dns"
	"sluice/dns/zone"
	"sluice/engine/healthz"
)

func newDNS() *cobra.Command {
	var path, health string
	var listen []string
	cmd := &cobra.Command{
		Use:   "dns -c FILE|DIR --listen ADDR:PORT",
		Short: "Run only the DNS server, on ordinary UDP and TCP sockets",
		Long: "Dns answers for the zones of the topology until SIGINT or SIGTERM. It forwards nothing: other names are REFUSED. Ports\n" +
			"below 1024 need root or CAP_NET_BIND_SERVICE. The addresses that 'sluice run' has allocated are read from\n" +
			"gateway.state_file. SIGHUP reads the topology again; with a fault in it, the one from before stays in use.\n\n" +
			"--health serves /health, /ready and /metrics over HTTP.",
		Example: "  sluice dns -c web.toml --listen 127.0.0.1:5353\n" +
			"  sluice dns -c web.toml --listen 198.18.0.10:53 --health 198.18.0.10:8181",
		Args: noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			addrs, err := parseListen(listen)
			if err != nil {
				return err
			}
			if _, err := netip.ParseAddrPort(health); err != nil && health != "" {
				return usagef("--health %q: must be an address and a port such as 127.0.0.1:8181 or [2001:db8::10]:8181", health)
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			reload := make(chan os.Signal, 1) // one that comes during a reload asks for one more
			signal.Notify(reload, unix.SIGHUP)
			defer signal.Stop(reload)
			d := newDNSServers(&fileSource{path: path, log: log}, addrs, log)
			if health == "" {
				return d.run(cmd.Context(), reload)
			}
			stop, err := d.serveStatus(health)
			if err != nil {
				return err
			}
			return errors.Join(d.run(cmd.Context(), reload), stop())
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "address and port to answer on, such as 198.18.0.10:53; may be given several times")
	cmd.Flags().StringVar(&health, "health", "", "address and port to serve /health, /ready and /metrics on (default none)")
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
	source *fileSource
	addrs  []netip.AddrPort // to answer at
	log    *slog.Logger
	notify *dns.Notifier
	ready  healthz.Readiness

	mu      sync.Mutex // guards what follows, which dns_status.go reads
	servers []*dns.Server
	zones   *zone.Zones // those in use
	reloads struct{ done, refused uint64 }
}

func newDNSServers(source *fileSource, addrs []netip.AddrPort, log *slog.Logger) *dnsServers {
	d := &dnsServers{source: source, addrs: addrs, log: log,
		notify: dns.NewNotifier(dns.NotifierOptions{Sources: sources(addrs), Log: log})}
	d.ready.Require(d.missing)
	return d
}

// run answers on each address until ctx ends, and reads the topology again at each signal.
func (d *dnsServers) run(ctx context.Context, reload <-chan os.Signal) (err error) {
	zones, err := d.load(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	d.use(zones)
	for _, a := range d.addrs {
		if err := d.open(a); err != nil {
			return err
		}
	}
	d.notify.Announce(zones)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			d.reload(ctx)
		}
	}
}

// open starts to answer on an address.
func (d *dnsServers) open(a netip.AddrPort) error {
	s, err := dns.Open(dns.Options{Listen: a, Log: d.log})
	if err != nil {
		return err
	}
	s.SetZones(d.zones)
	d.mu.Lock()
	d.servers = append(d.servers, s)
	d.mu.Unlock()
	d.log.Info("answering", "address", s.Addr())
	return nil
}

// use has all servers answer by zones.
func (d *dnsServers) use(zones *zone.Zones) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zones = zones
	for _, s := range d.servers {
		s.SetZones(zones)
	}
}

// reload reads the topology again.
func (d *dnsServers) reload(ctx context.Context) {
	zones, err := d.load(ctx)
	d.mu.Lock()
	if err != nil {
		d.reloads.refused++
	} else {
		d.reloads.done++
	}
	d.mu.Unlock()
	if err != nil {
		d.log.Error("the topology has faults: the one from before stays in use", "error", err)
		return
	}
	d.use(zones)
	d.notify.Announce(zones)
	d.log.Info("topology read again", "serial", zones.Serial())
}

// load compiles the topology as it is now. The addresses to answer with are those of the gateway, which keeps what it has allocated:
// nothing is accepted, and so nothing written.
func (d *dnsServers) load(ctx context.Context) (*zone.Zones, error) {
	t, err := d.source.Load(ctx)
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
	d.ready.Stop()
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
