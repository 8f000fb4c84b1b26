package forward_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mdns "github.com/miekg/dns"

	"sluice/dns/dnstest"
	"sluice/dns/forward"
)

// clock is a time that tests move.
type clock struct{ nanos atomic.Int64 }

func (c *clock) now() time.Time        { return time.Unix(1_000_000, c.nanos.Load()) }
func (c *clock) pass(by time.Duration) { c.nanos.Add(int64(by)) }

// forwarder asks upstreams for everything.
func forwarder(t *testing.T, c *clock, change func(*forward.Options), upstreams ...*dnstest.Upstream) *forward.Forwarder {
	t.Helper()
	list := forward.List{}
	for _, u := range upstreams {
		list.Addrs = append(list.Addrs, u.Addr)
	}
	o := forward.Options{Now: c.now, Log: slog.New(slog.DiscardHandler), Attempt: 500 * time.Millisecond, ProbeEvery: 20 * time.Millisecond}
	if change != nil {
		change(&o)
	}
	f := forward.New(forward.Servers{list}, o)
	t.Cleanup(f.Close)
	return f
}

// resolve asks for the A records of a name and returns the answer section as lines.
func resolve(t *testing.T, f *forward.Forwarder, name string) (lines []string, rcode int) {
	t.Helper()
	m, err := f.Resolve(context.Background(), forward.Question{Name: name, Type: mdns.TypeA})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if m.IsEdns0() != nil {
		t.Errorf("%s: the OPT record of the upstream came along", name)
	}
	for _, r := range m.Answer {
		lines = append(lines, strings.ReplaceAll(r.String(), "\t", " "))
	}
	return lines, m.Rcode
}

func expect(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// TestCache keeps answers for as long as they say, with the time that is left; denials for as long as their SOA says; failures briefly.
func TestCache(t *testing.T) {
	const soa = "example. 60 IN SOA ns.example. host.example. 1 2 3 4 "
	for _, c := range []struct {
		name   string
		answer func(mdns.ResponseWriter, *mdns.Msg)
		kept   time.Duration // 0: not at all
	}{
		{"records", dnstest.Records(t, "a.example. 90 IN A 192.0.2.1", "a.example. 30 IN A 192.0.2.2"), 30 * time.Second},
		{"a long time", dnstest.Records(t, "a.example. 90000 IN A 192.0.2.1"), time.Hour},
		{"no time", dnstest.Records(t, "a.example. 0 IN A 192.0.2.1"), 0},
		{"no data, minimum of the SOA", dnstest.Records(t, soa+"20"), 20 * time.Second},
		{"no data, TTL of the SOA", dnstest.Records(t, soa+"2000"), 60 * time.Second},
		{"no data without SOA", dnstest.Records(t), 0},
		{"an alias to nothing", dnstest.Records(t, "a.example. 10 IN CNAME b.example.", soa+"20"), 10 * time.Second},
		{"server failure", dnstest.Code(t, mdns.RcodeServerFailure), 5 * time.Second},
		{"refused", dnstest.Code(t, mdns.RcodeRefused), 5 * time.Second},
		{"large", dnstest.Records(t, slices.Repeat([]string{"a.example. 90 IN TXT " + strings.Repeat("a", 255)}, 40)...), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, now := dnstest.Serve(t, c.answer), &clock{}
			f := forwarder(t, now, nil, u)
			resolve(t, f, "a.example.")
			first := u.Asked.Load()
			if c.kept > 0 {
				now.pass(c.kept - 1)
				resolve(t, f, "a.example.")
				if n := u.Asked.Load(); n != first {
					t.Errorf("asked %d times within %v, want %d", n, c.kept, first)
				}
				now.pass(1)
			}
			resolve(t, f, "a.example.")
			if n := u.Asked.Load(); n != 2*first {
				t.Errorf("asked %d times in all, want %d", n, 2*first)
			}
		})
	}
}

func TestTimeLeft(t *testing.T) {
	u, now := dnstest.Serve(t, dnstest.Records(t, "a.example. 90 IN A 192.0.2.1", "a.example. 30 IN A 192.0.2.2")), &clock{}
	f := forwarder(t, now, nil, u)
	resolve(t, f, "a.example.")
	now.pass(10*time.Second + 900*time.Millisecond)
	got, _ := resolve(t, f, "a.example.")
	expect(t, "after 10.9 s", got, "a.example. 80 IN A 192.0.2.1", "a.example. 20 IN A 192.0.2.2")
	if c := f.Counters(); c.Hits != 1 || c.Misses != 1 || c.Entries != 1 || c.Denials != 0 {
		t.Errorf("counted %+v", c)
	}
}

