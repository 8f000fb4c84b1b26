package dns_test

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns"
	"sluice/dns/zone"
)

// dnsCase is a question and what the reply must hold, on the topology of gridInput.
type dnsCase struct {
	ID, Kind, Note, QName, QType, RCode string
	Query                               struct {
		Class     string
		Opcode    int
		Questions *int
		Response  bool
		TCP       bool
		Limit     int // bytes; then the reply must be truncated
		EDNS      *struct {
			Version, Z uint8
			Size       uint16
			Option     uint16
		}
	}
	Answers, Authority, Additional []string
}

func readJSON(t *testing.T, path string, to any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// message packs the query of a case.
func (c *dnsCase) message(t *testing.T) []byte {
	t.Helper()
	m := &mdns.Msg{MsgHdr: mdns.MsgHdr{Id: 4711, RecursionDesired: true, Opcode: c.Query.Opcode, Response: c.Query.Response}}
	q := mdns.Question{Name: c.QName, Qtype: mdns.StringToType[c.QType], Qclass: mdns.ClassINET}
	if c.Query.Class != "" {
		q.Qclass = mdns.StringToClass[c.Query.Class]
	}
	questions := 1
	if c.Query.Questions != nil {
		questions = *c.Query.Questions
	}
	for range questions {
		m.Question = append(m.Question, q)
	}
	if e := c.Query.EDNS; e != nil {
		m.SetEdns0(e.Size, false)
		o := m.IsEdns0()
		o.SetVersion(e.Version)
		o.Hdr.Ttl |= uint32(e.Z)
		if e.Option != 0 {
			o.Option = []mdns.EDNS0{&mdns.EDNS0_LOCAL{Code: e.Option, Data: []byte("8 octets")}}
		}
	}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// ask puts a message to the responder and reads the reply by miekg/dns; nil: none.
func ask(t testing.TB, z *zone.Zones, query []byte, limit int) (*mdns.Msg, []byte) {
	t.Helper()
	out := make([]byte, limit)
	n := dns.Responder{}.Answer(z, query, out, limit)
	if n == 0 {
		return nil, nil
	}
	var m mdns.Msg
	if err := m.Unpack(out[:n]); err != nil {
		t.Fatalf("reply does not unpack: %v\n% x", err, out[:n])
	}
	return &m, out[:n]
}

// text returns records as sorted lines, without the OPT record.
func text(records []mdns.RR) (lines []string) {
	for _, r := range records {
		if r.Header().Rrtype != mdns.TypeOPT {
			lines = append(lines, strings.ReplaceAll(r.String(), "\t", " "))
		}
	}
	slices.Sort(lines)
	return lines
}

func (c *dnsCase) run(t *testing.T, z *zone.Zones) {
	limit := dns.UDPLimit
	if c.Query.TCP {
		limit = dns.TCPLimit
	}
	query := c.message(t)
	m, raw := ask(t, z, query, limit)
	if c.RCode == "NORESPONSE" {
		if m != nil {
			t.Errorf("a reply: %v", m)
		}
		return
	}
	if m == nil {
		t.Fatal("no reply")
	}
	if got := mdns.RcodeToString[m.Rcode]; got != c.RCode && !(m.Rcode == mdns.RcodeBadVers && c.RCode == "BADVERS") {
		t.Errorf("rcode %s, want %s", got, c.RCode)
	}
	c.checkHeader(t, m, query)
	if c.QName == "swarm.shop.svc.grid.example." {
		c.checkSwarm(t, m, raw)
		return
	}
	for _, s := range []struct {
		name string
		got  []mdns.RR
		want []string
	}{{"answer", m.Answer, c.Answers}, {"authority", m.Ns, c.Authority}, {"additional", m.Extra, c.Additional}} {
		want := slices.Clone(s.want)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "<serial>", strconv.Itoa(serial))
		}
		slices.Sort(want)
		if got := text(s.got); !slices.Equal(got, want) {
			t.Errorf("%s:\n got  %q\n want %q", s.name, got, want)
		}
	}
}

// checkHeader checks what holds for every reply.
func (c *dnsCase) checkHeader(t *testing.T, m *mdns.Msg, query []byte) {
	t.Helper()
	if !m.Response || m.Id != 4711 || !m.RecursionDesired || m.RecursionAvailable {
		t.Errorf("header %+v", m.MsgHdr)
	}
	if aa := c.RCode == "NOERROR" || c.RCode == "NXDOMAIN"; m.Authoritative != aa {
		t.Errorf("AA %v", m.Authoritative)
	}
	if read := c.RCode != "FORMERR" && c.RCode != "NOTIMP"; read != (len(m.Question) == 1) {
		t.Errorf("question %v", m.Question)
	} else if read && m.Question[0].Name != c.QName {
		t.Errorf("question spelled %s", m.Question[0].Name)
	}
	o := m.IsEdns0()
	if (o != nil) != (c.Query.EDNS != nil) {
		t.Fatalf("OPT %v", o)
	}
	if o != nil && (o.Version() != 0 || o.UDPSize() != dns.UDPLimit || len(o.Option) > 0 || o.Hdr.Ttl&0xffff != 0) {
		t.Errorf("OPT %v", o)
	}
	if binary.BigEndian.Uint16(query) != m.Id {
		t.Errorf("id %d", m.Id)
	}
}

// checkSwarm checks replies about the service of 300 endpoints: whole records in order, as many as fit.
func (c *dnsCase) checkSwarm(t *testing.T, m *mdns.Msg, raw []byte) {
	t.Helper()
	limit := c.Query.Limit
	if limit == 0 {
		if m.Truncated || len(m.Answer) != 300 {
			t.Errorf("TC %v, %d records", m.Truncated, len(m.Answer))
		}
		return
	}
	const record = 16
	if !m.Truncated || len(raw) > limit || len(raw)+record <= limit {
		t.Errorf("TC %v, %d bytes of %d with %d records", m.Truncated, len(raw), limit, len(m.Answer))
	}
	for i, r := range m.Answer {
		want := swarmAddress(i)
		if a, ok := r.(*mdns.A); !ok || a.A.String() != want || a.Hdr.Name != c.QName {
			t.Fatalf("record %d is %v, want %s", i, r, want)
		}
	}
}

// TestCases runs the cases that the zones of today answer.
func TestCases(t *testing.T) {
	var cases []dnsCase
	readJSON(t, "testdata/cases.json", &cases)
	if len(cases) != 93 {
		t.Errorf("%d cases, want 93", len(cases))
	}
	z := grid(t)
	for i := range cases {
		t.Run(cases[i].ID, func(t *testing.T) { cases[i].run(t, z) })
	}
}

// TestCasesLeft holds the list of cases whose features are not there yet, so that none is forgotten: each moves to
// cases.json with its feature.
func TestCasesLeft(t *testing.T) {
	var left []struct{ ID, Needs string }
	readJSON(t, "testdata/cases_later.json", &left)
	needs := map[string]int{}
	for _, c := range left {
		needs[c.Needs]++
	}
	want := map[string]int{"dns.namespaces": 1, "dns.pods": 4, "dns.forward": 1, "dns.chaos": 1, "dns.transfer_to": 1, "dns.autopath": 4,
		"dns.zonal": 3, "multicluster zones": 2, "dns.external_zone": 3,
		"the server starts with zones; without any it fails every query, see TestNoZones": 1}
	for k, n := range needs {
		if want[k] != n {
			t.Errorf("%d cases need %s, want %d", n, k, want[k])
		}
	}
	if len(left) != 21 {
		t.Errorf("%d cases left, want 21", len(left))
	}
}
