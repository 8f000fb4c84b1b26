package dnstest

import (
	"embed"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/config/topology"
	"sluice/dns"
	"sluice/dns/zone"
)

//go:embed testdata/*.json
var files embed.FS

// Case is a question and what the reply must hold, on the topology of Input.
type Case struct {
	ID, Kind, Note, QName, QType, RCode string
	// DNS are settings of the [dns] table, by the names of the fields of topology.DNSInput.
	DNS   json.RawMessage
	Query struct {
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
	// Client is the address of who asks, where that matters, and Recursive whether the server says that it forwards.
	Client    netip.Addr
	Recursive bool
}

// Cases returns all cases that are answered from the zones alone.
func Cases(t testing.TB) []Case { return read(t, "testdata/cases.json") }

// Completed returns the cases whose answers depend on other servers, or on who asks.
func Completed(t testing.TB) []Case { return read(t, "testdata/completed.json") }

func read(t testing.TB, file string) (cases []Case) {
	t.Helper()
	text, err := files.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// Topology returns the topology of the case.
func (c *Case) Topology(t testing.TB) *topology.Topology {
	t.Helper()
	in := Input()
	c.Change(t, in)
	return Resolve(t, in)
}

// Change makes the settings of the case in a topology.
func (c *Case) Change(t testing.TB, in *topology.Input) {
	t.Helper()
	if len(c.DNS) == 0 {
		return
	}
	d := json.NewDecoder(strings.NewReader(string(c.DNS)))
	d.DisallowUnknownFields()
	if err := d.Decode(&in.DNS); err != nil {
		t.Fatal(err)
	}
}

// Zones returns the zones of the case.
func (c *Case) Zones(t testing.TB) *zone.Zones {
	t.Helper()
	z, err := zone.Compile(c.Topology(t), Serial)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Message packs the query of a case.
func (c *Case) Message(t testing.TB) []byte {
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

// Unpack reads a reply by miekg/dns; nil: there is none.
func Unpack(t testing.TB, reply []byte) *mdns.Msg {
	t.Helper()
	if len(reply) == 0 {
		return nil
	}
	var m mdns.Msg
	if err := m.Unpack(reply); err != nil {
		t.Fatalf("reply does not unpack: %v\n% x", err, reply)
	}
	return &m
}

// Text returns records as sorted lines, without the OPT record.
func Text(records []mdns.RR) (lines []string) {
	for _, r := range records {
		if r.Header().Rrtype != mdns.TypeOPT {
			lines = append(lines, strings.ReplaceAll(r.String(), "\t", " "))
		}
	}
	slices.Sort(lines)
	return lines
}

// Limit returns how long the reply may be for a transport: the case may ask for TCP itself.
func (c *Case) Limit(tcp bool) int {
	if tcp || c.Query.TCP {
		return dns.TCPLimit
	}
	return dns.UDPLimit
}

// Check holds the reply to what the case says, for a limit that Limit returned.
func (c *Case) Check(t testing.TB, raw []byte, limit int) {
	t.Helper()
	m := Unpack(t, raw)
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
	c.checkHeader(t, m)
	if c.QName == "swarm.shop.svc.grid.example." {
		c.checkSwarm(t, m, raw, limit)
		return
	}
	for _, s := range []struct {
		name string
		got  []mdns.RR
		want []string
	}{{"answer", m.Answer, c.Answers}, {"authority", m.Ns, c.Authority}, {"additional", m.Extra, c.Additional}} {
		want := slices.Clone(s.want)
		for i := range want {
			want[i] = strings.ReplaceAll(want[i], "<serial>", strconv.Itoa(Serial))
		}
		slices.Sort(want)
		if got := Text(s.got); !slices.Equal(got, want) {
			t.Errorf("%s:\n got  %q\n want %q", s.name, got, want)
		}
	}
}

// checkHeader checks what holds for every reply.
func (c *Case) checkHeader(t testing.TB, m *mdns.Msg) {
	t.Helper()
	if !m.Response || m.Id != 4711 || !m.RecursionDesired || m.RecursionAvailable != c.Recursive {
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
}

// checkSwarm checks replies about the service of 300 endpoints: whole records in order, as many as fit.
func (c *Case) checkSwarm(t testing.TB, m *mdns.Msg, raw []byte, longest int) {
	t.Helper()
	limit := c.Query.Limit
	if longest == dns.TCPLimit {
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
		want := SwarmAddress(i)
		if a, ok := r.(*mdns.A); !ok || a.A.String() != want || a.Hdr.Name != c.QName {
			t.Fatalf("record %d is %v, want %s", i, r, want)
		}
	}
}
