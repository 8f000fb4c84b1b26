package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/config/topology"
)

// ReadState reads a state file; an error of fs.ErrNotExist says that there is none. Any other says what to do: without a state
// addresses are allocated as if there had been none.
func ReadState(path string) (*topology.State, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var state *topology.State
	if err == nil {
		state, err = topology.ParseState(text)
	}
	if err != nil {
		return nil, fmt.Errorf("state file %s cannot be used: %w; addresses and ports are allocated anew: "+
			"put back a copy of the file to keep those from before, or remove it to go on without", path, err)
	}
	return state, nil
}

// WriteState replaces a state file, so that after a crash at any moment there is the old one or the new one. Its directory is
// made when it is missing. A file there that is no state of this version is moved to path + ".unusable" first.
func WriteState(path string, s *topology.State) error {
	if err := writeState(path, s); err != nil {
		return fmt.Errorf("writing the state file: %w; allocated addresses and ports may change at the next start: "+
			"make %s writable, or name another file as gateway.state_file", err, filepath.Dir(path))
	}
	return nil
}

func writeState(path string, s *topology.State) error {
	text, err := s.Encode()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil: // it may be sound: it stays
		return err
	case bytes.Equal(old, text):
		return nil
	default:
		if err := setAside(path, old); err != nil {
			return err
		}
	}
	return replaceFile(path, text)
}

// setAside moves the file at path out of the way when its text is no state that this program can read.
func setAside(path string, text []byte) error {
	if _, err := topology.ParseState(text); err != nil {
		return os.Rename(path, path+".unusable")
	}
	return nil
}

// replaceFile writes a file beside path, and once it is on the disk gives it that name.
func replaceFile(path string, text []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(0o644) // others may check a topology against it
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// syncDir makes a rename in a directory outlast a loss of power.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
