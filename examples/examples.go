// Package examples holds the topologies that come with the binary.
package examples

import _ "embed"

//go:embed demo.toml
var demo []byte

// Demo returns the topology of "sluice demo", TOML. The caller owns the copy.
func Demo() []byte { return append([]byte(nil), demo...) }
