package bench_test

import (
	"bufio"
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/bench"
	"sluice/config"
	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/zone"
)

// replicas is how many pods each service has.
const replicas = 15

// clusterFile writes the topology file of a cluster with verified pods, replicas of which are behind each service, and returns its path.
func clusterFile(b *testing.B, pods int) string {
	b.Helper()
	var text bytes.Buffer
	fmt.Fprint(&text, "[gateway]\nnode = \"gw\"\nstate_file = \"\"\n[cluster]\nservice_cidrs = [\"10.250.0.0/16\"]\n[dns]\naddress = \"none\"\n"+
		"pods = \"verified\"\nreverse_zones = [\"10.0.0.0/8\"]\n[[node]]\nname = \"gw\"\naddresses = [\"198.18.0.10\"]\n")
	for i := range pods / replicas {
		fmt.Fprintf(&text, "[[service]]\nnamespace = \"team-%02d\"\nname = \"app-%05d\"\nselector = { app = \"app-%05d\" }\n"+
			"[[service.port]]\nname = \"http\"\nport = 80\ntarget_port = 8080\n", i%50, i, i)
	}
	for i := range pods {
		app := i / replicas
		fmt.Fprintf(&text, "[[pod]]\nnamespace = \"team-%02d\"\nname = \"app-%05d-%06d\"\naddresses = [\"10.%d.%d.%d\"]\nnode = \"node-%04d\"\n"+
			"labels = { app = \"app-%05d\" }\n", app%50, app, i, i>>16, i>>8&255, i&255, i%1500, app)
	}
	path := filepath.Join(b.TempDir(), "cluster.toml")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// cluster returns the topology of clusterFile.
func cluster(b *testing.B, pods int) *topology.Topology {
	b.Helper()
	t, err := config.Load(clusterFile(b, pods))
	if err != nil {
		b.Fatal(err)
	}
	return t
}

// question packs a query as a pod sends it.
func question(b *testing.B, name string, qtype uint16) []byte {
	b.Helper()
	m := new(mdns.Msg).SetQuestion(name, qtype)
	m.SetEdns0(1232, false)
	query, err := m.Pack()
	if err != nil {
		b.Fatal(err)
	}
	return query
}

// BenchmarkZonesAnswer answers each of many questions in turn, so that names come from all over the memory that the zones are in.
func BenchmarkZonesAnswer(b *testing.B) {
	t := cluster(b, 33_000)
	z, err := zone.Compile(t, 1)
	if err != nil {
		b.Fatal(err)
	}
	for _, bm := range []struct {
		name, format string
		qtype        uint16
	}{
		{"hit", "%s.%s.svc.cluster.local.", mdns.TypeA},
		{"nxdomain", "%s.example.org.%s.svc.cluster.local.", mdns.TypeA},
		{"srv", "_http._tcp.%s.%s.svc.cluster.local.", mdns.TypeSRV},
	} {
		b.Run(fmt.Sprintf("query=%s/names=%d", bm.name, z.Names()), func(b *testing.B) {
			var queries [][]byte
			for i := range t.Services {
				queries = append(queries, question(b, fmt.Sprintf(bm.format, t.Services[i].Name, t.Services[i].Namespace), bm.qtype))
			}
			out, i := make([]byte, dns.UDPLimit), 0
			b.ReportAllocs()
			for b.Loop() {
				if (dns.Responder{}).Answer(z, queries[i], out, dns.Client{Limit: dns.UDPLimit}) == 0 {
					b.Fatal("no reply")
				}
				if i++; i == len(queries) {
					i = 0
				}
			}
		})
	}
}

const manyPods = 150_000

// BenchmarkZonesCompile compiles the zones of 150000 pods and 10000 services.
func BenchmarkZonesCompile(b *testing.B) {
	t := cluster(b, manyPods)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := zone.Compile(t, 1); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkZonesChange measures how long it takes until the zones of the same cluster, whose topology comes with another address for one
// pod and endpoint, answer with that.
func BenchmarkZonesChange(b *testing.B) {
	t := cluster(b, manyPods)
	z, err := zone.Compile(t, 1)
	if err != nil {
		b.Fatal(err)
	}
	moved := replaced(t)
	s := &t.Services[len(t.Services)/2]
	query, out := question(b, fmt.Sprintf("10-249-0-1.%s.%s.svc.cluster.local.", s.Name, s.Namespace), mdns.TypeA), make([]byte, dns.UDPLimit)
	next, want := moved, mdns.RcodeSuccess
	b.ReportAllocs()
	for b.Loop() {
		if z, err = zone.Next(next, z, time.Now()); err != nil {
			b.Fatal(err)
		}
		dns.Responder{}.Answer(z, query, out, dns.Client{Limit: dns.UDPLimit})
		if got := int(out[3] & 0xf); got != want {
			b.Fatalf("response code %d, want %d", got, want)
		}
		if want == mdns.RcodeSuccess {
			next, want = t, mdns.RcodeNameError
		} else {
			next, want = moved, mdns.RcodeSuccess
		}
	}
}

// replaced returns the topology with another address for a pod of the service in the middle. It shares no lists with it.
func replaced(t *topology.Topology) *topology.Topology {
	next := *t
	next.Services, next.Pods = slices.Clone(t.Services), slices.Clone(t.Pods)
	for i := range next.Services {
		next.Services[i].Endpoints = slices.Clone(next.Services[i].Endpoints)
	}
	fresh, e := netip.MustParseAddr("10.249.0.1"), &next.Services[len(next.Services)/2].Endpoints[7]
	for i := range next.Pods {
		p := &next.Pods[i]
		if p.Addresses = slices.Clone(p.Addresses); p.Addresses[0] == e.Address {
			p.Addresses[0] = fresh
		}
	}
	e.Address = fresh
	return &next
}

// BenchmarkZonesMemory starts "sluice dns" with the same cluster, and reports how much memory it has once it answers, at most until
// then, and after it has read its topology again. One iteration is one process.
func BenchmarkZonesMemory(b *testing.B) {
	binary, err := bench.Binary(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	path := clusterFile(b, manyPods)
	for b.Loop() {
		p := startServer(b, binary, path)
		p.until(`msg=answering`)
		b.ReportMetric(p.memory("VmRSS"), "MB-resident")
		b.ReportMetric(p.memory("VmHWM"), "MB-peak")
		if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			b.Fatal(err)
		}
		p.until(`msg="topology read again"`)
		b.ReportMetric(p.memory("VmRSS"), "MB-resident-reloaded")
		p.stop()
	}
}

// server is a process of "sluice dns".
type server struct {
	b   *testing.B
	cmd *exec.Cmd
	log *bufio.Scanner
}

func startServer(b *testing.B, binary, path string) *server {
	b.Helper()
	s := &server{b: b, cmd: exec.Command(binary, "dns", "-c", path, "--listen", "127.0.0.1:0")}
	pipe, err := s.cmd.StderrPipe()
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	s.log = bufio.NewScanner(pipe)
	return s
}

// until waits for a line of the log.
func (s *server) until(part string) {
	s.b.Helper()
	for s.log.Scan() {
		if strings.Contains(s.log.Text(), part) {
			return
		}
	}
	s.b.Fatalf("the log has ended before %q", part)
}

// memory returns a figure of the process's memory in units of 10^6 bytes.
func (s *server) memory(key string) float64 {
	s.b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.b.Fatal(err)
	}
	found := regexp.MustCompile(key + `:\s*(\d+) kB`).FindSubmatch(status)
	if found == nil {
		s.b.Fatalf("no %s in\n%s", key, status)
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		s.b.Fatal(err)
	}
	return float64(kib) * 1024 / 1e6
}

func (s *server) stop() {
	s.b.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.b.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.b.Fatal(err)
	}
}
