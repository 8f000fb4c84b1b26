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
	"sluice/dns/forward"
	"sluice/dns/zone"
)

func newDNS() *cobra.Command {
	var path string
	var listen, listenTLS []string
	cmd := &cobra.Command{
		Use:   "dns -c FILE|DIR --listen ADDR:PORT",
		Short: "Run only the DNS server, on ordinary UDP and TCP sockets",
		Long: "Dns answers for the zones of the topology until SIGINT or SIGTERM. Other names are REFUSED, but for those that\n" +
			"dns.forward and dns.stub name servers for. Ports below 1024 need root or CAP_NET_BIND_SERVICE. The addresses that\n" +
			"'sluice run' has allocated are read from gateway.state_file. SIGHUP reads the topology again, and the files that\n" +
			"dns.forward names; with a fault in them, what was before stays in use.",
		Example: "  sluice dns -c web.toml --listen 127.0.0.1:5353",
		Args:    noArgs,
		RunE: action(func(cmd *cobra.Command, _ []string) error {
			addrs, err := parseListen("--listen", listen)
			if err != nil {
				return err
			}
			secure, err := parseListen("--tls-listen", listenTLS)
			if err != nil {
				return err
			}
			if len(secure) > len(addrs) {
				return usagef("--tls-listen: %d addresses, and --listen has %d", len(secure), len(addrs))
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			reload := make(chan os.Signal, 1) // one that comes during a reload asks for one more
			signal.Notify(reload, unix.SIGHUP)
			defer signal.Stop(reload)
			d := &dnsServers{path: path, log: log,
				notify: dns.NewNotifier(dns.NotifierOptions{Sources: sources(addrs), Log: log})}
			return d.run(cmd.Context(), addrs, secure, reload)
		}),
	}
	configFlag(cmd, &path)
	cmd.Flags().StringArrayVar(&listen, "listen", nil, "address and port to answer on, such as 198.18.0.10:53; may be given several times")
	cmd.Flags().StringArrayVar(&listenTLS, "tls-listen", nil, "the same for DNS over TLS, by the certificate of dns.tls_certificate, such as 198.18.0.10:853")
	if err := cmd.MarkFlagRequired("listen"); err != nil {
		panic(err) // the flag was defined one line above
	}
	return cmd
}

func parseListen(flag string, listen []string) (addrs []netip.AddrPort, err error) {
	for _, l := range listen {
		a, err := netip.ParseAddrPort(l)
		if err != nil {
			return nil, usagef("%s %q: must be an address and a port such as 198.18.0.10:53 or [2001:db8::10]:53", flag, l)
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
	secure  *dns.Certificate   // of DNS over TLS, nil without it
	zones   *zone.Zones        // those in use
	forward *forward.Forwarder // the one in use, nil for none
}

// run answers on each address until ctx ends, and reads the topology again at each signal.
func (d *dnsServers) run(ctx context.Context, addrs, secure []netip.AddrPort, reload <-chan os.Signal) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if len(secure) > 0 {
		d.secure = &dns.Certificate{Log: d.log}
	}
	if err := d.load(); err != nil {
		return err
	}
	for i, a := range addrs {
		o := dns.Options{Listen: a, Certificate: d.secure, Log: d.log}
		if i < len(secure) {
			o.ListenTLS = secure[i]
		}
		if err := d.open(o); err != nil {
			return err
		}
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-reload:
			if err := d.load(); err != nil {
				d.log.Error("the topology has faults: the one from before stays in use", "error", err)
				continue
			}
			d.log.Info("topology read again", "serial", d.zones.Serial())
		}
	}
}

// open starts a server.
func (d *dnsServers) open(o dns.Options) error {
	s, err := dns.Open(o)
	if err != nil {
		return err
	}
	d.servers = append(d.servers, s)
	s.Serve(d.zones, d.forward)
	d.log.Info("answering", "address", s.Addr())
	if o.ListenTLS.IsValid() {
		d.log.Info("answering over TLS", "address", s.AddrTLS())
	}
	return nil
}

// load puts in use the topology as it is now. The addresses to answer with are those of the gateway, which keeps what it has allocated:
// nothing is accepted, and so nothing written. Of the topology nothing is kept but the zones. Reading it takes many times the memory that these
// have, which goes back to the system at once: the collector, which leaves a process as much again as it uses, would let it have the rest
// for a long time, since answering takes no memory.
func (d *dnsServers) load() error {
	defer debug.FreeOSMemory()
	t, _, err := config.LoadFrom(d.path, nil, func(err error) { d.log.Error(err.Error()) })
	if err != nil {
		return err
	}
	zones, err := zone.Next(t, d.zones, time.Now())
	if err != nil {
		return fmt.Errorf("compiling the DNS zones: %w", err)
	}
	if d.secure != nil {
		if t.DNS.TLSCertificate == "" {
			return fmt.Errorf("--tls-listen: the topology names no certificate: set dns.tls_certificate and dns.tls_key")
		}
		if err := d.secure.Use(t.DNS.TLSCertificate, t.DNS.TLSKey); err != nil {
			return err
		}
	}
	before := d.forward
	next, err := forward.Renew(before, &t.DNS, forward.Options{Log: d.log})
	if err != nil {
		return err
	}
	d.zones, d.forward = zones, next
	for _, s := range d.servers {
		s.Serve(zones, next)
	}
	d.notify.Announce(zones)
	if before != next {
		d.forwarding(before)
	}
	return nil
}

// forwarding says who is asked for other names from now on, and ends the forwarder from before.
func (d *dnsServers) forwarding(before *forward.Forwarder) {
	if before != nil {
		before.Close()
	}
	if d.forward != nil {
		d.log.Info("forwarding", "servers", d.forward)
	} else {
		d.log.Info("forwarding ends")
	}
}

func (d *dnsServers) close() error {
	d.notify.Close()
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	if d.forward != nil {
		d.forward.Close()
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
