package wire

import (
	"errors"
	"fmt"
	"strings"
)

// The reasons for which a text is not a name. Callers say which object it belongs to.
var (
	ErrLabel = errors.New("a label of a DNS name has 1 to 63 bytes")
	ErrName  = errors.New("a DNS name has at most 255 bytes")
)

// Name turns a dotted name into wire form, in lower case. A dot at the end may be left out; escapes are not understood. It is
// for building zones, not for the way of a query.
func Name(dotted string) (string, error) {
	dotted = strings.ToLower(strings.TrimSuffix(dotted, "."))
	if dotted == "" {
		return "\x00", nil
	}
	var b strings.Builder
	for label := range strings.SplitSeq(dotted, ".") {
		if label == "" || len(label) > MaxLabel {
			return "", fmt.Errorf("label %q: %w", label, ErrLabel)
		}
		b.WriteByte(byte(len(label)))
		b.WriteString(label)
	}
	b.WriteByte(0)
	if b.Len() > MaxName {
		return "", fmt.Errorf("%q: %w", dotted, ErrName)
	}
	return b.String(), nil
}

// Parent returns a name in wire form without its first label. The root has no parent; it is returned itself.
func Parent(name string) string {
	if name == "\x00" {
		return name
	}
	return name[1+int(name[0]):]
}
