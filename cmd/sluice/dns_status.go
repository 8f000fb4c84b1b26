package main

import (
	"fmt"
	"io"
	"net/http"

	"sluice/engine/healthz"
	"sluice/engine/metrics"
)

// serveStatus serves status on address until stop is called.
func (d *dnsServers) serveStatus(address string) (stop func() error, err error) {
	handler, err := d.status()
	if err != nil {
		return nil, err
	}
	if stop, err = healthz.Serve(address, handler, d.log); err != nil {
		return nil, fmt.Errorf("--health: %w", err)
	}
	return stop, nil
}

// status serves /health which says that the process lives, /ready which says whether it answers, and /metrics.
func (d *dnsServers) status() (http.Handler, error) {
	counted, err := metrics.ServerHandler(d.sample)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ready", &d.ready)
	mux.Handle("/metrics", counted)
	mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "OK") // an error here is of the connection: its client does not want to know
	})
	return mux, nil
}

// missing names what answering takes and is not there yet.
func (d *dnsServers) missing() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.zones == nil {
		names = append(names, "zones")
	}
	for _, a := range d.addrs[len(d.servers):] { // they are opened in this order
		names = append(names, fmt.Sprintf("dns %v", a))
	}
	return names
}

// sample is what the metrics show.
func (d *dnsServers) sample() metrics.ServerSample {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := metrics.ServerSample{Version: version, Reloads: d.reloads.done, Refused: d.reloads.refused}
	for _, server := range d.servers {
		s.DNS.Sockets.Add(server.Counters())
	}
	s.DNS.Forward = d.retired
	if d.forward != nil {
		s.DNS.Forward.Add(d.forward.Counters())
	}
	return s
}
