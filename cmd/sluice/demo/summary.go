package demo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/engine/admin"
)

// startGateway starts the appliance and waits until it is ready.
func (d *demo) startGateway(ctx context.Context) error {
	start := time.Now()
	const log = "gateway.log"
	var err error
	if d.gateway, err = d.start(d.net.gateway, log, "run", "-c", d.config); err != nil {
		return err
	}
	client := admin.NewClient(d.admin)
	for end := start.Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if stats, err := client.Stats(ctx); err == nil {
			d.print.step("gateway: sluice run", fmt.Sprintf("%s, ready after %d ms", obtained(&stats), time.Since(start).Milliseconds()), nil)
			return nil
		}
		select {
		case <-d.gateway.Done():
			return fmt.Errorf("the gateway ended: %w\n%s", d.gateway.Err(), d.log(log))
		case <-ctx.Done():
			return ctx.Err()
		default:
		}
	}
	return fmt.Errorf("the gateway is not ready after 15 s\n%s", d.log(log))
}

// obtained says what the appliance got of the kernel.
func obtained(s *admin.Stats) string {
	var parts []string
	for _, a := range s.Attached {
		parts = append(parts, fmt.Sprintf("%s %s", a.Interface, a.Mode))
	}
	copied := "copy mode"
	for _, k := range s.Sockets {
		if k.ZeroCopy {
			copied = "zero-copy"
		}
	}
	return strings.Join(append(parts, copied), ", ")
}

// awaitHealth waits until all endpoints of shop/web on a backend are up or down, and returns how long that took and why.
func (d *demo) awaitHealth(ctx context.Context, backend int, up bool) (time.Duration, string, error) {
	start := time.Now()
	v4, _ := backendAddrs(backend)
	want := admin.HealthDown
	if up {
		want = admin.HealthUp
	}
	client := admin.NewClient(d.admin)
	for end := start.Add(15 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		endpoints, err := client.Endpoints(ctx)
		if err != nil {
			return 0, "", err
		}
		i := slices.IndexFunc(endpoints, func(e admin.Endpoint) bool {
			return e.Service == "shop/web" && e.Address.Addr().String() == v4
		})
		if i < 0 {
			return 0, "", fmt.Errorf("no endpoint %s of shop/web", v4)
		}
		if endpoints[i].Health == want {
			return time.Since(start), endpoints[i].Reason, nil
		}
	}
	return 0, "", errors.New("not within 15 s")
}

// summary prints what the gateway counted.
func (d *demo) summary(ctx context.Context) {
	d.print.title("What the gateway counted")
	stats, err := admin.NewClient(d.admin).Stats(ctx)
	d.print.step("packets by reason", "", err)
	if err != nil {
		return
	}
	for _, reason := range slices.Sorted(maps.Keys(stats.Packets)) {
		fmt.Fprintf(d.opts.Out, "      %-20s %8d\n", reason, stats.Packets[reason])
	}
	d.print.step("flows", fmt.Sprintf("%d opened, %d now", stats.Conntrack.Inserted, stats.Conntrack.Live), nil)
	d.print.step("resident memory", fmt.Sprintf("%.0f MiB", float64(stats.Memory.Resident)/(1<<20)), nil)
}

// keys joins the answers of a DNS step.
func keys(answers map[string]int) string {
	return strings.Join(slices.Sorted(maps.Keys(answers)), ", ")
}
