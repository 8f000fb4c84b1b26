package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// requests is how many new flows each step sends: enough that a backend left out by chance is one in 10^5.
const requests = 30

// target is one service address that a step tries.
type target struct {
	what, kind, addr, name string
}

// play runs the steps in order. A failing step does not keep the later ones from running.
func (d *demo) play(ctx context.Context) {
	d.print.title(fmt.Sprintf("Who answered, %d new flows each", requests))
	for _, t := range balanced() {
		d.stepBalanced(ctx, t)
	}
	d.print.title("DNS from the gateway")
	for _, t := range questions() {
		d.stepQuestion(ctx, t)
	}
	d.print.title("The address itself")
	d.stepAll(ctx, target{"ping the VIP", "ping", "198.19.200.10", ""}, "reply")
	d.stepAll(ctx, target{"ping the VIP, IPv6", "ping", "2001:db8:97::10", ""}, "reply")
	d.stepAll(ctx, target{"shop/idle has no endpoints: refused at once", "refused", "198.19.0.40:80", ""}, "refused")
	d.playFailure(ctx)
	d.summary(ctx)
}

// balanced are the services that all three backends serve.
func balanced() []target {
	return []target{
		{"shop/web  VIP         198.19.200.10:80", "http", "198.19.200.10:80", ""},
		{"shop/web  VIP         [2001:db8:97::10]:80", "http", "[2001:db8:97::10]:80", ""},
		{"shop/web  NodePort    198.18.0.1:30080", "http", "198.18.0.1:30080", ""},
		{"shop/web  NodePort    [2001:db8:a::1]:30080", "http", "[2001:db8:a::1]:30080", ""},
		{"shop/web  ClusterIP   198.19.0.20:80", "http", "198.19.0.20:80", ""},
		{"shop/web  external IP 198.19.201.20:80", "http", "198.19.201.20:80", ""},
		{"shop/echo UDP         198.19.0.30:7", "udp", "198.19.0.30:7", ""},
		{"shop/echo UDP         [2001:db8:96::30]:7", "udp", "[2001:db8:96::30]:7", ""},
	}
}

// questions are the DNS steps; addr is the VIP of kube-system/kube-dns, at which the gateway answers itself.
func questions() []target {
	return []target{
		{"web.shop, A over UDP", "dns-udp", "198.19.0.10:53", "web.shop.svc.cluster.local"},
		{"web.shop, AAAA over UDP, IPv6", "dns-udp", "[2001:db8:96::10]:53", "web.shop.svc.cluster.local/AAAA"},
		{"web.shop, A over TCP", "dns-tcp", "198.19.0.10:53", "web.shop.svc.cluster.local"},
		{"db.shop, headless: its ready endpoints", "dns-udp", "198.19.0.10:53", "db.shop.svc.cluster.local"},
	}
}

// client runs the client process in the client's namespace.
func (d *demo) client(ctx context.Context, t target, count int) (Tally, error) {
	args := []string{"demo", "client", "--kind", t.kind, "--target", t.addr, "--count", strconv.Itoa(count)}
	if t.name != "" {
		args = append(args, "--name", t.name)
	}
	out, err := d.net.client.Output(ctx, d.opts.Self, args...)
	if err != nil {
		return Tally{}, fmt.Errorf("client: %w", err)
	}
	var tally Tally
	if err := json.Unmarshal(out, &tally); err != nil {
		return Tally{}, fmt.Errorf("client: %w", err)
	}
	return tally, nil
}

// failures turns lost requests into an error.
func (t Tally) failures() error {
	if t.Failed == 0 {
		return nil
	}
	return fmt.Errorf("%d failed: %s", t.Failed, t.Error)
}

// stepBalanced expects every request answered and every backend among the answers.
func (d *demo) stepBalanced(ctx context.Context, t target) {
	tally, err := d.client(ctx, t, requests)
	if err == nil {
		err = tally.failures()
	}
	for _, b := range backendNames() {
		if err == nil && tally.Answers[b] == 0 {
			err = fmt.Errorf("%s never answered: %s", b, counts(tally.Answers, backendNames()))
		}
	}
	d.print.step(t.what, fmt.Sprintf("%s %6.1f ms", counts(tally.Answers, backendNames()), tally.Millis), err)
}

// stepQuestion expects answers to one DNS question, and prints them.
func (d *demo) stepQuestion(ctx context.Context, t target) {
	tally, err := d.client(ctx, t, 1)
	if err == nil {
		err = tally.failures()
	}
	d.print.step(t.what, keys(tally.Answers), err)
}

// stepAll expects each of five requests to be answered by want.
func (d *demo) stepAll(ctx context.Context, t target, want string) {
	const count = 5
	tally, err := d.client(ctx, t, count)
	if err == nil {
		err = tally.failures()
	}
	if err == nil && tally.Answers[want] != count {
		err = fmt.Errorf("%d of %d", tally.Answers[want], count)
	}
	d.print.step(t.what, fmt.Sprintf("%d of %d in %.1f ms", count, count, tally.Millis), err)
}

// playFailure stops a backend, waits for its health check to find out, and watches new flows go elsewhere; then the reverse.
func (d *demo) playFailure(ctx context.Context) {
	const victim = 1
	name := backendNames()[victim]
	vip := balanced()[0]
	d.print.title("A backend stops, and comes back")
	err := d.servers[victim].Stop(5 * time.Second)
	d.print.step(name+" stopped", "its connections are refused now", err)
	took, reason, err := d.awaitHealth(ctx, victim, false)
	d.print.step("found by its health check", fmt.Sprintf("after %.1f s: %s", took.Seconds(), reason), err)
	d.stepWithout(ctx, vip, name)
	err = d.startServers(victim)
	d.print.step(name+" started again", "", err)
	took, _, err = d.awaitHealth(ctx, victim, true)
	d.print.step("found by its health check", fmt.Sprintf("after %.1f s", took.Seconds()), err)
	d.stepBalanced(ctx, vip)
}

// stepWithout expects every request answered, none by the backend that is down, and both others among the answers.
func (d *demo) stepWithout(ctx context.Context, t target, down string) {
	tally, err := d.client(ctx, t, requests)
	if err == nil {
		err = tally.failures()
	}
	for _, b := range backendNames() {
		if err == nil && (tally.Answers[b] == 0) != (b == down) {
			err = errors.New(counts(tally.Answers, backendNames()))
		}
	}
	d.print.step("new flows go elsewhere", counts(tally.Answers, backendNames()), err)
}
