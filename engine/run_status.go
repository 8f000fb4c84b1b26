package engine

import (
	"net/netip"
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"sluice/conntrack"
	"sluice/engine/admin"
	sluicemetrics "sluice/engine/metrics"
	"sluice/nat"
	"sluice/nat/reason"
	"sluice/xdp"
	"sluice/xdp/packet"
)

// total adds up the counters of all workers.
func (a *appliance) total() (packets, bytes [reason.Count]uint64) {
	for _, c := range a.counters {
		for r := range reason.Count {
			packets[r] += c.Packets(reason.Reason(r))
			bytes[r] += c.Bytes(reason.Reason(r))
		}
	}
	return packets, bytes
}

// socketStats returns the counters of all sockets.
func (a *appliance) socketStats() (out []xdp.SocketStats) {
	for _, p := range a.sockets.Ports {
		out = append(out, p.Stats()...)
	}
	return out
}

// classified returns what the XDP program did; while it is being detached, nothing.
func (a *appliance) classified() []xdp.ClassifyStats {
	stats, err := a.attachment.Stats()
	if err != nil {
		a.log.Debug("counters of the XDP program", "error", err)
	}
	return stats
}

// sample is what the metrics show.
func (a *appliance) sample() sluicemetrics.Sample {
	s := sluicemetrics.Sample{
		Generation: a.controller.Current().Generation,
		Sockets:    a.socketStats(),
		Classified: a.classified(),
		Flows:      a.flows.Stats(),
		Purged:     a.stale.Purged(),
		Reloads:    a.reloads.done.Load(),
		Refused:    a.reloads.failed.Load(),
	}
	s.Packets, s.Bytes = a.total()
	s.DNS.Sockets, s.DNS.Forward = a.names.counters(), a.names.forwarded()
	for _, w := range a.workers {
		ring := w.pipeline.DNSCounters()
		s.DNS.Ring.Add(&ring)
	}
	s.Punted, s.PuntFailed = a.punt.Punted()
	ports := a.checks.Stats()
	s.HealthPorts, s.HealthPortsMissing, s.HealthPortFailures = ports.Listening, ports.Missing, ports.Failures
	for _, e := range (status{a}).Endpoints() {
		switch e.Health {
		case admin.HealthUp:
			s.Up++
		case admin.HealthDown:
			s.Down++
		}
	}
	return s
}

// status is what the admin socket shows.
type status struct{ *appliance }

// Stats implements admin.Source.
func (s status) Stats() admin.Stats {
	out := admin.Stats{
		Uptime:     time.Since(s.started).Seconds(),
		Generation: s.controller.Current().Generation,
		NextHops:   s.nextHops.Current().Generation(),
		Workers:    len(s.workers),
		Packets:    map[string]uint64{},
		Bytes:      map[string]uint64{},
		Attached:   s.attachment.Interfaces(),
		Classified: s.classified(),
		Sockets:    s.socketStats(),
		Conntrack:  conntrackStatus(s.flows.Stats()),
		Memory:     memory(),
		Reloads:    admin.Reloads{Done: s.reloads.done.Load(), Failed: s.reloads.failed.Load()},
	}
	out.Conntrack.Purged = s.stale.Purged()
	out.Unreachable = list(s.nextHops.Current().Failed(s.controller.Current().NAT.BackendAddrs()))
	packets, bytes := s.total()
	for r := range reason.Count {
		if packets[r] > 0 {
			out.Packets[reason.Reason(r).String()], out.Bytes[reason.Reason(r).String()] = packets[r], bytes[r]
		}
	}
	out.Punt.Taken, out.Punt.Refused = s.punt.Punted()
	return out
}

func conntrackStatus(s conntrack.Stats) admin.Conntrack {
	return admin.Conntrack{MaxFlows: s.MaxFlows, Live: s.Live, Peak: s.Peak, Inserted: s.Inserted, Expired: s.Expired,
		Removed: s.Removed, Clashes: s.Clashes, Full: s.Full}
}

// memory asks the runtime and the kernel; what cannot be read is 0.
func memory() (m admin.Memory) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	if metrics.Read(samples); samples[0].Value.Kind() == metrics.KindUint64 {
		m.Heap = samples[0].Value.Uint64()
	}
	text, err := os.ReadFile("/proc/self/statm") // in pages: size, resident, ...
	if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
		if pages, err := strconv.ParseUint(fields[1], 10, 64); err == nil {
			m.Resident = pages * uint64(os.Getpagesize())
		}
	}
	return m
}

// Services implements admin.Source.
func (s status) Services() []admin.Service {
	out := []admin.Service{}
	for svc, ports := range s.controller.Current().NAT.Services() {
		o := admin.Service{Namespace: svc.Namespace, Name: svc.Name, Type: string(svc.Type),
			ClusterIPs: list(svc.ClusterIPs), ExternalIPs: list(svc.ExternalIPs), LoadBalancerIPs: list(svc.LoadBalancerIPs)}
		for _, p := range ports {
			o.Ports = append(o.Ports, admin.Port{Name: p.Name, Protocol: protocol(p), Port: p.Port, NodePort: p.NodePort,
				Backends: len(p.Backends())})
		}
		out = append(out, o)
	}
	return out
}

// list returns addrs so that JSON has a list also when there are none.
func list(addrs []netip.Addr) []netip.Addr { return append([]netip.Addr{}, addrs...) }

// protocol is spelled as in Kubernetes.
func protocol(p *nat.Port) string { return strings.ToUpper(packet.ProtoName(p.Proto)) }

// Endpoints implements admin.Source.
func (s status) Endpoints() []admin.Endpoint {
	out := []admin.Endpoint{}
	for p := range s.controller.Current().NAT.Ports() {
		for _, b := range p.Backends() {
			e := b.Endpoint
			o := admin.Endpoint{Service: p.Service.Key(), Port: p.Name, Protocol: protocol(p), Address: b.AddrPort, Node: e.Node,
				Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Weight: b.Weight}
			o.Health, o.Reason = s.healthOf(p, b)
			out = append(out, o)
		}
	}
	return out
}

// healthOf says how a backend does in its health checks, and why.
func (s status) healthOf(p *nat.Port, b *nat.Backend) (result, why string) {
	state, ok := s.health.State(p.Service.Key(), p.Name, b.AddrPort)
	switch {
	case !ok:
		return admin.HealthUnchecked, ""
	case state.Up:
		return admin.HealthUp, state.Reason
	}
	return admin.HealthDown, state.Reason
}