// TestStale gives an answer that has run out when no upstream has another, for an hour and with 30 s to live.
func TestStale(t *testing.T) {
	u, now := dnstest.Serve(t, dnstest.Records(t, "a.example. 90 IN A 192.0.2.1")), &clock{}
	f := forwarder(t, now, nil, u)
	resolve(t, f, "a.example.")
	for _, broken := range []func(mdns.ResponseWriter, *mdns.Msg){dnstest.Code(t, mdns.RcodeServerFailure), dnstest.Silence} {
		now.pass(91 * time.Second)
		u.Set(broken)
		got, rcode := resolve(t, f, "a.example.")
		expect(t, "stale", got, "a.example. 30 IN A 192.0.2.1")
		if rcode != mdns.RcodeSuccess {
			t.Errorf("rcode %d", rcode)
		}
	}
	asked := u.Asked.Load()
	resolve(t, f, "a.example.")
	if u.Asked.Load() != asked {
		t.Error("asked again right after nobody had an answer")
	}
	u.Set(dnstest.Records(t, "a.example. 40 IN A 192.0.2.7"))
	now.pass(6 * time.Second)
	got, _ := resolve(t, f, "a.example.")
	expect(t, "fresh", got, "a.example. 40 IN A 192.0.2.7")
	u.Set(dnstest.Code(t, mdns.RcodeServerFailure))
	now.pass(time.Hour + 41*time.Second)
	if _, rcode := resolve(t, f, "a.example."); rcode != mdns.RcodeServerFailure {
		t.Errorf("rcode %d more than an hour after the answer ran out, want a server failure", rcode)
	}
}

// TestPrefetch renews an answer that is asked for in the last tenth of its time, once.
func TestPrefetch(t *testing.T) {
	u, now := dnstest.Serve(t, dnstest.Records(t, "a.example. 100 IN A 192.0.2.1")), &clock{}
	f := forwarder(t, now, nil, u)
	resolve(t, f, "a.example.")
	now.pass(50 * time.Second)
	resolve(t, f, "a.example.")
	now.pass(45 * time.Second)
	resolve(t, f, "a.example.")
	eventually(t, "prefetch", func() bool {
		got, _ := resolve(t, f, "a.example.")
		return slices.Equal(got, []string{"a.example. 100 IN A 192.0.2.1"})
	})
	if n, c := u.Asked.Load(), f.Counters(); n != 2 || c.Prefetches != 1 {
		t.Errorf("asked %d times, %d prefetches", n, c.Prefetches)
	}
}

// TestFailover asks another server when one fails in any way, each twice at most.
func TestFailover(t *testing.T) {
	good := "a.example. 90 IN A 192.0.2.1"
	for _, c := range []struct {
		name string
		bad  func(mdns.ResponseWriter, *mdns.Msg)
	}{
		{"silent", dnstest.Silence},
		{"server failure", dnstest.Code(t, mdns.RcodeServerFailure)},
		{"refused", dnstest.Code(t, mdns.RcodeRefused)},
		{"not implemented", dnstest.Code(t, mdns.RcodeNotImplemented)},
		{"another question", func(w mdns.ResponseWriter, q *mdns.Msg) {
			m := new(mdns.Msg).SetReply(q)
			m.Question = []mdns.Question{{Name: "other.example.", Qtype: q.Question[0].Qtype, Qclass: mdns.ClassINET}}
			dnstest.Reply(t, w, m)
		}},
		{"no question", func(w mdns.ResponseWriter, q *mdns.Msg) {
			m := new(mdns.Msg).SetReply(q)
			m.Question = nil
			dnstest.Reply(t, w, m)
		}},
		{"a query", func(w mdns.ResponseWriter, q *mdns.Msg) { dnstest.Reply(t, w, q.Copy()) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			bad, now := dnstest.Serve(t, c.bad), &clock{}
			f := forwarder(t, now, func(o *forward.Options) { o.Attempt = 100 * time.Millisecond }, bad, dnstest.Serve(t, dnstest.Records(t, good)))
			for i := range 10 { // some of them begin with the bad one
				got, rcode := resolve(t, f, string(rune('a'+i))+".example.")
				if expect(t, c.name, got, good); rcode != mdns.RcodeSuccess {
					t.Errorf("rcode %d", rcode)
				}
			}
		})
	}
	t.Run("both", func(t *testing.T) {
		now := &clock{}
		bad := []*dnstest.Upstream{dnstest.Serve(t, dnstest.Code(t, mdns.RcodeRefused)), dnstest.Serve(t, dnstest.Code(t, mdns.RcodeRefused))}
		f := forwarder(t, now, nil, bad...)
		if _, rcode := resolve(t, f, "a.example."); rcode != mdns.RcodeRefused {
			t.Errorf("rcode %d, want what both say", rcode)
		}
		if n := [2]int64{bad[0].Asked.Load(), bad[1].Asked.Load()}; n != [2]int64{2, 2} {
			t.Errorf("asked %v times, want each twice", n)
		}
	})
}

