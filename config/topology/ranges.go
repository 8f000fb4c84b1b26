package topology

import "strings"

// sourceRanges resolves who may reach a service. Kubernetes has the ranges for the VIPs of load balancers alone; with the scope
// "all" they hold for every address of a service, and for services of every type that has some.
func (r *resolver) sourceRanges(s serviceAt) {
	in, out := s.in, s.out
	path := s.path + ".load_balancer_source_ranges"
	out.SourceRanges = r.prefixes(path, in.SourceRanges)
	if r.oneOf(path+"_policy", in.SourceRangesPolicy, "allow", "deny") {
		out.SourceRangesDeny = in.SourceRangesPolicy == "deny"
	}
	if r.oneOf(path+"_scope", in.SourceRangesScope, "vip", "all") {
		out.SourceRangesAll = in.SourceRangesScope == "all"
	}
	if len(in.SourceRanges) == 0 {
		const hint, fault = "add load_balancer_source_ranges, or leave it out", "there are no ranges that it holds for"
		if out.SourceRangesDeny {
			r.hinted(path+"_policy", hint, fault)
		}
		if out.SourceRangesAll {
			r.hinted(path+"_scope", hint, fault)
		}
		return
	}
	switch {
	case out.Headless || out.Type == ExternalName:
		r.fault(path, "a service without addresses of its own receives nothing that could be filtered")
	case out.Type != LoadBalancer && !out.SourceRangesAll:
		r.hinted(path, `load_balancer_source_ranges_scope = "all" is for services of every type`,
			"only for type LoadBalancer, this is %s", in.Type)
	}
}

// rangesAnnotation checks the older place of source ranges as Kubernetes does, where the field is not given. No proxy reads it:
// it is for cloud providers.
func (r *resolver) rangesAnnotation(s serviceAt) {
	const key = "service.beta.kubernetes.io/load-balancer-source-ranges"
	list, set := s.in.Annotations[key]
	if !set || len(s.in.SourceRanges) > 0 {
		return
	}
	path := s.path + ".annotations"
	if s.out.Type != LoadBalancer {
		r.fault(path, "%s is only for type LoadBalancer, this is %s", key, s.in.Type)
	}
	if strings.TrimSpace(list) == "" {
		return
	}
	for one := range strings.SplitSeq(list, ",") {
		r.prefix(path, strings.TrimSpace(one))
	}
}
