package engine

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"sluice/dns"
	"sluice/engine/control"
)

// nameServers are the sockets of the DNS server behind the workers: they answer what a worker does not, TCP above all, and the
// gateway's own processes. There is one for each address.
//
// Concurrency: all methods may be called by any goroutine.
type nameServers struct {
	log     *slog.Logger
	mu      sync.Mutex
	started bool // and not closed
	open    map[netip.Addr]*nameServer
	closed  dns.Counters // of servers that are closed
	forwarding
	certificate *dns.Certificate // of DNS over TLS
	certified   bool             // there is one
	// notify tells secondaries of changes. It sends from an address of the machine's: what comes to a dns.address is for the workers.
	notify *dns.Notifier
}

func newNameServers(log *slog.Logger) *nameServers {
	return &nameServers{log: log, forwarding: forwarding{log: log}, certificate: &dns.Certificate{Log: log},
		open: map[netip.Addr]*nameServer{}, notify: dns.NewNotifier(dns.NotifierOptions{Log: log})}
}

// nameServer is a server on one address.
type nameServer struct {
	server *dns.Server
	secure bool           // it serves DNS over TLS
	route  *netlink.Route // by which the kernel takes the address for its own; nil: it did before
}

// The ports of DNS, and of DNS over TLS.
const (
	dnsPort    = 53
	dnsTLSPort = 853
)

// startDNS opens the sockets. What queries come before is dropped with all else that comes before.
func (a *appliance) startDNS() error {
	a.later(a.names.close)
	s := a.names
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = true
	return s.follow(a.controller.Current())
}

// republish has the sockets answer by a new snapshot. What goes wrong with them is no reason to refuse it.
func (s *nameServers) republish(snap *control.Snapshot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.started {
		return
	}
	if err := s.follow(snap); err != nil {
		s.log.Error("DNS over sockets, such as TCP, is not served as it should be; UDP is answered all the same", "error", err)
	}
}

// follow serves what a snapshot says, where it says. The caller holds mu.
func (s *nameServers) follow(snap *control.Snapshot) error {
	var want []netip.Addr
	if snap.Names != nil {
		want = snap.Names.Addrs
	}
	before := s.forwarder
	errs := []error{s.renew(snap), s.secure(snap)}
	secure := snap.Names != nil && snap.Names.TLS && s.certified
	for addr, n := range s.open {
		if !slices.Contains(want, addr) || n.secure != secure {
			delete(s.open, addr)
			errs = append(errs, s.end(n))
		}
	}
	for _, addr := range want {
		if s.open[addr] == nil {
			n, err := s.start(addr, secure)
			if err != nil {
				errs = append(errs, fmt.Errorf("dns.address %v: %w", addr, err))
				continue
			}
			s.open[addr] = n
		}
		s.open[addr].server.Serve(snap.Names.Zones, s.forwarder)
	}
	if before != s.forwarder {
		s.retire(before)
	}
	if snap.Names != nil {
		s.notify.Announce(snap.Names.Zones)
	}
	return errors.Join(errs...)
}

// secure takes up what a snapshot says of the certificate. On an error the one from before stays in use. The caller holds mu.
func (s *nameServers) secure(snap *control.Snapshot) error {
	if snap.Names == nil || !snap.Names.TLS {
		return nil
	}
	if err := s.certificate.Use(snap.Topology.DNS.TLSCertificate, snap.Topology.DNS.TLSKey); err != nil {
		return err
	}
	s.certified = true
	return nil
}

// start opens a server on an address.
func (s *nameServers) start(addr netip.Addr, secure bool) (n *nameServer, err error) {
	n = &nameServer{secure: secure}
	if n.route, err = claim(addr); err != nil {
		return nil, err
	}
	o := dns.Options{Listen: netip.AddrPortFrom(addr, dnsPort), FreeBind: true, Log: s.log}
	if secure {
		o.ListenTLS, o.Certificate = netip.AddrPortFrom(addr, dnsTLSPort), s.certificate
	}
	if n.server, err = dns.Open(o); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// close ends all servers.
func (s *nameServers) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.started = false
	s.notify.Close()
	var errs []error
	for addr, n := range s.open {
		delete(s.open, addr)
		errs = append(errs, s.end(n))
	}
	s.retire(s.forwarder)
	s.forwarder = nil
	return errors.Join(errs...)
}

// end closes a server and keeps what it has counted. The caller holds mu.
func (s *nameServers) end(n *nameServer) error {
	err := n.close()
	s.closed.Add(n.server.Counters())
	return err
}

// counters returns what all servers have counted.
func (s *nameServers) counters() dns.Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.closed
	for _, n := range s.open {
		c.Add(n.server.Counters())
	}
	return c
}

func (n *nameServer) close() error {
	var errs []error
	if n.server != nil {
		errs = append(errs, n.server.Close())
	}
	if n.route != nil {
		if err := netlink.RouteDel(n.route); err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("taking back %v: %w", n.route.Dst, err))
		}
	}
	return errors.Join(errs...)
}

// claim makes the kernel take an address for its own, by a local route, so that packets to it are given to sockets. It returns nil
// for one that an interface has already. A route that is there was left by a process that was killed, and is ours again.
func claim(addr netip.Addr) (*netlink.Route, error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("listing addresses: %w", err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == addr {
			return nil, nil
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return nil, fmt.Errorf("the loopback interface: %w", err)
	}
	r := &netlink.Route{LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Protocol: unix.RTPROT_STATIC,
		Scope: netlink.SCOPE_HOST, Dst: &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}}
	if addr.Is6() {
		r.Scope = netlink.SCOPE_UNIVERSE // IPv6 has no other
	}
	if err := netlink.RouteReplace(r); err != nil {
		return nil, fmt.Errorf("making %v local (is lo up?): %w", addr, err)
	}
	return r, nil
}
