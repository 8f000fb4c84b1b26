package main

import (
	"flag"
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write the generated references and golden files anew")
	testscript.Main(m, map[string]func(){"sluice": main})
}

// TestScripts runs the command lines of testdata/scripts, among them every one that README and docs show for machines
// without root.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/scripts",
		Setup: func(e *testscript.Env) error {
			wd, err := os.Getwd()
			if err != nil {
				return err
			}
			e.Setenv("EXAMPLES", wd+"/../../examples")
			return nil
		},
	})
}
