package topology

import (
	"fmt"
	"strings"
)

// maxChaos is the length of the longest string in a TXT record (RFC 1035 section 3.3).
const maxChaos = 255

// dnsNames resolves which names DNS has.
func (r *resolver) dnsNames() {
	in, out := &r.in.DNS, &r.out.DNS
	out.Pods = PodsMode(in.Pods)
	switch out.Pods {
	case PodsDisabled, PodsInsecure, PodsVerified:
	default:
		r.fault("dns.pods", "%q: expected \"disabled\", \"insecure\" or \"verified\"", in.Pods)
	}
	for i, ns := range in.Namespaces {
		if r.label(fmt.Sprintf("dns.namespaces[%d]", i), "namespace", ns) {
			out.Namespaces = append(out.Namespaces, ns)
		}
	}
	out.IgnoreEmpty, out.NoEndpoints, out.PodNames = in.IgnoreEmptyServices, in.NoEndpoints, in.EndpointPodNames
	out.Zonal, out.Compat, out.Autopath = in.Zonal, in.CoreDNSCompat, in.Autopath
	if in.Zonal && in.NoEndpoints {
		r.fault("dns.zonal", "names of the endpoints of a zone cannot be had with dns.no_endpoints = true")
	}
	r.externalZone()
	r.dnsOverTLS()
	if out.Chaos = in.Chaos; len(in.Chaos) > maxChaos {
		r.fault("dns.chaos", "%d bytes: expected %d at most", len(in.Chaos), maxChaos)
	}
}

// externalZone resolves the zone of addresses outside.
func (r *resolver) externalZone() {
	text := r.in.DNS.ExternalZone
	if text == "" {
		return
	}
	zone := strings.ToLower(strings.TrimSuffix(text, "."))
	switch {
	case !isSubdomain(zone):
		r.fault("dns.external_zone", "%q is not a DNS name: expected one like \"out.example.org\"", text)
	case zone == r.out.Cluster.Domain:
		r.fault("dns.external_zone", "%q is cluster.domain: expected a zone of its own", text)
	default:
		r.out.DNS.ExternalZone = zone
	}
}

// dnsOverTLS resolves where the certificate is. Whether it is one is found out by who reads it.
func (r *resolver) dnsOverTLS() {
	certificate, key := r.in.DNS.TLSCertificate, r.in.DNS.TLSKey
	switch {
	case certificate == "" && key != "":
		r.fault("dns.tls_certificate", "missing: expected the path of the certificate that dns.tls_key is of")
	case certificate != "" && key == "":
		r.fault("dns.tls_key", "missing: expected the path of the key of dns.tls_certificate")
	}
	r.out.DNS.TLSCertificate, r.out.DNS.TLSKey = certificate, key
}

// maxSearch is how many search domains nodes may have: resolvers and Kubernetes take 32, of which the cluster has three (Kubernetes,
// "DNS for Services and Pods", DNS search domain list limits).
const maxSearch = 29

// search resolves the search domains of the nodes.
func (r *resolver) search() {
	for i, text := range r.in.DNS.Search {
		domain := strings.ToLower(strings.TrimSuffix(text, "."))
		if !isSubdomain(domain) {
			r.fault(fmt.Sprintf("dns.search[%d]", i), "%q is not a domain: expected one like \"corp.example.org\"", text)
			continue
		}
		r.out.DNS.Search = append(r.out.DNS.Search, domain)
	}
	if n := len(r.in.DNS.Search); n > maxSearch {
		r.fault("dns.search", "%d domains: expected %d at most", n, maxSearch)
	}
}