// TestRecovery leaves a silent server alone, and takes it back when it answers a probe.
func TestRecovery(t *testing.T) {
	u, now := dnstest.Serve(t, dnstest.Silence), &clock{}
	f := forwarder(t, now, func(o *forward.Options) { o.Attempt = 50 * time.Millisecond }, u)
	if _, err := f.Resolve(context.Background(), forward.Question{Name: "a.example.", Type: mdns.TypeA}); !errors.Is(err, forward.ErrUnreachable) {
		t.Errorf("error %v", err)
	}
	eventually(t, "unhealthy", func() bool { return f.Counters().Unhealthy == 1 })
	if c := f.Counters(); c.Failures != 2 || c.Sent != 2 {
		t.Errorf("counted %+v, want two attempts", c)
	}
	u.Set(dnstest.Records(t, "a.example. 90 IN A 192.0.2.1"))
	eventually(t, "healthy", func() bool { return f.Counters().Unhealthy == 0 })
	now.pass(6 * time.Second)
	got, _ := resolve(t, f, "a.example.")
	expect(t, "recovered", got, "a.example. 90 IN A 192.0.2.1")
}

// TestTruncated asks by TCP for what does not fit.
func TestTruncated(t *testing.T) {
	now := &clock{}
	u := dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		m := new(mdns.Msg).SetReply(q)
		if _, udp := w.RemoteAddr().(*net.UDPAddr); udp {
			m.Truncated = true
		} else {
			m.Answer = []mdns.RR{&mdns.A{Hdr: mdns.RR_Header{Name: q.Question[0].Name, Rrtype: mdns.TypeA, Class: mdns.ClassINET, Ttl: 9}, A: net.IPv4(192, 0, 2, 9)}}
		}
		dnstest.Reply(t, w, m)
	})
	got, _ := resolve(t, forwarder(t, now, nil, u), "a.example.")
	expect(t, "by TCP", got, "a.example. 9 IN A 192.0.2.9")
}

// TestStubs asks the servers of the longest domain.
func TestStubs(t *testing.T) {
	named := func(addr string) *dnstest.Upstream { return dnstest.Serve(t, dnstest.Records(t, "x. 90 IN A "+addr)) }
	all, corp, lab := named("192.0.2.1"), named("192.0.2.2"), named("192.0.2.3")
	list := func(domain string, u *dnstest.Upstream) forward.List {
		return forward.List{Domain: domain, Addrs: []netip.AddrPort{u.Addr}}
	}
	f := forward.New(forward.Servers{list("", all), list("corp.example", corp), list("lab.corp.example", lab)}, forward.Options{})
	t.Cleanup(f.Close)
	for name, want := range map[string]string{"example.": "192.0.2.1", "xcorp.example.": "192.0.2.1", "corp.example.": "192.0.2.2",
		"a.corp.example.": "192.0.2.2", "lab.corp.example.": "192.0.2.3", "a.b.lab.corp.example.": "192.0.2.3", ".": "192.0.2.1"} {
		got, _ := resolve(t, f, name)
		expect(t, name, got, "x. 90 IN A "+want)
	}
	only := forward.New(forward.Servers{list("corp.example", corp)}, forward.Options{})
	t.Cleanup(only.Close)
	if _, err := only.Resolve(context.Background(), forward.Question{Name: "example.", Type: mdns.TypeA}); !errors.Is(err, forward.ErrNoUpstream) {
		t.Errorf("error %v", err)
	}
}

