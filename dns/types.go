package dns

import mdns "github.com/miekg/dns"

// Types is how many types of questions are counted apart: those that CoreDNS counts apart, HTTPS, and all others.
const Types = 19

// typeIndex returns the place of a type in ProtocolCounters.Types.
func typeIndex(qtype uint16) int {
	switch qtype {
	case mdns.TypeA:
		return 1
	case mdns.TypeAAAA:
		return 2
	case mdns.TypeSRV:
		return 3
	case mdns.TypePTR:
		return 4
	case mdns.TypeCNAME:
		return 5
	case mdns.TypeNS:
		return 6
	case mdns.TypeSOA:
		return 7
	case mdns.TypeTXT:
		return 8
	case mdns.TypeMX:
		return 9
	case mdns.TypeHTTPS:
		return 10
	case mdns.TypeANY:
		return 11
	case mdns.TypeDS:
		return 12
	case mdns.TypeDNSKEY:
		return 13
	case mdns.TypeRRSIG:
		return 14
	case mdns.TypeNSEC:
		return 15
	case mdns.TypeNSEC3:
		return 16
	case mdns.TypeAXFR:
		return 17
	case mdns.TypeIXFR:
		return 18
	}
	return 0
}

// TypeName returns the name of the type that is counted at place i of ProtocolCounters.Types: "other" for 0.
func TypeName(i int) string {
	return [Types]string{"other", "A", "AAAA", "SRV", "PTR", "CNAME", "NS", "SOA", "TXT", "MX", "HTTPS", "ANY", "DS", "DNSKEY", "RRSIG", "NSEC", "NSEC3", "AXFR", "IXFR"}[i]
}
