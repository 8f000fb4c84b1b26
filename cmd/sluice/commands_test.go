package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestCommandsReference holds docs/reference/commands.md to the commands and flags that there are.
func TestCommandsReference(t *testing.T) {
	raw, err := os.ReadFile("../../docs/reference/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, cmd := range newRoot().Commands() {
		checkFlags(t, string(raw), cmd)
	}
}

// checkFlags looks for each flag of a command in its section; a command without flags needs a row of the first table only.
func checkFlags(t *testing.T, text string, cmd *cobra.Command) {
	t.Helper()
	if !strings.Contains(text, "`"+cmd.Name()+"`") {
		t.Errorf("sluice %s is not in the reference", cmd.Name())
	}
	if !cmd.HasLocalFlags() {
		return
	}
	body := section(t, text, "## sluice "+cmd.Name())
	for line := range strings.Lines(cmd.LocalFlags().FlagUsages()) {
		flag := flagUsage.FindStringSubmatch(line)
		cells, found := row(body, flag[1])
		if !found {
			t.Errorf("sluice %s: %s is not in the reference", cmd.Name(), flag[1])
		}
		if flag[2] != "" && !strings.Contains(cells, "`"+flag[2]+"`") {
			t.Errorf("sluice %s: %s is %q by default; the reference says %s", cmd.Name(), flag[1], flag[2], cells)
		}
	}
}

// flagUsage takes the name and the default, if there is one, out of a line of help.
var flagUsage = regexp.MustCompile(`(--[a-z-]+)(?:.*\(default "(.*)"\))?`)
