package demo

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// printer writes the demo's account of itself. It remembers whether a step failed.
type printer struct {
	w      io.Writer
	color  bool
	failed int
	passed int
}

// newPrinter returns a printer on w, with colours when w is a terminal and NO_COLOR is not set.
func newPrinter(w io.Writer) *printer {
	return &printer{w: w, color: isTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

// isTerminal reports whether w is a character device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// paint wraps s in an SGR colour.
func (p *printer) paint(code, s string) string {
	if !p.color {
		return s
	}
	return "\x1b[" + code + "m" + s + "\x1b[0m"
}

// title prints the head of a section.
func (p *printer) title(s string) { fmt.Fprintf(p.w, "\n%s\n", p.paint("1", s)) }

// step prints one line: what was done, and what was seen when it worked or went wrong when it did not.
func (p *printer) step(what, seen string, err error) {
	if err != nil {
		p.failed++
		fmt.Fprintf(p.w, "  %s %-46s %s\n", p.paint("31", "✗"), what, p.paint("31", err.Error()))
		return
	}
	p.passed++
	fmt.Fprintf(p.w, "  %s %-46s %s\n", p.paint("32", "✔"), what, seen)
}

// counts formats how often each backend answered, in the order of names.
func counts(answers map[string]int, names []string) string {
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "%s %-4d ", n, answers[n])
	}
	return strings.TrimRight(b.String(), " ")
}

// verdict prints the last line.
func (p *printer) verdict() {
	if p.failed > 0 {
		fmt.Fprintf(p.w, "\n%s\n", p.paint("1;31", fmt.Sprintf("%d of %d steps failed", p.failed, p.failed+p.passed)))
		return
	}
	fmt.Fprintf(p.w, "\n%s\n", p.paint("1;32", fmt.Sprintf("all %d steps passed", p.passed)))
}
