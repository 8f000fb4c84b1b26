package topology

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// addr parses one address. IPv4-mapped addresses and zones are faults: both have a plainer form.
func (r *resolver) addr(path, s string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" || a.Is4In6() {
		r.fault(path, "%q is not an IP address: expected one like \"198.18.0.10\" or \"2001:db8::10\"", s)
		return netip.Addr{}, false
	}
	return a, true
}

// addrs parses a list of addresses, each of which may occur once, and returns with each its path: not all of the list need be
// among them.
func (r *resolver) addrs(path string, list []string) (out []netip.Addr, paths []string) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		a, ok := r.addr(at, s)
		if ok && slices.Contains(out, a) {
			r.fault(at, "%v is there twice", a)
		} else if ok {
			out, paths = append(out, a), append(paths, at)
		}
	}
	return out, paths
}

// prefix parses a prefix; bits set behind its length are a fault, since they show that something else was meant.
func (r *resolver) prefix(path, s string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		r.fault(path, "%q is not a prefix: expected one like \"198.19.0.0/17\" or \"2001:db8:96::/112\"", s)
		return netip.Prefix{}, false
	}
	if p != p.Masked() {
		r.hinted(path, "use "+p.Masked().String(), "%s has bits set behind its length", s)
		return netip.Prefix{}, false
	}
	return p, true
}

// prefixes parses a list of prefixes.
func (r *resolver) prefixes(path string, list []string) []netip.Prefix {
	out, _ := r.prefixesAt(path, list)
	return out
}

// prefixesAt parses a list of prefixes and returns with each its path.
func (r *resolver) prefixesAt(path string, list []string) (out []netip.Prefix, paths []string) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		// Blanks are tolerated, as Kubernetes does in source ranges.
		if p, ok := r.prefix(at, strings.TrimSpace(s)); ok {
			out, paths = append(out, p), append(paths, at)
		}
	}
	return out, paths
}

// hostsOrPrefixes parses a list of prefixes in which an address stands for itself alone.
func (r *resolver) hostsOrPrefixes(path string, list []string) (out []netip.Prefix) {
	for i, s := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		s = strings.TrimSpace(s)
		if strings.Contains(s, "/") {
			if p, ok := r.prefix(at, s); ok {
				out = append(out, p)
			}
		} else if a, ok := r.addr(at, s); ok {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return out
}

// hostAddr reports whether a can be the address of a host on a network, not only of this one or of this link.
func hostAddr(a netip.Addr) bool {
	return !a.IsUnspecified() && !a.IsLoopback() && !a.IsMulticast() && !a.IsLinkLocalUnicast() &&
		a != netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// portRange parses "first-last".
func (r *resolver) portRange(path, s string) PortRange {
	first, last, ok := strings.Cut(s, "-")
	a, err1 := strconv.ParseUint(strings.TrimSpace(first), 10, 16)
	b, err2 := strconv.ParseUint(strings.TrimSpace(last), 10, 16)
	if !ok || err1 != nil || err2 != nil || a == 0 || a > b {
		r.fault(path, "%q is not a range of ports: expected one like \"32768-60999\"", s)
		return PortRange{}
	}
	return PortRange{uint16(a), uint16(b)}
}

// port checks a port number.
func (r *resolver) port(path string, v int64) (uint16, bool) {
	if v < 1 || v > 65535 {
		r.fault(path, "port %d is out of range: expected 1 to 65535", v)
		return 0, false
	}
	return uint16(v), true
}

// maxDuration is the longest duration that can be set. Sums with the time of day stay far from the end of their type.
const maxDuration = 365 * 24 * time.Hour

// duration parses a positive duration; "" gives the default if there is one.
func (r *resolver) duration(path, s string, def time.Duration) time.Duration {
	if s == "" && def > 0 {
		return def
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		r.fault(path, "%q is not a duration: expected a positive one like \"2s\", \"150ms\" or \"2h\"", s)
		return def
	}
	if d > maxDuration {
		r.fault(path, "%q is too long: expected at most %v", s, maxDuration)
		return def
	}
	return d
}

// oneOf checks a word against those that are allowed.
func (r *resolver) oneOf(path, s string, allowed ...string) bool {
	if slices.Contains(allowed, s) {
		return true
	}
	hint := ""
	if n := Nearest(s, allowed); n != "" {
		hint = fmt.Sprintf("did you mean %q?", n)
	}
	for _, a := range allowed {
		if strings.EqualFold(a, s) {
			hint = fmt.Sprintf("%q is spelled %q", s, a)
		}
	}
	r.hinted(path, hint, "%q is not allowed: expected %s", s, quotedList(allowed))
	return false
}

// quotedList joins words for a message.
func quotedList(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(w)
	}
	if len(q) == 1 {
		return q[0]
	}
	return strings.Join(q[:len(q)-1], ", ") + " or " + q[len(q)-1]
}

// label checks a DNS label (RFC 1123 section 2.1, as Kubernetes has it: lower case, at most 63 bytes).
func (r *resolver) label(path, what, s string) bool {
	if isLabel(s) {
		return true
	}
	if s == "" {
		r.fault(path, "missing: expected a %s of up to 63 lower-case letters, digits and '-'", what)
		return false
	}
	r.fault(path, "%s %q is not a DNS label: expected up to 63 lower-case letters, digits and '-', not at either end", what, s)
	return false
}

// containerPortName checks the name of a port of pods: an IANA service name (RFC 6335 section 5.1) in lower case, as Kubernetes'
// IsValidPortName has it.
func (r *resolver) containerPortName(path, s string) bool {
	if isPortName(s) {
		return true
	}
	if n, err := strconv.ParseUint(s, 10, 16); err == nil {
		r.hinted(path, fmt.Sprintf("write %d", n), "%q is a string: expected a whole number, without quotes, like 80", s)
		return false
	}
	r.fault(path, "%q is not the name of a port of pods: expected up to 15 lower-case letters, digits and '-', with a letter, "+
		"and without '-' at either end or twice in a row", s)
	return false
}

func isPortName(s string) bool {
	return len(s) <= 15 && isLabel(s) && !strings.Contains(s, "--") && strings.ContainsAny(s, "abcdefghijklmnopqrstuvwxyz")
}

func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// isLabelValue reports whether s can be the value of a label of Kubernetes, as the zone of a node is, and is not empty.
func isLabelValue(s string) bool {
	for i := range len(s) {
		c := s[i]
		inside := i > 0 && i < len(s)-1 && (c == '-' || c == '_' || c == '.')
		if !inside && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

// isSubdomain reports whether s is a DNS name of labels, up to 253 bytes.
func isSubdomain(s string) bool {
	if len(s) > 253 {
		return false
	}
	for l := range strings.SplitSeq(s, ".") {
		if !isLabel(l) {
			return false
		}
	}
	return true
}

// secrets parses a list of keys. A fault does not repeat what it is about.
func (r *resolver) secrets(path string, list []string) (out []Secret) {
	for i, s := range list {
		b, err := hex.DecodeString(s)
		switch at := fmt.Sprintf("%s[%d]", path, i); {
		case err != nil || len(b) != len(Secret{}):
			r.fault(at, "not a secret: expected 32 hexadecimal digits, as of \"openssl rand -hex 16\"")
		case slices.Contains(out, Secret(b)):
			r.fault(at, "is there twice")
		default:
			out = append(out, Secret(b))
		}
	}
	return out
}
