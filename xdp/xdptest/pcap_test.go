package xdptest_test

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"sluice/xdp"
	"sluice/xdp/xdptest"
)

// TestPcapThroughMemory reads a capture into the in-memory driver, forwards it, and writes what was sent.
func TestPcapThroughMemory(t *testing.T) {
	frames := [][]byte{bytes.Repeat([]byte{1}, 60), bytes.Repeat([]byte{2}, 1514)}
	var capture, sent bytes.Buffer
	if err := xdptest.WritePcap(&capture, frames); err != nil {
		t.Fatal(err)
	}
	original := bytes.Clone(capture.Bytes())
	read, err := xdptest.ReadPcap(&capture)
	if err != nil {
		t.Fatal(err)
	}
	m := xdp.NewMemory(xdp.MemoryOptions{Interfaces: []xdp.Interface{{Name: "a"}, {Name: "b"}}})
	if err := m.Deliver(0, read...); err != nil {
		t.Fatal(err)
	}
	batch := make([]xdp.Frame, 4)
	if n := m.Transmit(1, batch[:m.Receive(batch)]); n != 2 {
		t.Fatalf("forwarded %d packets, want 2", n)
	}
	if err := m.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := xdptest.WritePcap(&sent, m.Sent(1)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sent.Bytes(), original) {
		t.Error("the capture of what was sent differs from the one that was read")
	}
}

func TestReadPcapErrors(t *testing.T) {
	var good bytes.Buffer
	if err := xdptest.WritePcap(&good, [][]byte{make([]byte, 60)}); err != nil {
		t.Fatal(err)
	}
	change := func(at int, value uint32) []byte {
		b := bytes.Clone(good.Bytes())
		binary.LittleEndian.PutUint32(b[at:], value)
		return b
	}
	for _, tc := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "header"},
		{"no capture", []byte("this is a text, not a capture of anything"), "header"},
		{"link type raw IP", change(20, 101), "must be Ethernet"},
		{"packet cut short by the capture", change(36, 99), "60 of 99 bytes"},
		{"file cut short", good.Bytes()[:good.Len()-1], "packet 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := xdptest.ReadPcap(bytes.NewReader(tc.data)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q in it", err, tc.want)
			}
		})
	}
}
