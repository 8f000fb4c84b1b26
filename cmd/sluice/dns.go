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
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"sluice/config"
	"sluice/dns"
	"sluice/dns/forward"
	"sluice/dns/zone"
	"sluice/engine/healthz"
)

func newDNS() *cobra.Command {
	var path, health string
	var listen, listenTLS []string
	cmd := &cobra.Command{
		Use:   "dns -c FILE|DIR --listen ADDR:PORT",
		Short: "Run only the DNS server, on ordinary UDP and TCP sockets",
		Long: "Dns answers for the zones of the topology until SIGINT or SIGTERM. Other names are REFUSED, but for those that\n" +
			"dns.forward and dns.stub name servers for. Ports below 1024 need root or CAP_NET_BIND_SERVICE. The addresses that\n" +
			"'sluice run' has allocated are read from gateway.state_file. SIGHUP reads the topology again, and the files that\n" +
			"dns.forward names; with a fault in them, what was before stays in use.\n\n" +
			"--health serves /health, /ready and /metrics over HTTP.",
		Example: "  sluice dns -c web.toml --listen 127.0.0.1:5353\n" +
			"  sluice dns -c web.toml --listen 198.18.0.10:53 --health 198.18.0.10:8181",
		Args: noArgs,
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
			if _, err := netip.ParseAddrPort(health); err != nil && health != "" {
				return usagef("--health %q: must be an address and a port such as 127.0.0.1:8181 or [2001:db8::10]:8181", health)
			}
			log := slog.New(slog.NewTextHandler(os.Stderr, nil))
			reload := make(chan os.Signal, 1) // one that comes during a reload asks for one more
			signal.Notify(reload, unix.SIGHUP)
			defer signal.Stop(reload)
			d := newDNSServers(path, addrs, secure, log)
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
	cmd.Flags().StringArrayVar(&listenTLS, "tls-listen", nil, "the same for DNS over TLS, by the certificate of dns.tls_certificate, such as 198.18.0.10:853")
	cmd.Flags().StringVar(&health, "health", "", "address and port to serve /health, /ready and /metrics on (default none)")
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
	path     string           // of the topology
	addrs    []netip.AddrPort // to answer at
	addrsTLS []netip.AddrPort // and over TLS
	log      *slog.Logger
	cookies  *dns.Cookies
	notify   *dns.Notifier
	ready    healthz.Readiness
	secure   *dns.Certificate // of DNS over TLS, nil without it
	forward  *forward.Current

	mu      sync.Mutex // guards what follows, which dns_status.go reads
	servers []*dns.Server
	zones   *zone.Zones        // those in use
	asked   *forward.Forwarder // for other names, nil for none
	reloads struct{ done, refused uint64 }
}

func newDNSServers(path string, addrs, secure []netip.AddrPort, log *slog.Logger) *dnsServers {
	d := &dnsServers{path: path, addrs: addrs, addrsTLS: secure, log: log, cookies: dns.NewCookies(),
		notify:  dns.NewNotifier(dns.NotifierOptions{Sources: sources(addrs), Log: log}),
		forward: forward.NewCurrent(forward.Options{Log: log})}
	if len(secure) > 0 {
		d.secure = &dns.Certificate{Log: log}
	}
	d.ready.Require(d.missing)
	return d
}

// run answers on each address until ctx ends, and reads the topology again at each signal.
func (d *dnsServers) run(ctx context.Context, reload <-chan os.Signal) (err error) {
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.load(); err != nil {
		return err
	}
	for i, a := range d.addrs {
		o := dns.Options{Listen: a, Certificate: d.secure, Cookies: d.cookies, Log: d.log}
		if i < len(d.addrsTLS) {
			o.ListenTLS = d.addrsTLS[i]
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
			d.reload()
		}
	}
}

// open starts to answer on an address.
func (d *dnsServers) open(o dns.Options) error {
	s, err := dns.Open(o)
	if err != nil {
		return err
	}
	s.Serve(d.zones, d.asked)
	d.mu.Lock()
	d.servers = append(d.servers, s)
	d.mu.Unlock()
	d.log.Info("answering", "address", s.Addr())
	if o.ListenTLS.IsValid() {
		d.log.Info("answering over TLS", "address", s.AddrTLS())
	}
	return nil
}

// reload reads the topology again.
func (d *dnsServers) reload() {
	err := d.load()
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		d.reloads.refused++
		d.log.Error("the topology has faults: the one from before stays in use", "error", err)
		return
	}
	d.reloads.done++
	d.log.Info("topology read again", "serial", d.zones.Serial())
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
	next, retire, err := d.forward.Follow(&t.DNS)
	if err != nil {
		return err
	}
	d.cookies.SetSecrets(t.DNS.CookieSecrets)
	d.use(zones, next)
	retire()
	d.notify.Announce(zones)
	return nil
}

// use has all servers answer by zones, and by what is forwarded.
func (d *dnsServers) use(zones *zone.Zones, next *forward.Forwarder) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zones, d.asked = zones, next
	for _, s := range d.servers {
		s.Serve(zones, next)
	}
}

func (d *dnsServers) close() error {
	d.ready.Stop()
	d.notify.Close()
	var errs []error
	for _, s := range d.servers {
		errs = append(errs, s.Close())
	}
	d.forward.Close()
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
