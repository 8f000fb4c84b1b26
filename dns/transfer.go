package dns

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"net/netip"

	mdns "github.com/miekg/dns"

	"sluice/dns/wire"
	"sluice/dns/zone"
)

// envelopeRecords and envelopeBytes bound one message of a transfer, the latter without compression, which only makes it shorter.
const (
	envelopeRecords = 1000
	envelopeBytes   = 60_000
)

// transfer answers a query for a whole zone (AXFR, RFC 5936) or for what has changed in it (IXFR, RFC 1995), and reports whether query
// was one that it has answered, and by which response code. What changed is not kept: who asks for it gets the SOA alone if it is up to
// date, and the whole zone otherwise (RFC 1995 section 4). scratch has TCPLimit bytes.
func transfer(z *zone.Zones, query []byte, client netip.Addr, out *bufio.Writer, scratch []byte) (answered bool, rcode int, err error) {
	var q wire.Question
	if z == nil || wire.Peek(query, &q) != wire.Query || q.Class != wire.ClassIN || q.Type != wire.TypeAXFR && q.Type != wire.TypeIXFR ||
		!z.MayTransfer(client) {
		return false, 0, nil
	}
	var asked mdns.Msg
	if err := asked.Unpack(query); err != nil {
		return false, 0, nil
	}
	w := envelope{request: &asked, edns: q.EDNS, do: q.DO, out: out, scratch: scratch}
	in := z.Zone(string(q.Name()))
	if in == nil {
		return true, wire.NotAuth, w.send(new(mdns.Msg).SetRcode(&asked, wire.NotAuth))
	}
	return true, wire.NoError, w.zone(z, in, &q)
}

// envelope gathers the records of a transfer into messages.
type envelope struct {
	request  *mdns.Msg
	edns, do bool
	out      *bufio.Writer
	scratch  []byte // for the replies that the records are read from
	records  []mdns.RR
	bytes    int
	sent     int // messages
}

// zone writes all of a zone, or its SOA alone if the client has that already.
func (w *envelope) zone(z *zone.Zones, in *zone.Zone, q *wire.Question) error {
	soa, err := records(z, in.Apex(), wire.TypeSOA, w.scratch)
	if err != nil {
		return err
	}
	if err := w.add(soa...); err != nil {
		return err
	}
	if q.Type == wire.TypeIXFR && w.current(z.Serial()) {
		return w.flush()
	}
	for name, types := range z.Contents(in) {
		for _, typ := range types {
			rrs, err := records(z, name, typ, w.scratch)
			if err == nil {
				err = w.add(rrs...)
			}
			if err != nil {
				return err
			}
		}
	}
	if err := w.add(soa...); err != nil {
		return err
	}
	return w.flush()
}

// current reports whether the serial that the client has is serial, or a later one.
func (w *envelope) current(serial uint32) bool {
	for _, rr := range w.request.Ns {
		if soa, ok := rr.(*mdns.SOA); ok {
			return int32(serial-soa.Serial) <= 0 // RFC 1982
		}
	}
	return false
}

// records returns the records of a type that a name has itself, as the responder gives them in out, which has TCPLimit bytes.
func records(z *zone.Zones, name string, typ uint16, out []byte) ([]mdns.RR, error) {
	query := make([]byte, wire.HeaderLen, wire.HeaderLen+len(name)+4)
	query[5] = 1 // one question
	query = append(query, name...)
	query = binary.BigEndian.AppendUint16(query, typ)
	query = binary.BigEndian.AppendUint16(query, wire.ClassIN)
	var reply mdns.Msg
	if err := reply.Unpack(out[:Responder{}.Answer(z, query, out, Client{Limit: TCPLimit})]); err != nil {
		return nil, fmt.Errorf("reading the records of %q: %w", name, err)
	}
	return reply.Answer, nil
}

// add takes records in and sends what fills a message.
func (w *envelope) add(rrs ...mdns.RR) error {
	for _, rr := range rrs {
		length := mdns.Len(rr)
		if len(w.records) >= envelopeRecords || w.bytes+length > envelopeBytes {
			if err := w.flush(); err != nil {
				return err
			}
		}
		w.records = append(w.records, rr)
		w.bytes += length
	}
	return nil
}

// flush sends the records that were gathered. Only the first message repeats the question (RFC 5936 section 2.2.1).
func (w *envelope) flush() error {
	m := new(mdns.Msg).SetReply(w.request)
	m.Authoritative, m.Compress, m.Answer = true, true, w.records
	if w.sent > 0 {
		m.Question = nil
	}
	w.records, w.bytes = nil, 0
	return w.send(m)
}

func (w *envelope) send(m *mdns.Msg) error {
	if w.edns {
		m.SetEdns0(UDPLimit, w.do)
	}
	b, err := m.Pack()
	if err != nil {
		return fmt.Errorf("packing a transfer: %w", err)
	}
	w.sent++
	if err := binary.Write(w.out, binary.BigEndian, uint16(len(b))); err != nil {
		return err
	}
	_, err = w.out.Write(b)
	return err
}
