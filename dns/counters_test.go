package dns

import (
	"testing"

	mdns "github.com/miekg/dns"

	"sluice/dns/wire"
)

// TestTypes holds the places of types to their names.
func TestTypes(t *testing.T) {
	seen := map[string]bool{}
	for i := range Types {
		name := TypeName(i)
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if got := typeIndex(mdns.StringToType[name]); got != i {
			t.Errorf("%s is counted at %d, and named at %d", name, got, i)
		}
	}
	if typeIndex(65280) != 0 || TypeName(0) != "other" {
		t.Error("types that are not counted apart")
	}
}

// TestOutcome counts what a worker answers: by response code, by type, and with DO.
func TestOutcome(t *testing.T) {
	var w Worker
	ask := func(qtype uint16, edit func(m *mdns.Msg)) {
		m := new(mdns.Msg).SetQuestion("a.example.", qtype)
		edit(m)
		query, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		w.Answer(nil, query, Client{Limit: UDPLimit})
	}
	ask(mdns.TypeAAAA, func(*mdns.Msg) {})
	ask(mdns.TypeAAAA, func(m *mdns.Msg) { m.SetEdns0(1232, true) })
	ask(mdns.TypeAAAA, func(m *mdns.Msg) { m.SetEdns0(1232, false) })
	ask(mdns.TypeHINFO, func(*mdns.Msg) {})
	ask(mdns.TypeA, func(m *mdns.Msg) { m.Opcode = mdns.OpcodeUpdate }) // the question is not read
	ask(mdns.TypeA, func(m *mdns.Msg) { m.Response = true })
	got := w.Counters()
	want := ProtocolCounters{DO: 1, Ignored: 1}
	want.Replies[wire.ServFail], want.Replies[wire.NotImp] = 4, 1
	want.Types[typeIndex(mdns.TypeAAAA)], want.Types[0] = 3, 2
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestTransferred counts a transfer as one reply of its type, and one that is refused as no transfer.
func TestTransferred(t *testing.T) {
	var live tally
	live.transferred(outcome{rcode: wire.NoError, qtype: mdns.TypeAXFR})
	live.transferred(outcome{rcode: wire.NotAuth, qtype: mdns.TypeIXFR, do: true})
	var got ProtocolCounters
	live.addTo(&got)
	got.Add(&got)
	want := ProtocolCounters{DO: 2, Transfers: 2}
	want.Replies[wire.NoError], want.Replies[wire.NotAuth] = 2, 2
	want.Types[typeIndex(mdns.TypeAXFR)], want.Types[typeIndex(mdns.TypeIXFR)] = 2, 2
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
