package config

import (
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"sluice/config/topology"
)

// oneService is a state with one service.
func oneService(address string) *topology.State {
	return &topology.State{Version: topology.StateVersion, Services: map[string]topology.ServiceState{
		"shop/web": {ClusterIPs: []netip.Addr{netip.MustParseAddr(address)}}}}
}

// listed returns the names in a directory.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWriteState(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lib", "sluice") // is not there yet
	path := filepath.Join(dir, "state.json")
	for _, a := range []string{"198.19.0.7", "198.19.0.8", "198.19.0.8"} {
		want := oneService(a)
		if err := WriteState(path, want); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadState(path); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
	}
	if names := listed(t, dir); !reflect.DeepEqual(names, []string{"state.json"}) {
		t.Errorf("left behind: %v", names)
	}
}

// TestUnusableStateIsSetAside writes over a file that a later version of the program may have written.
func TestUnusableStateIsSetAside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	const later = `{"version": 99}`
	if err := os.WriteFile(path, []byte(later), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadState(path)
	for _, part := range []string{path, "version 99", "remove it"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not say %q", err, part)
		}
	}
	if err := WriteState(path, oneService("198.19.0.7")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path + ".unusable"); err != nil || string(text) != later {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := ReadState(path); err != nil {
		t.Error(err)
	}
}

// TestWriteStateFails has the directory be a file, and then the file be a directory.
func TestWriteStateFails(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(dir, "target")
	if err := os.MkdirAll(filepath.Join(target, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(file, "state.json"), target} {
		err := WriteState(path, oneService("198.19.0.7"))
		if err == nil || !strings.Contains(err.Error(), filepath.Dir(path)) || !strings.Contains(err.Error(), "gateway.state_file") {
			t.Errorf("%v does not say what to do", err)
		}
	}
	if names := listed(t, dir); !reflect.DeepEqual(names, []string{"file", "target"}) {
		t.Errorf("left behind: %v", names)
	}
}

func TestReadStateMissing(t *testing.T) {
	if _, err := ReadState(filepath.Join(t.TempDir(), "state.json")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestLoadFrom loads a topology again and again: with the state file that it names, a damaged one, none, and what is remembered.
func TestLoadFrom(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "state.json"), filepath.Join(dir, "web.toml")
	text := "[gateway]\nnode = \"gw\"\nstate_file = \"" + path + "\"\n[cluster]\nservice_cidrs = [\"198.19.0.0/17\"]\n" +
		"[[node]]\nname = \"gw\"\naddresses = [\"198.18.0.1\"]\n[[service]]\nnamespace = \"shop\"\nname = \"web\"\n[[service.port]]\nport = 80\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	load := func(previous *topology.State) (address string, unusable bool) {
		t.Helper()
		top, state, err := LoadFrom(file, previous, func(error) { unusable = true })
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(state.Services["shop/web"].ClusterIPs, top.Services[0].ClusterIPs) || top.Gateway.StateFile != path {
			t.Errorf("%+v of %+v", state, top)
		}
		return top.Services[0].ClusterIPs[0].String(), unusable
	}
	fresh, _ := load(nil)
	if err := WriteState(path, oneService("198.19.0.7")); err != nil {
		t.Fatal(err)
	}
	if a, unusable := load(nil); a != "198.19.0.7" || unusable {
		t.Errorf("after the file: %s %v", a, unusable)
	}
	if a, unusable := load(oneService("198.19.0.8")); a != "198.19.0.8" || unusable {
		t.Errorf("what is remembered counts: %s %v", a, unusable)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if a, unusable := load(nil); a != fresh || !unusable {
		t.Errorf("damaged: %s %v, want %s", a, unusable, fresh)
	}
	if top, err := LoadAfter(file, oneService("198.19.0.9")); err != nil || top.Services[0].ClusterIPs[0].String() != "198.19.0.9" {
		t.Errorf("%v %v", top, err)
	}
}
