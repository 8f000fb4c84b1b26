package packet

// IPv4 options that name the routers on the way (RFC 791 section 3.1).
const (
	optLooseRoute  = 131
	optStrictRoute = 137
)

// SourceRouted reports whether the sender of a packet with IPv4 options or IPv6 extension headers has prescribed its way. Such a
// packet is not what its addresses say, and routers refuse it (RFC 7126 section 4.3, RFC 5095). ok is false when its IPv4
// options contradict themselves.
func SourceRouted(frame []byte, in *Info) (routed, ok bool) {
	if in.Family == 6 {
		return in.Proto == extRouting, true // Parse stops at one that is not used up
	}
	options := frame[in.L3+IPv4Len : in.L3+int(frame[in.L3]&15)*4]
	for len(options) > 0 && options[0] != optEnd {
		if options[0] == optNop {
			options = options[1:]
			continue
		}
		if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
			return routed, false
		}
		routed = routed || options[0] == optLooseRoute || options[0] == optStrictRoute
		options = options[options[1]:]
	}
	return routed, true
}
