package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sluice/dns/wire"
)

// under returns the name whose labels, the leftmost last, stand before parent.
func under(parent string, labels ...string) string {
	for _, l := range labels {
		parent = string(byte(len(l))) + l + parent
	}
	return parent
}

// firstLabel returns the leftmost label of a name, "" of the root.
func firstLabel(text string) string { return text[1 : 1+int(text[0])] }

// labelsOf returns the labels of a name, the leftmost first.
func labelsOf(text string) (out []string) {
	for ; text != "\x00"; text = wire.Parent(text) {
		out = append(out, firstLabel(text))
	}
	return out
}

// dotted returns a name as people write it, without the dot at the end. Bytes that would be misread are escaped (RFC 1035 section 5.1).
func dotted(text string) string {
	if text == "\x00" {
		return "."
	}
	var b strings.Builder
	for i, l := range labelsOf(text) {
		if i > 0 {
			b.WriteByte('.')
		}
		b.WriteString(escaped(l))
	}
	return b.String()
}

// escaped writes a label so that it can be asked for.
func escaped(label string) string {
	var b strings.Builder
	for _, c := range []byte(label) {
		switch {
		case c == '.' || c == '\\' || c == '"' || c == '(' || c == ')' || c == ';' || c == '@' || c == '$':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c <= ' ' || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03d", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// reversed returns a list from its end.
func reversed(list []string) []string {
	out := slices.Clone(list)
	slices.Reverse(out)
	return out
}

// dashed returns the label for an address: 172-24-1-21, fd42--9; one that ends in "::" gets a 0.
func dashed(a netip.Addr) string {
	s := strings.NewReplacer(".", "-", ":", "-").Replace(a.String())
	if strings.HasSuffix(s, "-") {
		s += "0"
	}
	return s
}

// undashed returns the address that a label spells. Four numbers are one of IPv4.
func undashed(label string) (netip.Addr, bool) {
	if strings.Trim(label, "0123456789abcdef-") != "" {
		return netip.Addr{}, false
	}
	separator := ":"
	if strings.Count(label, "-") == 3 && !strings.Contains(label, "--") {
		separator = "."
	}
	a, err := netip.ParseAddr(strings.ReplaceAll(label, "-", separator))
	return a, err == nil
}

// count returns a number with a noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list returns words with commas, and with a word in front of the last.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	n := len(words) - 1
	return strings.Join(words[:n], ", ") + " " + last + " " + words[n]
}

// mustName returns the wire form of a name that the zones were compiled with.
func mustName(name string) string {
	text, err := wire.Name(name)
	if err != nil {
		panic("compiled zones have a name that is none: " + err.Error())
	}
	return text
}
