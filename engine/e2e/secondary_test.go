package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"

	"sluice/xdp/lab"
	"sluice/xdp/lab/labtest"
)

// The two servers of the tests with a secondary, and the zones that both have.
const (
	primaryAddr, secondaryAddr = "198.18.60.1", "198.18.60.2"
	forwardZone                = "cluster.local."
	reverseZone                = "200.19.198.in-addr.arpa."
)

// secondary is NSD as a secondary of sluice dns.
type secondary struct {
	t        *testing.T
	at       *lab.Host // where it runs, and questions are asked
	sluice   *lab.Process
	topology string // path
}

// startSecondary starts both servers on a link of their own, with the first topology.
func startSecondary(t *testing.T, topology string) *secondary {
	t.Helper()
	labtest.NeedRoot(t)
	bin, dir, l := binary(t), t.TempDir(), lab.New()
	var logs [2]lab.Buffer
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of sluice:\n%s\nlog of NSD:\n%s", logs[0].String(), logs[1].String())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	primary, err := l.Host("primary")
	check(err)
	s := &secondary{t: t, topology: filepath.Join(dir, "topology.toml")}
	s.at, err = l.Host("secondary")
	check(err)
	check(l.Link(lab.End{Host: primary, Name: "eth0"}, lab.End{Host: s.at, Name: "eth0"}, lab.LinkOptions{}))
	check(primary.Addr("eth0", primaryAddr+"/24"))
	check(s.at.Addr("eth0", secondaryAddr+"/24"))
	check(os.WriteFile(s.topology, []byte(topology), 0o600))
	s.sluice, err = primary.Start(&logs[0], bin, "dns", "-c", s.topology, "--listen", primaryAddr+":53")
	check(err)
	stop := func(p *lab.Process) {
		if err := p.Stop(5 * time.Second); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(func() { stop(s.sluice) })
	conf := filepath.Join(dir, "nsd.conf")
	check(os.WriteFile(conf, []byte(nsdConf(dir)), 0o600))
	nsd, err := s.at.Start(&logs[1], "nsd", "-d", "-c", conf)
	check(err)
	t.Cleanup(func() { stop(nsd) })
	return s
}

// nsdConf is the configuration of the secondary. Its retries are those of the SOA, half an hour: what it has in time it has by NOTIFY,
// but for the first transfer.
func nsdConf(dir string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "server:\n  ip-address: %s\n  username: \"\"\n  chroot: \"\"\n  zonesdir: %q\n  pidfile: \"\"\n  xfrdfile: %q\n"+
		"  xfrdir: %q\n  zonelistfile: %q\n  database: \"\"\n  rrl-ratelimit: 0\n  verbosity: 1\nremote-control:\n  control-enable: no\n",
		secondaryAddr, dir, filepath.Join(dir, "xfrd.state"), dir, filepath.Join(dir, "zone.list"))
	for _, z := range []string{forwardZone, reverseZone} {
		fmt.Fprintf(&b, "zone:\n  name: %q\n  request-xfr: %s NOKEY\n  allow-notify: %[2]s NOKEY\n", z, primaryAddr)
	}
	return b.String()
}

// ask asks a server by TCP. NSD ends its processes a while after they have been replaced for a new zone, and with them connections:
// it is asked again. Sluice has to answer the first time.
func (s *secondary) ask(server, name string, qtype uint16) (reply *dns.Msg, err error) {
	tries := 1
	if server == secondaryAddr {
		tries = 5
	}
	for range tries {
		if reply, err = s.askOnce(server, name, qtype); err == nil {
			break
		}
	}
	return reply, err
}

func (s *secondary) askOnce(server, name string, qtype uint16) (reply *dns.Msg, err error) {
	err = s.at.Do(func() error {
		c := dns.Client{Net: "tcp", Timeout: 3 * time.Second, Dialer: &net.Dialer{Timeout: 3 * time.Second}}
		reply, _, err = c.Exchange(new(dns.Msg).SetQuestion(name, qtype), net.JoinHostPort(server, "53"))
		return err
	})
	return reply, err
}

// serial returns the serial of a zone at a server, 0 when it has none.
func (s *secondary) serial(server, zone string) uint32 {
	reply, err := s.ask(server, zone, dns.TypeSOA)
	if err != nil || reply.Rcode != dns.RcodeSuccess || len(reply.Answer) == 0 {
		return 0
	}
	return reply.Answer[0].(*dns.SOA).Serial
}

// awaitStep waits until the secondary has the zones that the primary has, with a serial other than before.
func (s *secondary) awaitStep(before uint32) (serial uint32) {
	s.t.Helper()
	await(s.t, "the secondary is in step", func() bool {
		serial = s.serial(primaryAddr, forwardZone)
		return serial != 0 && serial != before && s.serial(secondaryAddr, forwardZone) == serial && s.serial(secondaryAddr, reverseZone) == serial
	})
	return serial
}

// TestSecondary has NSD follow a topology that changes at random, and holds all that it answers by the records that it has got against
// what Sluice answers.
func TestSecondary(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	cluster := randomCluster(r)
	s := startSecondary(t, cluster.toml())
	serial := uint32(0)
	for generation := range 4 {
		if generation > 0 {
			cluster = randomCluster(r)
			if err := os.WriteFile(s.topology, []byte(cluster.toml()), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := s.sluice.Signal(syscall.SIGHUP); err != nil {
				t.Fatal(err)
			}
		}
		serial = s.awaitStep(serial)
		asked := 0
		for _, name := range cluster.names(r) {
			for _, typ := range []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeCNAME, dns.TypeTXT, dns.TypeSOA, dns.TypeNS} {
				s.compare(name, typ)
				asked++
			}
		}
		t.Logf("generation %d: %d questions", generation, asked)
		if asked < 500 {
			t.Errorf("generation %d: %d questions", generation, asked)
		}
	}
}

