package engine

import (
	"errors"
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"sluice/config/topology"
)

// preflight checks what can be checked before anything is opened, all at once, and returns the kernel's indices of the
// interfaces.
func preflight(t *topology.Topology) ([]int, error) {
	if len(t.Gateway.Interfaces) == 0 {
		return nil, errors.New("gateway.interfaces is empty: name the interfaces to attach to, for example [\"eth0\", \"eth1\"]")
	}
	errs := []error{checkCapabilities()}
	var indices []int
	for _, name := range t.Gateway.Interfaces {
		i, err := net.InterfaceByName(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("gateway.interfaces: %s: no such interface here; ip link lists those that exist", name))
			continue
		}
		if i.Flags&net.FlagLoopback != 0 {
			errs = append(errs, fmt.Errorf("gateway.interfaces: %s is a loopback interface: nothing can be forwarded there", name))
		}
		indices = append(indices, i.Index)
	}
	return indices, errors.Join(errs...)
}

// need are the capabilities that attaching takes. CAP_SYS_ADMIN stands in for CAP_BPF, as in the kernel.
var need = [...]struct {
	number int
	name   string
}{
	{unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"},
	{unix.CAP_NET_RAW, "CAP_NET_RAW"},
	{unix.CAP_BPF, "CAP_BPF"},
}

// checkCapabilities names the privileges that are missing.
func checkCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	has := func(n int) bool { return data[n/32].Effective&(1<<(n%32)) != 0 }
	var errs []error
	for _, c := range need {
		if !has(c.number) && !(c.number == unix.CAP_BPF && has(unix.CAP_SYS_ADMIN)) {
			errs = append(errs, fmt.Errorf("%s is missing: run as root, or grant it to the process", c.name))
		}
	}
	return errors.Join(errs...)
}
