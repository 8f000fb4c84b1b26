package bench

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/config"
	"sluice/dns"
	"sluice/dns/zone"
	"sluice/xdp"
)

// The addresses of the comparison of DNS servers: all of them answer at dnsAddr.
const (
	dnsAddr     = "198.19.64.53"
	dnsPort     = 53
	serviceNet  = "198.19.64.0/20"
	forwardZone = "cluster.local."
	reverseZone = "19.198.in-addr.arpa."
)

// dnsServer is where all of them answer.
func dnsServer() netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(dnsAddr), dnsPort) }

// The topology of the comparison: services in namespaces, every tenth of them headless.
const (
	namespaces    = 20
	headlessEvery = 10
	endpoints     = 3 // of a headless service
)

// Names is what every server of a comparison serves, and what it is asked.
type Names struct {
	dir       string
	services  int
	zones     *zone.Zones
	questions []question
}

// NewNames compiles a topology of a number of services, 20 to 3000, and writes its zones as files into a folder of their own, which
// Close removes.
func NewNames(services int) (n *Names, err error) {
	if services < namespaces || services > 3000 {
		return nil, fmt.Errorf("%d services: must be %d to 3000", services, namespaces)
	}
	n = &Names{services: services}
	if n.dir, err = os.MkdirTemp("", "sluice-bench-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Close())
		}
	}()
	path, err := n.write("topology.toml", n.topology("", `transfer_to = ["127.0.0.1"]`))
	if err != nil {
		return nil, err
	}
	t, err := config.Load(path)
	if err != nil {
		return nil, err
	}
	if n.zones, err = zone.Compile(t, uint32(time.Now().Unix())); err != nil {
		return nil, err
	}
	if err := n.writeZones(); err != nil {
		return nil, err
	}
	n.questions, err = n.ask()
	return n, err
}

// Close removes the files.
func (n *Names) Close() error { return os.RemoveAll(n.dir) }

// write writes a file for a server and returns its path.
func (n *Names) write(name, text string) (string, error) {
	path := filepath.Join(n.dir, name)
	return path, os.WriteFile(path, []byte(text), 0o644)
}

// zoneFile is the path of the file of a zone.
func (n *Names) zoneFile(apex string) string { return filepath.Join(n.dir, apex+"zone") }

// writeZones writes each zone as a file of records, as a secondary gets it: by a transfer over loopback.
func (n *Names) writeZones() (err error) {
	server, err := dns.Open(dns.Options{Listen: netip.MustParseAddrPort("127.0.0.1:0")})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	server.Serve(n.zones, nil)
	for _, apex := range []string{forwardZone, reverseZone} {
		records, err := new(mdns.Transfer).In(new(mdns.Msg).SetAxfr(apex), server.Addr().String())
		if err != nil {
			return fmt.Errorf("transfer of %s: %w", apex, err)
		}
		var b strings.Builder
		first := true
		for envelope := range records {
			if envelope.Error != nil {
				return fmt.Errorf("transfer of %s: %w", apex, envelope.Error)
			}
			for _, rr := range envelope.RR {
				if _, soa := rr.(*mdns.SOA); first || !soa { // the SOA comes once more at the end
					fmt.Fprintln(&b, rr)
				}
				first = false
			}
		}
		if err := os.WriteFile(n.zoneFile(apex), []byte(b.String()), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// headless reports whether a service, by its number, is.
func headless(service int) bool { return service%headlessEvery == headlessEvery-1 }

// serviceName is the name of a service in its namespace, below svc.
func serviceName(service int) string {
	return fmt.Sprintf("service-%d.namespace-%d.svc.%s", service/namespaces, service%namespaces, forwardZone)
}

// clusterIP is the address of a service.
func clusterIP(service int) string { return fmt.Sprintf("198.19.%d.%d", 65+service/250, 1+service%250) }

// gateway is the part of a topology for sluice run.
func gateway(admin string) string {
	return fmt.Sprintf("interfaces = [\"front\", \"back\"]\ndriver = %q\nxdp_mode = %q\nadmin = \"unix:%s\"\n", xdp.DriverAFXDP, xdp.ModeNative, admin)
}

// topology writes the topology, with lines for its tables gateway and dns.
func (n *Names) topology(gateway, names string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "[gateway]\nnode = \"gw\"\nstate_file = \"\"\n%s[cluster]\nservice_cidrs = [%q]\n[dns]\naddress = %q\nreverse_zones = [\"198.19.0.0/16\"]\n%s\n"+
		"[[node]]\nname = \"gw\"\naddresses = [%q]\n", gateway, serviceNet, dnsAddr, names, frontAddr)
	for i := range n.services {
		fmt.Fprintf(&b, "[[service]]\nnamespace = \"namespace-%d\"\nname = \"service-%d\"\n", i%namespaces, i/namespaces)
		if headless(i) {
			b.WriteString("cluster_ips = [\"None\"]\n")
		} else {
			fmt.Fprintf(&b, "cluster_ips = [%q]\n", clusterIP(i))
		}
		b.WriteString("  [[service.port]]\n  name = \"http\"\n  port = 80\n")
		if headless(i) {
			for e := range endpoints {
				fmt.Fprintf(&b, "  [[service.endpoint]]\n  address = \"198.18.%d.%d\"\n  hostname = \"host-%d\"\n", 64+16*e+i/250, 1+i%250, e)
			}
		}
	}
	return b.String()
}
