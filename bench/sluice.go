package bench

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"sluice/bench/traffic"
	"sluice/xdp"
	"sluice/xdp/lab"
)

// Sluice returns the contender that is the product: "sluice run" as a process of its own on a topology of one UDP service,
// whose sources count as pods, so that destination addresses are translated and sources kept, as nft-dnat does.
func Sluice(binary, driver string, mode xdp.Mode) Contender {
	name := fmt.Sprintf("sluice-%s-%s", driver, mode)
	return Contender{name, vip, func(b *Bed) (*traffic.Attachment, func() error, error) {
		return startSluice(b, binary, driver, mode)
	}}
}

// Binary returns the sluice to measure: the one that SLUICE_BIN names, or a fresh build in dir.
func Binary(dir string) (string, error) {
	if b := os.Getenv("SLUICE_BIN"); b != "" {
		return b, nil
	}
	path := filepath.Join(dir, "sluice")
	if out, err := exec.Command("go", "build", "-o", path, "sluice/cmd/sluice").CombinedOutput(); err != nil {
		return "", fmt.Errorf("building sluice: %w\n%s", err, out)
	}
	return path, nil
}

func startSluice(b *Bed, binary, driver string, mode xdp.Mode) (_ *traffic.Attachment, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "sluice-bench-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			err = errors.Join(err, remove())
		}
	}()
	gro := func(string) error { return nil }
	if mode == xdp.ModeGeneric {
		gro = func(on string) error { return b.run("ethtool", "-K", b.Front.Name, "gro", on) }
	}
	if err := gro("on"); err != nil {
		return nil, nil, err
	}
	config, admin := filepath.Join(dir, "bench.toml"), filepath.Join(dir, "admin.sock")
	if err := os.WriteFile(config, []byte(topology(driver, mode, admin)), 0o600); err != nil {
		return nil, nil, err
	}
	log := &lab.Buffer{}
	p, err := b.Gateway.Start(log, binary, "run", "-c", config)
	if err != nil {
		return nil, nil, err
	}
	end := func() error { return errors.Join(p.Stop(5*time.Second), gro("off"), remove()) }
	if err := awaitSocket(admin, p.Done()); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("sluice: %w\n%s", err, log), end())
	}
	return nil, end, nil
}

// topology is the file that the measured process runs.
func topology(driver string, mode xdp.Mode, admin string) string {
	return fmt.Sprintf(`
[gateway]
node = "gw-a"
interfaces = ["front", "back"]
driver = %q
xdp_mode = %q
pod_cidrs = [%q]
admin = "unix:%s"
state_file = ""

[cluster]
service_cidrs = ["198.19.64.0/24"]

[[node]]
name = "gw-a"
addresses = [%q]

[[service]]
namespace = "bench"
name = "discard"
cluster_ips = [%q]

  [[service.port]]
  protocol = "UDP"
  port = %d

  [[service.endpoint]]
  address = %q
`, driver, mode, sourceNet, admin, frontAddr, vip, port, sinkAddr)
}

// awaitSocket waits until something listens on a Unix socket: sluice opens it when it is ready.
func awaitSocket(path string, ended <-chan struct{}) error {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("unix", path); err == nil {
			return c.Close()
		}
		select {
		case <-ended:
			return errors.New("ended")
		default:
		}
	}
	return errors.New("not ready within 10 s")
}
