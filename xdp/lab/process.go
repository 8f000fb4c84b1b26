package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"
	"time"
)

// Process is a program running in a host. It is killed when the process that started it ends, however that ends.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // of Wait; valid once done is closed
}

// Start runs a program in h, its output going to out (nil: thrown away).
func (h *Host) Start(out io.Writer, name string, args ...string) (*Process, error) {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = out, out
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error)
	// The kernel sends the parent-death signal when the thread that forked ends, so that thread has to stay until the
	// child has ended.
	go func() {
		err := h.Do(func() error {
			cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
			if err := cmd.Start(); err != nil {
				return err
			}
			started <- nil
			p.err = cmd.Wait()
			close(p.done)
			return nil
		})
		if err != nil {
			started <- fmt.Errorf("%s: starting %s: %w", h.Name, name, err)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// Output runs a program in h to its end and returns what it wrote to standard output.
func (h *Host) Output(ctx context.Context, name string, args ...string) ([]byte, error) {
	var out []byte
	err := h.Do(func() error {
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		var err error
		out, err = cmd.Output()
		return err
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return out, err
}

// PID returns the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns how the process ended, as exec.Cmd.Wait does; call it after Done.
func (p *Process) Err() error { return p.err }

// Signal sends a signal. A process that has ended already is no error.
func (p *Process) Signal(s syscall.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
		return p.cmd.Process.Signal(s)
	}
}

// Stop asks the process to end by SIGTERM, kills it when it has not within grace, and returns how it ended.
func (p *Process) Stop(grace time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.done:
		return p.err
	case <-time.After(grace):
	}
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-p.done
	return fmt.Errorf("killed after %v: %w", grace, p.err)
}
