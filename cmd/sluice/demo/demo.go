// Package demo shows Sluice at work on one machine: it builds a client, a gateway and three backends out of network
// namespaces, runs the appliance between them, drives real TCP, UDP and DNS clients through it and prints what happened.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sluice/xdp/lab"
)

// Options says what to run and where to print.
type Options struct {
	Self     string    // the sluice executable, for the processes inside the namespaces
	Topology []byte    // TOML, as examples/demo.toml
	Driver   string    // overrides gateway.driver when not ""
	Mode     string    // overrides gateway.xdp_mode when not ""
	Out      io.Writer // for people
}

// ErrFailed is returned when the demo ran to its end and a step failed; what failed has been printed.
var ErrFailed = errors.New("a step failed")

// demo is one run.
type demo struct {
	opts    Options
	print   *printer
	net     *network
	dir     string // temporary files: topology, admin socket, logs
	config  string // path of the topology
	admin   string // path of the admin socket
	gateway *lab.Process
	servers []*lab.Process // the HTTP and UDP servers, by backend
	started []*lab.Process // every process, to be stopped at the end
}

// Run builds the network, plays every step and takes all down again, also when ctx is cancelled on the way.
func Run(ctx context.Context, opts Options) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("the demo builds network namespaces: run it as root")
	}
	d := &demo{opts: opts, print: newPrinter(opts.Out)}
	if d.dir, err = os.MkdirTemp("", "sluice-demo-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.writeTopology(); err != nil {
		return err
	}
	fmt.Fprint(opts.Out, picture)
	if err := d.setUp(ctx); err != nil {
		return err
	}
	d.play(ctx)
	if ctx.Err() != nil {
		return errors.New("interrupted; everything is taken down")
	}
	d.print.verdict()
	if d.print.failed > 0 {
		return ErrFailed
	}
	return nil
}

const picture = `
  client ─────────────── gateway ─────────────── switch ──┬── wk-1
  198.18.0.50            XDP, AF_XDP                      ├── wk-2
  2001:db8:a::50         sluice run                       └── wk-3
`

// writeTopology puts the topology into the run's own folder, with an admin socket of its own and the overrides asked for.
func (d *demo) writeTopology() error {
	d.config, d.admin = filepath.Join(d.dir, "demo.toml"), filepath.Join(d.dir, "admin.sock")
	text := string(d.opts.Topology)
	changes := map[string]string{"admin": "unix:" + d.admin}
	if d.opts.Driver != "" {
		changes["driver"] = d.opts.Driver
	}
	if d.opts.Mode != "" {
		changes["xdp_mode"] = d.opts.Mode
	}
	for key, value := range changes {
		var err error
		if text, err = setKey(text, key, value); err != nil {
			return err
		}
	}
	return os.WriteFile(d.config, []byte(text), 0o600)
}

// setKey replaces the value of a key that stands once, at the start of a line, in a TOML text.
func setKey(text, key, value string) (string, error) {
	lines := strings.Split(text, "\n")
	found := 0
	for i, line := range lines {
		name, _, ok := strings.Cut(line, "=")
		if ok && strings.TrimSpace(name) == key {
			lines[i] = fmt.Sprintf("%s = %q", key, value)
			found++
		}
	}
	if found != 1 {
		return "", fmt.Errorf("the bundled topology has the key %s %d times, expected once", key, found)
	}
	return strings.Join(lines, "\n"), nil
}

// setUp builds the network and starts backends and gateway.
func (d *demo) setUp(ctx context.Context) error {
	d.print.title("Setting up")
	start := time.Now()
	var err error
	if d.net, err = newNetwork(); err != nil {
		return fmt.Errorf("building the network: %w", err)
	}
	d.print.step("6 hosts in network namespaces", fmt.Sprintf("%d ms", time.Since(start).Milliseconds()), nil)
	for i := range d.net.backends {
		if err := d.startServers(i); err != nil {
			return err
		}
	}
	d.print.step("3 backends: HTTP, UDP echo", "started", nil)
	return d.startGateway(ctx)
}

// startServers starts or restarts the HTTP and UDP servers of the i-th backend.
func (d *demo) startServers(i int) error {
	host := d.net.backends[i]
	p, err := d.start(host, host.Name+".log", "demo", "backend", "--name", host.Name)
	if err != nil {
		return err
	}
	if i < len(d.servers) {
		d.servers[i] = p
	} else {
		d.servers = append(d.servers, p)
	}
	return nil
}

// start runs the sluice executable in a host, its output going to a log file of the run's folder.
func (d *demo) start(host *lab.Host, log string, args ...string) (*lab.Process, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, log), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the child has its own copy
	p, err := host.Start(f, d.opts.Self, args...)
	if err != nil {
		return nil, err
	}
	d.started = append(d.started, p)
	return p, nil
}

// close ends the processes, gives back the namespaces and removes the files.
func (d *demo) close() error {
	var errs []error
	for _, p := range d.started {
		errs = append(errs, p.Signal(syscall.SIGTERM))
	}
	for _, p := range d.started {
		// How a server ended after SIGTERM says nothing about the demo; that it ended does.
		_ = p.Stop(5 * time.Second)
	}
	if d.net != nil {
		errs = append(errs, d.net.lab.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(d.dir))...)
}

// log returns the end of a log file, for error messages.
func (d *demo) log(name string) string {
	b, err := os.ReadFile(filepath.Join(d.dir, name))
	if err != nil {
		return err.Error()
	}
	const most = 2000
	if len(b) > most {
		b = b[len(b)-most:]
	}
	return strings.TrimSpace(string(b))
}
