package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"sluice/xdp/lab"
)

// coreDNS is the version that is compared with, as its authors publish it, all plugins compiled in.
const coreDNS = "v1.15.0"

// CoreDNSBinary returns CoreDNS, and builds it the first time, which takes minutes, when build says so. It lies in the user's cache.
// Without build and when it is not there, the path is empty.
func CoreDNSBinary(build bool) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "sluice-bench")
	path := filepath.Join(dir, "coredns-"+coreDNS)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if !build {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	scratch, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "install", "-trimpath", "-ldflags", "-s -w", "github.com/coredns/coredns@"+coreDNS)
	cmd.Dir, cmd.Env = scratch, append(os.Environ(), "GOBIN="+scratch, "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", errors.Join(fmt.Errorf("building CoreDNS: %w\n%s", err, out), os.RemoveAll(scratch))
	}
	return path, errors.Join(os.Rename(filepath.Join(scratch, "coredns"), path), os.RemoveAll(scratch))
}

// CoreDNS returns the contender that answers by its plugin file, on as many sockets as there are processors.
func CoreDNS(binary string) NameServer {
	return NameServer{nameCoreDNS, false, func(b *Bed, n *Names) (*lab.Process, func() error, error) {
		var conf strings.Builder
		for _, apex := range []string{forwardZone, reverseZone} {
			fmt.Fprintf(&conf, "%s:%d {\n\tbind %s\n\tmultisocket\n\tfile %s\n\terrors\n}\n", apex, dnsPort, dnsAddr, n.zoneFile(apex))
		}
		path, err := n.write("Corefile", conf.String())
		if err != nil {
			return nil, nil, err
		}
		return b.serveLocal(n, binary, "-conf", path)
	}}
}

// NSD returns the contender that is the Debian package, without its rate limits, and with a process and a socket for each processor.
func NSD() NameServer {
	return NameServer{nameNSD, false, func(b *Bed, n *Names) (*lab.Process, func() error, error) {
		path, err := n.write("nsd.conf", n.nsdConf())
		if err != nil {
			return nil, nil, err
		}
		return b.serveLocal(n, "nsd", "-d", "-c", path)
	}}
}

func (n *Names) nsdConf() string {
	var b strings.Builder
	fmt.Fprintf(&b, "server:\n  ip-address: %s\n  username: \"\"\n  chroot: \"\"\n  zonesdir: %q\n  pidfile: \"\"\n  database: \"\"\n"+
		"  xfrdir: %q\n  xfrdfile: %q\n  zonelistfile: %q\n  server-count: %d\n  reuseport: yes\n  minimal-responses: yes\n"+
		"  rrl-ratelimit: 0\n  rrl-whitelist-ratelimit: 0\n  verbosity: 0\nremote-control:\n  control-enable: no\n",
		dnsAddr, n.dir, n.dir, filepath.Join(n.dir, "xfrd.state"), filepath.Join(n.dir, "zone.list"), runtime.NumCPU())
	for _, apex := range []string{forwardZone, reverseZone} {
		fmt.Fprintf(&b, "zone:\n  name: %q\n  zonefile: %q\n", apex, n.zoneFile(apex))
	}
	return b.String()
}
