package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"sluice/config"
	"sluice/config/topology"
)

// TestFileSourceKeeps loads a topology, changes it, and starts anew: what was allocated stays, once it is accepted.
func TestFileSourceKeeps(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "web.toml"), filepath.Join(dir, "lib", "state.json")
	write := func(asked string) {
		t.Helper()
		text := fmt.Sprintf("[gateway]\nnode = \"gw\"\nstate_file = %q\n[cluster]\nservice_cidrs = [\"198.19.0.0/17\"]\n"+
			"[[node]]\nname = \"gw\"\naddresses = [\"198.18.0.1\"]\n[[service]]\nnamespace = \"shop\"\nname = \"web\"\n%s\n[[service.port]]\nport = 80\n", path, asked)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	source := func() *fileSource {
		return &fileSource{path: file, log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	}
	load := func(f *fileSource) (*topology.Topology, string) {
		t.Helper()
		top, err := f.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return top, top.Services[0].ClusterIPs[0].String()
	}

	write(`cluster_ips = ["198.19.0.7"]`)
	first := source()
	top, _ := load(first)
	if _, err := os.Stat(path); err == nil {
		t.Error("the state was written before the topology was accepted")
	}
	if err := first.Accepted(top); err != nil {
		t.Fatal(err)
	}
	write("")
	next, a := load(first)
	if a != "198.19.0.7" {
		t.Errorf("after a change: %s", a)
	}
	if _, a := load(source()); a != "198.19.0.7" {
		t.Errorf("after a restart: %s", a)
	}
	write(`cluster_ips = ["198.19.0.8"]`)
	load(first)
	if err := first.Accepted(next); err != nil { // no longer the one loaded last
		t.Fatal(err)
	}
	if s, err := config.ReadState(path); err != nil || s.Services["shop/web"].ClusterIPs[0].String() != "198.19.0.7" {
		t.Errorf("%+v, %v", s, err)
	}
}