// compare asks both servers. What stands in the authority section counts for negative answers only: NSD repeats the name server in
// others, which nobody needs. Additional records are free.
func (s *secondary) compare(name string, typ uint16) {
	s.t.Helper()
	ours, err := s.ask(primaryAddr, name, typ)
	theirs, err2 := s.ask(secondaryAddr, name, typ)
	if err != nil || err2 != nil {
		s.t.Fatalf("%s: %v, %v", name, err, err2)
	}
	text := func(m *dns.Msg) string {
		records := m.Answer
		if len(m.Answer) == 0 || m.Rcode != dns.RcodeSuccess {
			records = slices.Concat(m.Answer, m.Ns)
		}
		var lines []string
		for _, rr := range records {
			lines = append(lines, strings.ToLower(rr.String()))
		}
		slices.Sort(lines)
		return fmt.Sprintf("%s aa=%v tc=%v\n%s", dns.RcodeToString[m.Rcode], m.Authoritative, m.Truncated, strings.Join(lines, "\n"))
	}
	if a, b := text(ours), text(theirs); a != b {
		s.t.Errorf("%s %s: Sluice: %s\nNSD: %s", name, dns.TypeToString[typ], a, b)
	}
}

// cluster is a topology made at random.
type cluster struct{ services []randomService }

type randomService struct {
	namespace, name string
	kind            int    // see kinds
	addr            string // its ClusterIP, without the last byte of the service range
	endpoints       []string
	ports           []string
	target          string
}

const (
	kindCluster = iota
	kindHeadless
	kindAlias
	kinds
)

// randomCluster makes three namespaces of some services of every kind.
func randomCluster(r *rand.Rand) (c cluster) {
	last := 20
	for _, ns := range []string{"alpha", "beta", "gamma"} {
		for i := range 4 + r.IntN(6) {
			last++
			s := randomService{namespace: ns, name: fmt.Sprintf("svc-%d", i), kind: r.IntN(kinds), addr: fmt.Sprintf("198.19.200.%d", last)}
			if i == 0 {
				s.kind = kindCluster // an empty namespace is no record, and no name to a secondary
			}
			for range 1 + r.IntN(3) {
				s.ports = append(s.ports, fmt.Sprintf("p%d", len(s.ports)))
			}
			for range r.IntN(5) {
				s.endpoints = append(s.endpoints, fmt.Sprintf("198.19.200.%d", 150+r.IntN(80)))
			}
			slices.Sort(s.endpoints)
			s.endpoints = slices.Compact(s.endpoints)
			s.target = []string{"elsewhere.example", fmt.Sprintf("svc-%d.beta.svc.cluster.local", r.IntN(9))}[r.IntN(2)]
			c.services = append(c.services, s)
		}
	}
	return c
}

// toml writes the topology.
func (c cluster) toml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "[gateway]\nnode = \"gw\"\nstate_file = \"\"\n[cluster]\nservice_cidrs = [\"198.19.200.0/24\"]\n[dns]\naddress = \"198.19.200.10\"\ntransfer_to = [%q]\n"+
		"[[node]]\nname = \"gw\"\naddresses = [\"198.18.0.10\"]\n", secondaryAddr)
	for _, ns := range []string{"alpha", "beta", "gamma"} {
		fmt.Fprintf(&b, "[[namespace]]\nname = %q\n", ns)
	}
	for _, s := range c.services {
		fmt.Fprintf(&b, "[[service]]\nnamespace = %q\nname = %q\n", s.namespace, s.name)
		switch s.kind {
		case kindAlias:
			fmt.Fprintf(&b, "type = \"ExternalName\"\nexternal_name = %q\n", s.target)
			continue
		case kindHeadless:
			b.WriteString("cluster_ips = [\"None\"]\n")
		default:
			fmt.Fprintf(&b, "cluster_ips = [%q]\n", s.addr)
		}
		for i, p := range s.ports {
			fmt.Fprintf(&b, "  [[service.port]]\n  name = %q\n  port = %d\n", p, 80+i)
		}
		for i, e := range s.endpoints {
			fmt.Fprintf(&b, "  [[service.endpoint]]\n  address = %q\n  ready = %v\n", e, i != 1)
			if i == 0 {
				b.WriteString("  hostname = \"host-0\"\n")
			}
		}
	}
	return b.String()
}

// names returns names to ask for: those that services may have, those above, and some that do not exist.
func (c cluster) names(r *rand.Rand) (names []string) {
	names = []string{forwardZone, reverseZone, "svc." + forwardZone, "ns.dns." + forwardZone, "dns." + forwardZone, "dns-version." + forwardZone,
		"nosuch." + forwardZone, "alpha.svc." + forwardZone, "nosuch.svc." + forwardZone, "*.svc." + forwardZone}
	for _, s := range c.services {
		base := s.name + "." + s.namespace + ".svc." + forwardZone
		names = append(names, base, "_p0._tcp."+base, "_tcp."+base, "_p9._tcp."+base, "_p0._udp."+base, "host-0."+base, "x.host-0."+base)
		for _, e := range append(s.endpoints, s.addr) {
			reverse, err := dns.ReverseAddr(e)
			if err != nil {
				panic(err) // the addresses are made above
			}
			names = append(names, reverse, strings.ReplaceAll(e, ".", "-")+"."+base)
		}
	}
	for range 20 {
		names = append(names, fmt.Sprintf("svc-%d.%s.svc.%s", r.IntN(15), []string{"alpha", "beta", "delta"}[r.IntN(3)], forwardZone))
	}
	return names
}
