package dns

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	mdns "github.com/miekg/dns"

	"sluice/dns/wire"
	"sluice/dns/zone"
)

// Result is a reply in words. Records are lines as in a zone file, with single blanks and names that end in a dot.
type Result struct {
	RCode      string   `json:"rcode"` // NOERROR, NXDOMAIN, REFUSED, ...
	AA         bool     `json:"aa"`
	TC         bool     `json:"tc"`
	Answer     []string `json:"answer"`
	Authority  []string `json:"authority"`
	Additional []string `json:"additional"`
}

// Lookup asks the zones for a name and a type, such as "A" or "TYPE65", and returns what a client would get by TCP, as long as no other
// server has to be asked. The client may be invalid: it is then one that nothing is known of.
func Lookup(z *zone.Zones, client netip.Addr, name, qtype string) (*Result, error) {
	query, err := Query(name, qtype)
	if err != nil {
		return nil, err
	}
	out := make([]byte, TCPLimit)
	n, _ := complete(context.Background(), &sources{zones: z}, query, out, Client{Addr: client, Limit: TCPLimit})
	var reply mdns.Msg
	if err := reply.Unpack(out[:n]); err != nil {
		return nil, fmt.Errorf("reading the reply to %s %s: %w", name, qtype, err)
	}
	return &Result{RCode: RCodeName(reply.Rcode), AA: reply.Authoritative, TC: reply.Truncated,
		Answer: lines(reply.Answer), Authority: lines(reply.Ns), Additional: lines(reply.Extra)}, nil
}

// Query returns a query for a name and a type, such as "A" or "TYPE65", as a stub resolver sends it.
func Query(name, qtype string) ([]byte, error) {
	typ, ok := mdns.StringToType[strings.ToUpper(qtype)]
	if number, numbered := strings.CutPrefix(strings.ToUpper(qtype), "TYPE"); !ok && numbered {
		_, err := fmt.Sscanf(number+"\n", "%d\n", &typ)
		ok = err == nil
	}
	if !ok {
		return nil, fmt.Errorf("%q is not a type of records: expected one like A, AAAA, SRV or TYPE65", qtype)
	}
	if _, ok := mdns.IsDomainName(name); !ok || name == "" {
		return nil, fmt.Errorf("%q is not a DNS name", name)
	}
	query, err := new(mdns.Msg).SetQuestion(mdns.Fqdn(name), typ).Pack()
	if err != nil {
		return nil, fmt.Errorf("packing the question %s %s: %w", name, qtype, err)
	}
	return query, nil
}

// RCodeName returns the name of a response code, such as NXDOMAIN.
func RCodeName(rcode int) string {
	if rcode == wire.BadVers { // the number that BADSIG has in other places
		return "BADVERS"
	}
	if name, ok := mdns.RcodeToString[rcode]; ok {
		return name
	}
	return fmt.Sprintf("RCODE%d", rcode)
}

// lines returns records as text. There are always lists, if empty ones, for the sake of JSON.
func lines(records []mdns.RR) []string {
	out := make([]string, 0, len(records))
	for _, r := range records {
		out = append(out, strings.ReplaceAll(r.String(), "\t", " "))
	}
	return out
}
