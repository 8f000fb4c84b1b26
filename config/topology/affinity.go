package topology

import "time"

// Bounds of session_affinity_timeout, as in Kubernetes' validation of core/v1 Service.
const (
	leastAffinity   = time.Second
	mostAffinity    = 24 * time.Hour
	defaultAffinity = 3 * time.Hour
)

// affinity resolves session affinity and what becomes of the flows of endpoints that leave. As in Kubernetes every type of
// service may ask for affinity, also those of which no packet is translated, and without it there is nothing to set of it.
func (r *resolver) affinity(s serviceAt) {
	in, out := s.in, s.out
	if r.oneOf(s.path+".session_affinity", in.SessionAffinity, "None", "ClientIP") {
		out.SessionAffinity = in.SessionAffinity == "ClientIP"
	}
	timeout := r.affinityTimeout(s.path+".session_affinity_timeout", in.AffinityTimeout)
	okScope := r.oneOf(s.path+".session_affinity_scope", in.AffinityScope, "port", "service")
	if out.SessionAffinity {
		out.AffinityTimeout, out.AffinityPerService = timeout, in.AffinityScope == "service"
	} else if in.SessionAffinity == "None" {
		const hint, fault = `set session_affinity = "ClientIP", or leave it out`, "without session_affinity there is nothing that it holds for"
		if timeout != defaultAffinity {
			r.hinted(s.path+".session_affinity_timeout", hint, fault)
		}
		if okScope && in.AffinityScope != "port" {
			r.hinted(s.path+".session_affinity_scope", hint, fault)
		}
	}
	r.removed(s)
}

// affinityTimeout reads how long a client is remembered, in whole seconds as Kubernetes counts it. After a fault it is the
// default.
func (r *resolver) affinityTimeout(path, text string) time.Duration {
	before := len(r.faults)
	d := r.duration(path, text, defaultAffinity)
	switch {
	case len(r.faults) > before:
		return defaultAffinity
	case d < leastAffinity || d > mostAffinity:
		r.fault(path, "%q is out of range: expected \"1s\" to \"24h\"", text)
		return defaultAffinity
	case d%time.Second != 0:
		r.hinted(path, "write "+quotedList([]string{d.Round(time.Second).String()}), "%q is not a whole number of seconds", text)
		return defaultAffinity
	}
	return d
}

// removed resolves on_endpoint_removed. A service of which no packet is translated has no flows to reset.
func (r *resolver) removed(s serviceAt) {
	path := s.path + ".on_endpoint_removed"
	if !r.oneOf(path, s.in.OnEndpointRemoved, "drain", "reset") {
		return
	}
	if s.out.RemovedReset = s.in.OnEndpointRemoved == "reset"; s.out.RemovedReset && (s.out.Headless || s.out.Type == ExternalName) {
		r.fault(path, "a service without addresses of its own has no flows to reset")
	}
}
