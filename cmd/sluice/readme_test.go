package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// commandLines returns the command lines of the sh blocks of a document, continued lines joined and comments cut off.
func commandLines(t *testing.T, path string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```sh\n")
	for found {
		var block string
		block, rest, _ = strings.Cut(rest, "```")
		for line := range strings.SplitSeq(strings.ReplaceAll(block, "\\\n", " "), "\n") {
			line, _, _ = strings.Cut(line, " #")
			if line = strings.Join(strings.Fields(line), " "); line != "" {
				lines = append(lines, line)
			}
		}
		_, rest, found = strings.Cut(rest, "```sh\n")
	}
	return lines
}

// elsewhere are the documented commands that other tests run: they need root and a network, or build the binary.
func elsewhere(line string) bool {
	for _, prefix := range []string{"make ", "install ", "sluice run ", "curl --unix-socket"} {
		if strings.HasPrefix(line, prefix) {
			return true
		}
	}
	return false
}

// shown are the commands whose output the quick start shows.
func shown(line string) bool {
	return strings.HasPrefix(line, "sluice check ") || strings.HasPrefix(line, "sluice trace ")
}

// TestDocumentedCommands runs the command lines of README and the quick start, each of which must work and print what is shown.
func TestDocumentedCommands(t *testing.T) {
	dir := t.TempDir()
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "bin", "sluice"), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	quickstart := tomlBlock(t, "../../docs/quickstart.md")
	if err := os.WriteFile(filepath.Join(dir, "web.toml"), []byte(quickstart), 0o600); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, doc := range []string{"../../README.md", "../../docs/quickstart.md"} {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range commandLines(t, doc) {
			if elsewhere(line) {
				continue
			}
			ran++
			cmd := exec.Command("sh", "-c", line)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%s: %s: %v\n%s", doc, line, err, out)
			}
			if shown(line) && !strings.Contains(string(text), "```\n"+string(out)+"```") {
				t.Errorf("%s shows something else than %q prints:\n%s", doc, line, out)
			}
		}
	}
	if ran < 5 {
		t.Errorf("only %d commands found", ran)
	}
}

// tomlBlock returns the first TOML block of a document.
func tomlBlock(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "```toml\n")
	block, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatalf("%s has no TOML block", path)
	}
	return block
}

// TestLinks holds the documents to files that exist.
func TestLinks(t *testing.T) {
	docs := []string{"../../README.md", "../../CONTRIBUTING.md"}
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, found...)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	for _, doc := range docs {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s leads to %s, which is not there", doc, m[1])
			}
		}
	}
}