// TestOneQuestion asks once for what many want at the same time.
func TestOneQuestion(t *testing.T) {
	now, release := &clock{}, make(chan struct{})
	answer := dnstest.Records(t, "a.example. 90 IN A 192.0.2.1")
	u := dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		if q.Question[0].Qtype == mdns.TypeA {
			<-release
		}
		answer(w, q)
	})
	f := forwarder(t, now, func(o *forward.Options) { o.Attempt, o.MaxInFlight = 5*time.Second, 1 }, u)
	var wait sync.WaitGroup
	for range 50 {
		wait.Go(func() {
			got, _ := resolve(t, f, "a.example.")
			expect(t, "one of many", got, "a.example. 90 IN A 192.0.2.1")
		})
	}
	eventually(t, "asked", func() bool { return u.Asked.Load() == 1 })
	if _, err := f.Resolve(context.Background(), forward.Question{Name: "b.example.", Type: mdns.TypeA}); !errors.Is(err, forward.ErrOverload) {
		t.Errorf("error %v, want an overload: one question is in flight", err)
	}
	close(release)
	wait.Wait()
	if n, c := u.Asked.Load(), f.Counters(); n != 1 || c.Overloads != 1 {
		t.Errorf("asked %d times, %d overloads", n, c.Overloads)
	}
}

// TestLoop finds out that a server sends what it is asked back here, leaves it out, and says so.
func TestLoop(t *testing.T) {
	now := &clock{}
	var f atomic.Pointer[forward.Forwarder]
	looping := dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		m := new(mdns.Msg).SetRcode(q, mdns.RcodeServerFailure)
		if f := f.Load(); f != nil {
			if r, err := f.Resolve(context.Background(), forward.Question{Name: q.Question[0].Name, Type: q.Question[0].Qtype}); err == nil {
				m = r.SetReply(q)
			}
		}
		dnstest.Reply(t, w, m)
	})
	good := dnstest.Serve(t, dnstest.Records(t, "a.example. 90 IN A 192.0.2.1"))
	f.Store(forwarder(t, now, nil, looping, good))
	eventually(t, "left out", func() bool { return f.Load().Counters().Unhealthy == 1 })
	before := looping.Asked.Load()
	for i := range 10 {
		got, _ := resolve(t, f.Load(), string(rune('a'+i))+".example.")
		expect(t, "by the other", got, "a.example. 90 IN A 192.0.2.1")
	}
	if n := looping.Asked.Load(); n != before {
		t.Errorf("the server that asks back was asked %d times", n-before)
	}
}

// TestBits passes on that DNSSEC records are wanted, and that answers need not validate, and keeps the answers apart.
func TestBits(t *testing.T) {
	now := &clock{}
	var mu sync.Mutex
	var seen []string
	answer := dnstest.Records(t, "a.example. 90 IN A 192.0.2.1")
	u := dnstest.Serve(t, func(w mdns.ResponseWriter, q *mdns.Msg) {
		if q.Question[0].Qtype == mdns.TypeA {
			mu.Lock()
			o := q.IsEdns0()
			seen = append(seen, strings.Join([]string{map[bool]string{true: "do"}[o.Do()], map[bool]string{true: "cd"}[q.CheckingDisabled],
				map[bool]string{true: "rd"}[q.RecursionDesired], map[bool]string{true: "1232"}[o.UDPSize() == 1232]}, " "))
			mu.Unlock()
		}
		answer(w, q)
	})
	f := forwarder(t, now, nil, u)
	for _, bits := range [][2]bool{{}, {true, false}, {false, true}, {true, true}, {}} {
		if _, err := f.Resolve(context.Background(), forward.Question{Name: "a.example.", Type: mdns.TypeA, DO: bits[0], CD: bits[1]}); err != nil {
			t.Fatal(err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	expect(t, "queries", seen, "  rd 1232", "do  rd 1232", " cd rd 1232", "do cd rd 1232")
}

// TestClose gives who waits an error at once.
func TestClose(t *testing.T) {
	now := &clock{}
	u := dnstest.Serve(t, dnstest.Silence)
	f := forwarder(t, now, func(o *forward.Options) { o.Attempt, o.Deadline = time.Hour, time.Hour }, u)
	failed := make(chan error)
	go func() {
		_, err := f.Resolve(context.Background(), forward.Question{Name: "a.example.", Type: mdns.TypeA})
		failed <- err
	}()
	eventually(t, "asked", func() bool { return u.Asked.Load() == 1 })
	f.Close()
	if err := <-failed; err == nil {
		t.Error("no error")
	}
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for range 1000 {
		if ok() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("%s: not within 10 s", what)
}
